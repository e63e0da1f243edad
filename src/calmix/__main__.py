"""`calmix`, `python -m calmix`, and `torchrun -m calmix` for several processes."""

from __future__ import annotations

import os
import signal
import sys
from types import FrameType

# While the command line itself is loaded, which takes some tenths of a second.
EARLY = {signal.SIGINT: (130, "interrupted"), signal.SIGTERM: (143, "terminated")}


def main() -> None:
    for number in EARLY:
        # A background job of a shell ignores SIGINT; the processes of torchrun are ended by their launcher.
        if signal.getsignal(number) != signal.SIG_IGN and "TORCHELASTIC_RUN_ID" not in os.environ:
            signal.signal(number, _leave)
    wait_asleep()
    from calmix.cli.app import main as run

    run()


def wait_asleep() -> None:
    """Let idle threads sleep, unless the user has set how they wait. Too late once torch is loaded.

    By default an idle thread of OpenMP spins, since the next piece of work comes soon. On a machine that
    others use, spinning takes the time of the very thread that is waited for.
    """
    if "torch" not in sys.modules:
        os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")


def _leave(number: int, frame: FrameType | None) -> None:
    code, word = EARLY[signal.Signals(number)]
    os.write(2, f"calmix: {word}; nothing was written\n".encode())
    os._exit(code)


if __name__ == "__main__":
    main()
