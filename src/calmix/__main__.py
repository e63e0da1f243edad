"""`calmix`, `python -m calmix`, and `torchrun -m calmix` for several processes."""

from __future__ import annotations

import sys


def main() -> None:
    try:
        from calmix.runtime.thread_waiting import wait_asleep

        wait_asleep()
        from calmix.cli.app import main as run
    except KeyboardInterrupt:  # while the command line itself is loaded
        print("calmix: interrupted", file=sys.stderr)
        sys.exit(130)
    run()


if __name__ == "__main__":
    main()
