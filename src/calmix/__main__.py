"""`calmix`, `python -m calmix`, and `torchrun -m calmix` for several processes."""

from __future__ import annotations

import os
import signal
from types import FrameType

# While the command line itself is loaded, which takes some tenths of a second.
EARLY = {signal.SIGINT: (130, "interrupted"), signal.SIGTERM: (143, "terminated")}


def main() -> None:
    for number in EARLY:
        # A background job of a shell ignores SIGINT; the processes of torchrun are ended by their launcher.
        if signal.getsignal(number) != signal.SIG_IGN and "TORCHELASTIC_RUN_ID" not in os.environ:
            signal.signal(number, _leave)
    from calmix.runtime.thread_waiting import wait_asleep

    wait_asleep()
    from calmix.cli.app import main as run

    run()


def _leave(number: int, frame: FrameType | None) -> None:
    code, word = EARLY[signal.Signals(number)]
    os.write(2, f"calmix: {word}; nothing was written\n".encode())
    os._exit(code)


if __name__ == "__main__":
    main()
