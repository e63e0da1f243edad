"""Who may read what was written: as the umask says, whatever the library that wrote it thinks."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path


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
        probe = file.with_name(f".{os.getpid()}.permissions")
        os.close(os.open(probe, os.O_CREAT | os.O_WRONLY, 0o666))
        mode = probe.stat().st_mode & 0o777
        probe.unlink()
        file.chmod(mode)
