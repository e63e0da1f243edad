"""Limits of the environment: terminals with few characters, and places that cannot be written to."""

from __future__ import annotations

import errno
import io
import os
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
    errno.EFBIG: "the file grew larger than the system allows; raise the limit (ulimit -f), then repeat",
    errno.EIO: "the disk reports an error; check it, then repeat the command (--resume continues a run)",
    errno.ESTALE: "the network file system lost the file; repeat the command (--resume continues a run)",
    errno.EBUSY: "the file or directory is in use; give another place",
    errno.ELOOP: "the links of this path form a loop; give another place",
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


# What native writers say about a write that failed, in words of their own.
NATIVE = {
    "os error 28": errno.ENOSPC, "No space left on device": errno.ENOSPC, "os error 27": errno.EFBIG,
    "File too large": errno.EFBIG, "os error 30": errno.EROFS, "os error 13": errno.EACCES,
    "Disk quota exceeded": errno.EDQUOT,
}  # fmt: skip
WRITERS = ("PytorchStreamWriter failed writing", "unexpected pos", "inline_container")


def full_disk_line(error: Exception) -> str | None:
    """A write that failed in native code: torch and safetensors raise no OSError.

    >>> full_disk_line(RuntimeError("I/O error: No space left on device (os error 28)"))
    'no space left on the disk; free some, then repeat the command (--resume continues a run)'
    >>> full_disk_line(RuntimeError("shapes differ"))
    """
    said = str(error)
    for words, number in NATIVE.items():
        if words in said:
            return REMEDIES[number]
    if isinstance(error, RuntimeError) and any(words in said for words in WRITERS):
        return "a file could not be written; " + REMEDIES[errno.ENOSPC]
    return None


NOBODY_READS = 141
"""128 + SIGPIPE: what a shell shows of a program whose output nobody reads any more."""


def close_output() -> int:
    """Write to nowhere from here on, since what Python holds back would fail at its end; the exit code."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    return NOBODY_READS


def print_what_a_terminal_cannot_show() -> None:
    r"""Spell out characters that the encoding of the terminal lacks, instead of failing at the last line.

    The minus sign of a table in an ASCII locale becomes \u2212.
    """
    for stream in (sys.stdout, sys.stderr):
        # In the C locale Python's own choice for standard output is surrogateescape.
        if isinstance(stream, io.TextIOWrapper) and stream.errors in ("strict", "surrogateescape"):
            stream.reconfigure(errors="backslashreplace")
