"""What the machine allows: a terminal that knows few characters, and places where nothing can be written."""

from __future__ import annotations

import errno
import io
import sys

# What the user can fix, and how. Other errors of the operating system are faults to be reported.
REMEDIES = {
    errno.EACCES: "permission denied; give a place that you may read and write",
    errno.EPERM: "permission denied; give a place that you may read and write",
    errno.EROFS: "the file system is read-only; give another place",
    errno.ENOSPC: "no space left on the disk; free some, then repeat the command (--resume continues a run)",
    errno.EDQUOT: "the disk quota is used up; free some space, then repeat the command",
    errno.ENAMETOOLONG: "the name is too long for the file system; give a shorter one",
    errno.ENOTDIR: "a part of the path is a file, not a directory; give another place",
    errno.EISDIR: "this is a directory; name a file",
    errno.ELOOP: "the links of this path lead in a circle; give another place",
}


def os_error_line(error: OSError) -> str | None:
    """What a failed operation means for the user; None where it is nothing that a user can fix.

    >>> os_error_line(OSError(errno.EROFS, "Read-only file system", "run/config.yaml"))
    'run/config.yaml: the file system is read-only; give another place'
    >>> os_error_line(OSError(errno.EBADF, "Bad file descriptor"))
    """
    remedy = REMEDIES.get(error.errno or 0)
    if remedy is None:
        return None
    place = next((name for name in (error.filename, error.filename2) if name is not None), None)
    if isinstance(place, bytes):
        place = place.decode(errors="replace")
    if place is not None and len(str(place)) > 200:
        place = f"{str(place)[:60]}..."
    return remedy if place is None else f"{place}: {remedy}"


def print_what_a_terminal_cannot_show() -> None:
    r"""Spell out characters that the encoding of the terminal lacks, instead of failing at the last line.

    The minus sign of a table in an ASCII locale becomes \u2212.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and stream.errors == "strict":
            stream.reconfigure(errors="backslashreplace")
