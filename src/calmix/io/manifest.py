"""The manifest of finished work: files with sizes and hashes, and whether they still match.

The hash (xxh3, 128 bits) finds damage, not malice: 270 MB take some hundredths of a second.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

HASH = "xxh3_128"
BLOCK = 1 << 18

Manifest = dict[str, dict[str, Any]]


def make_manifest(directory: Path, files: Iterable[Path]) -> Manifest:
    """Sizes and hashes of files, by their place in the directory.

    >>> import tempfile
    >>> directory = Path(tempfile.mkdtemp())
    >>> _ = (directory / "a.txt").write_text("a")
    >>> make_manifest(directory, directory.iterdir())
    {'a.txt': {'bytes': 1, 'xxh3_128': 'a96faf705af16834e6c632b61e964e1f'}}
    """
    return {
        file.relative_to(directory).as_posix(): {"bytes": file.stat().st_size, HASH: file_hash(file)}
        for file in sorted(files)
    }


def find_damage(directory: Path, manifest: Mapping[str, Any], within: str = "") -> str | None:
    """The first file that is not as the manifest says, and how it differs; None where all are.

    `within`: the files that start with this alone.
    """
    for name, facts in manifest.items():
        if not name.startswith(within):
            continue
        file = directory / name
        try:
            size = file.stat().st_size
            if size != facts["bytes"]:
                return f"{name} has {size:,} bytes, not {facts['bytes']:,}"
            if file_hash(file) != facts[HASH]:
                return f"{name} has changed"
        except FileNotFoundError:
            return f"{name} is missing"
        except OSError as error:
            return f"{name} cannot be read ({error.strerror})"
        except (KeyError, TypeError):
            return "what it is made of cannot be read"
    return None


def file_hash(file: Path) -> str:
    import xxhash

    digest = xxhash.xxh3_128()
    block = memoryview(bytearray(BLOCK))  # one block for all: it stays in the processor's cache
    with file.open("rb", buffering=0) as opened:
        while length := opened.readinto(block):
            digest.update(block[:length])
    return str(digest.hexdigest())


def sync(path: Path) -> None:
    """Have a file, or the names in a directory, on disk before anything is built on it."""
    if path.is_dir() and os.name == "nt":  # Windows syncs no directories
        return
    descriptor = os.open(path, os.O_RDONLY if os.name != "nt" else os.O_RDWR)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
