"""A `calmix` command in a fork of this process that meets a fault at its n-th file-system event.

count     the events are counted
kill      SIGKILL before the n-th: what a power cut leaves
nospace   the n-th and all later ones fail: no space left on the disk
denied    the n-th and all later ones fail: permission denied

An event is what Python's audit hooks report about files under a directory: opening for writing, renaming,
removing, making and removing directories, changing permissions. What native code writes is not seen; a small
disk (`test_full_disk.py`) meets that. Forks, so that torch is loaded once for hundreds of commands.
"""

from __future__ import annotations

import errno
import os
import signal
import sys
import tempfile
import traceback
from pathlib import Path
from typing import Any, NamedTuple

from reliability.world import run_calmix

EVENTS = {"open", "os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.chmod", "os.truncate", "os.link"}
REMOVALS = ("os.remove", "os.rmdir")
FAULTS = {"nospace": errno.ENOSPC, "denied": errno.EACCES}
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


class Ended(NamedTuple):
    """How a command ended: its exit code (negative: a signal), what it said, the events it came to."""

    code: int
    err: str
    events: int


class Faults:
    """An audit hook that counts events, and makes the n-th one fail."""

    def __init__(self, kind: str, number: int, root: Path) -> None:
        self.kind, self.number, self.root = kind, number, str(root.resolve())
        self.seen = 0

    def __call__(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event not in EVENTS or not arguments or not self.is_inside(arguments[0]):
            return
        if event == "open" and not is_write(arguments[1], arguments[2]):
            return
        self.seen += 1
        if self.kind == "kill" and self.seen == self.number:
            os.kill(os.getpid(), signal.SIGKILL)
        # What is removed needs no space, and it must be possible to tidy up after the fault.
        if self.kind in FAULTS and self.seen >= self.number and event not in REMOVALS:
            raise OSError(FAULTS[self.kind], os.strerror(FAULTS[self.kind]), str(arguments[0]))

    def is_inside(self, place: Any) -> bool:
        return isinstance(place, str | bytes) and str(Path(os.fsdecode(place)).absolute()).startswith(
            self.root
        )


def is_write(mode: Any, flags: Any) -> bool:
    if isinstance(mode, str):
        return any(letter in mode for letter in "wax+")
    return isinstance(flags, int) and bool(flags & WRITES)


def run_forked(
    arguments: list[str], root: Path, kind: str = "count", number: int = 0, *, seconds: int = 300
) -> Ended:
    """A command in a fork, with a fault at the n-th event under `root`."""
    sys.stdout.flush()
    sys.stderr.flush()
    with tempfile.TemporaryFile() as err, tempfile.TemporaryFile() as facts:
        child = os.fork()
        if child == 0:
            code = 1
            try:
                os.dup2(err.fileno(), 2)
                os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
                sys.stdout, sys.stderr = os.fdopen(1, "w"), os.fdopen(2, "w")
                signal.alarm(seconds)
                faults = Faults(kind, number, root)
                sys.addaudithook(faults)
                code = run_calmix(*arguments)
                os.write(facts.fileno(), str(faults.seen).encode())
            except BaseException:
                traceback.print_exc()
            finally:
                sys.stderr.flush()
                os._exit(code)
        _, status = os.waitpid(child, 0)
        err.seek(0)
        facts.seek(0)
        return Ended(
            os.waitstatus_to_exitcode(status), err.read().decode(errors="replace"), int(facts.read() or 0)
        )
