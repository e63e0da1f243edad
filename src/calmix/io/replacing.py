"""Files that appear whole or not at all, with random temporary names and the permissions of the umask."""

from __future__ import annotations

import errno
import hashlib
import os
import platform
import re
import secrets
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

# .PROCESS.TOKEN.NAME, and .PROCESS.NAME of earlier versions. The token begins with the machine.
UNFINISHED = re.compile(r"\.([0-9]+)\.(?:([0-9a-f]{8})[0-9a-f]{16}\.)?(.+)")


def fresh_name(path: Path) -> Path:
    """A neighbour to write to. In a directory that others write to as well, nobody can put a link in its
    place beforehand. The suffix stays last: writers choose a format by it.

    >>> fresh_name(Path("run/metrics.json")) != fresh_name(Path("run/metrics.json"))
    True
    """
    return path.with_name(f".{os.getpid()}.{_machine()}{secrets.token_hex(8)}.{path.name}")


@cache
def _machine() -> str:
    return hashlib.sha256(platform.node().encode()).hexdigest()[:8]


def make_directory(path: Path) -> None:
    """Make a directory and those it is in."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except FileNotFoundError as error:  # a virtual file system, such as /proc, has no place for it
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM), str(path)) from error


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Write to a neighbour, then rename: a reader sees the old file or the whole new one, never half.

    >>> import tempfile
    >>> target = Path(tempfile.mkdtemp()) / "metrics.json"
    >>> with replacing(target) as fresh:
    ...     _ = fresh.write_text("{}")
    >>> target.read_text()
    '{}'
    """
    make_directory(path.parent)
    remove_abandoned(path)
    fresh = fresh_name(path)
    try:
        yield fresh
        fresh.replace(path)
    finally:
        fresh.unlink(missing_ok=True)


def remove_abandoned(path: Path) -> None:
    """What processes of this machine that are gone were writing to replace `path`, a file or a directory.

    >>> import tempfile
    >>> target = Path(tempfile.mkdtemp()) / "map"
    >>> gone, own = fresh_name(target), fresh_name(target)
    >>> gone = gone.with_name(gone.name.replace(f".{os.getpid()}.", ".4194305."))  # no process has it
    >>> gone.mkdir(), own.mkdir()
    (None, None)
    >>> remove_abandoned(target)
    >>> [place.exists() for place in (gone, own)]
    [False, True]
    """
    with suppress(OSError):  # a place that cannot be listed or written is said by whoever writes there
        for place in path.parent.iterdir():
            found = UNFINISHED.fullmatch(place.name) if place.name.startswith(".") else None
            if found and found[3] == path.name and found[2] == _machine() and not _is_alive(int(found[1])):
                shutil.rmtree(place) if place.is_dir() and not place.is_symlink() else place.unlink()


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:  # of another user
        return True
    return True


def remove_leftovers(directory: Path) -> None:
    """What `replacing` was writing when its process was killed.

    >>> import tempfile
    >>> directory = Path(tempfile.mkdtemp())
    >>> _ = (directory / ".71.metrics.json").write_text("{"), (directory / "metrics.json").write_text("{}")
    >>> _ = fresh_name(directory / "metrics.json").write_text("{")
    >>> remove_leftovers(directory)
    >>> [path.name for path in directory.iterdir()]
    ['metrics.json']
    """
    for path in directory.rglob(".*"):
        found = UNFINISHED.fullmatch(path.name)
        # A file of somebody else's may look like one, but is not that of a file of ours.
        if found and path.is_file() and (found[3] == "metrics.json" or path.with_name(found[3]).exists()):
            path.unlink(missing_ok=True)


def as_umask_says(files: Iterable[Path]) -> None:
    """Give files the permissions that any new file gets. Libraries that write through temporary files leave
    0600: nobody but the user could read the weights.

    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "weights"
    >>> file.touch(0o600)
    >>> other = file.with_name("other")
    >>> _ = other.write_text("")
    >>> as_umask_says([file])
    >>> file.stat().st_mode == other.stat().st_mode
    True
    """
    for file in files:
        # Asked of a file, not of the process: reading the umask means setting it, for all threads.
        probe = fresh_name(file.with_name("permissions"))
        os.close(os.open(probe, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
        mode = probe.stat().st_mode & 0o777
        probe.unlink()
        file.chmod(mode)
