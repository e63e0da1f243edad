"""A lock on work that several runs may ask for at once: one of them does it, the others find it done."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from calmix.runtime.hardware import broadcast_from_rank0
from calmix.runtime.processes import is_alone, is_first_process

SECONDS_BETWEEN_TRIES = 0.5


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """One run at a time; the system lets go of the lock when its holder dies.

    The processes of a run that is spread over several come here together, as a group that is already formed:
    the first one holds the lock for all of them.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        if sys.platform != "win32":
            _take(file)
        yield


def _take(file: IO[str]) -> None:
    import fcntl

    if is_alone():
        fcntl.flock(file, fcntl.LOCK_EX)
        return

    def is_taken() -> bool:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    # Asked again and again: who waits for another process in one long call is given up after a while, and
    # the work that the lock is on may take hours.
    while not broadcast_from_rank0(is_first_process() and is_taken()):
        time.sleep(SECONDS_BETWEEN_TRIES)
