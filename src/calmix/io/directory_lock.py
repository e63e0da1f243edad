"""One writer at a time: a lock on a directory that two processes must not write into together.

The lock is the operating system's: it goes when its holder ends, however it ends. The file of a killed
process locks nobody out.
"""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from calmix.runtime.processes import is_first_process
from calmix.user_error import UserError

TRIES = 5
"""A holder that leaves may take the directory with it, just before the lock file is made in it."""


@contextmanager
def only_writer(file: Path, place: Path, remedy: str) -> Iterator[None]:
    """Hold the lock `file` on `place`, or refuse with who holds it. Of several processes the first one locks.

    The file, and what directories were made for it, are gone at the end unless something else is in them.
    """
    if not is_first_process():
        yield
        return
    made = [parent for parent in file.parents if not parent.exists()]
    lock = _take(file, place, remedy)
    try:
        yield
    finally:
        with suppress(OSError):  # while it is held: whoever opened it before finds that it guards nothing
            file.unlink()
        lock.release()
        with suppress(OSError):
            file.unlink(missing_ok=True)  # where an open file cannot be removed
        # The innermost first; what is not empty stays, and so does all that it is in.
        with suppress(OSError):
            for directory in made or [file.parent]:
                directory.rmdir()


def _take(file: Path, place: Path, remedy: str) -> FileLock:
    for _ in range(TRIES):
        lock = FileLock(file)
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            lock.acquire(blocking=False)
        except FileNotFoundError:
            continue
        except PermissionError as error:
            raise UserError("no permission to write here", file=place, remedy=remedy) from error
        except Timeout:
            raise UserError(f"{_holder(file)} is writing here", file=place, remedy=remedy) from None
        since = time.strftime("%Y-%m-%d %H:%M:%S")
        with suppress(OSError):  # Windows lets nobody write what is locked
            file.write_text(f"process {os.getpid()} on {platform.node()} (since {since})", encoding="utf-8")
        return lock
    if not file.parent.is_dir():  # as under /proc
        raise UserError("no directory can be made here", file=place, remedy=remedy)
    raise UserError("another process is writing here", file=place, remedy=remedy)


def _holder(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8").strip() or "another process"
    except (OSError, UnicodeDecodeError):
        return "another process"
