"""A run directory while it is written: who may write, and what may be removed from it.

Only what calmix wrote is ever removed. A directory of checkpoints is calmix's if one of its own files is in
it: the lock, which is made before anything else, or the fingerprints of the data. All other files in a run
(notes, figures) are the user's and stay.
"""

from __future__ import annotations

import json
import shutil
from contextlib import AbstractContextManager, suppress
from pathlib import Path

from calmix.io.directory_lock import only_writer
from calmix.io.run_directory import RunDirectory
from calmix.training.checkpoints.resumable import MARKER, checkpoints_in
from calmix.user_error import UserError, argument

LOCK_FILE = "calmix.lock"
FINGERPRINTS_FILE = "data.json"


def writing_to(run: RunDirectory) -> AbstractContextManager[None]:
    """Be the only one who writes into this run directory."""
    check_checkpoints(run)
    remedy = f"wait for it, or name another {argument('output')}"
    return only_writer(run.checkpoints / LOCK_FILE, run.path, remedy)


def check_checkpoints(run: RunDirectory) -> None:
    """Refuse a directory that has the name of calmix's and is not."""
    if run.checkpoints.exists() and not are_ours(run.checkpoints):
        raise UserError(
            "the directory 'checkpoints' in the output was not made by calmix",
            file=run.checkpoints,
            remedy=f"move it, or name another {argument('output')}",
        )


def are_ours(checkpoints: Path) -> bool:
    """Whether a directory of checkpoints is calmix's: an empty one may be."""
    if not checkpoints.is_dir():
        return False
    if (checkpoints / LOCK_FILE).is_file() or not any(checkpoints.iterdir()):
        return True
    try:
        content = json.loads((checkpoints / FINGERPRINTS_FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return any((path / MARKER).is_file() for path in checkpoints_in(checkpoints))
    return isinstance(content, dict) and all(isinstance(value, str) for value in content.values())


def remove_checkpoints(run: RunDirectory) -> None:
    """Remove the checkpoints of a run; the lock goes with its holder."""
    if not run.checkpoints.is_dir() or not are_ours(run.checkpoints):
        return
    for path in checkpoints_in(run.checkpoints):
        shutil.rmtree(path, ignore_errors=True)
    # Last: it says whose directory this is.
    (run.checkpoints / FINGERPRINTS_FILE).unlink(missing_ok=True)
    with suppress(OSError):
        run.checkpoints.rmdir()


def tidy_finished(run: RunDirectory) -> None:
    """Remove what a process that was killed between its last two steps has left in a finished run."""
    # A run that cannot be written, or that somebody else is tidying, is finished all the same.
    with suppress(UserError, OSError):
        if run.checkpoints.exists():
            with writing_to(run):
                remove_checkpoints(run)


def discard(run: RunDirectory) -> None:
    """Remove what a call has written into a run directory of its own making that nothing can be made of."""
    remove_checkpoints(run)
    for file in (run.config_file, run.data_checks_file):
        file.unlink(missing_ok=True)
    for directory in (run.teaching, run.tensorboard):
        shutil.rmtree(directory, ignore_errors=True)
    with suppress(OSError):  # what somebody else has put there stays
        run.path.rmdir()
