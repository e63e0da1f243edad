"""Started by the tests: a `calmix` command that is killed when a function is called for the nth time.

    python killed.py calmix.training.pipeline.finalise.save_model 1 train --train ...

SIGKILL, so that nothing is tidied up: what a power cut leaves.
"""

import os
import signal
import sys
from importlib import import_module

from calmix.cli.app import main


def kill_at(function: str, call: int) -> None:
    module_name, _, name = function.rpartition(".")
    module = import_module(module_name)
    original, calls = getattr(module, name), 0

    def killed(*args, **kwargs):
        nonlocal calls
        calls += 1
        if calls == call:
            os.kill(os.getpid(), signal.SIGKILL)
        return original(*args, **kwargs)

    setattr(module, name, killed)


if __name__ == "__main__":
    kill_at(sys.argv[1], int(sys.argv[2]))
    main(sys.argv[3:])
