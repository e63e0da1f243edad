"""Which format a table file has: by its name alone, never by its content."""

from __future__ import annotations

import os
from pathlib import Path

from calmix.user_error import UserError

TABLE_EXTENSIONS = (".csv", ".tsv", ".json", ".jsonl", ".parquet")
EXTENSIONS = (*TABLE_EXTENSIONS, ".npz")
EXTENSIONS_LISTED = f"{' '.join(EXTENSIONS)}, each also .gz"


def is_gzipped(path: str | Path) -> bool:
    return Path(path).suffix.lower() == ".gz"


def data_extension(path: str | Path) -> str | None:
    """The extension that says the format, without `.gz`; None if it is not one of `EXTENSIONS`.

    >>> data_extension("reviews.JSONL.gz"), data_extension("notes.txt"), data_extension("reviews")
    ('.jsonl', None, None)
    """
    extension = Path(Path(path).name.lower().removesuffix(".gz")).suffix
    return extension if extension in EXTENSIONS else None


def file_format(path: str | Path) -> str:
    """The extension that says the format, or a `UserError` that lists those there are."""
    extension = data_extension(path)
    if extension is None:
        # Not Path.exists, which raises where a name is too long.
        if not os.path.exists(path):  # noqa: PTH110
            raise UserError("no such file", file=path, remedy="check the path")
        problem = f"unknown extension {Path(path).suffix!r}" if Path(path).suffix else "no extension"
        raise UserError(problem, file=path, remedy=f"use {EXTENSIONS_LISTED}")
    return extension


def file_stem(path: str | Path) -> str:
    """The file name without its data extension.

    >>> file_stem("data/train.jsonl.gz"), file_stem("data/v1.2")
    ('train', 'v1.2')
    """
    name = Path(path).name
    extension = data_extension(path)
    if extension is None:
        return name
    return name[: name.lower().rindex(extension)]
