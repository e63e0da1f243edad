"""Data files: `.csv .tsv .json .jsonl .parquet`, each also gzipped, text in UTF-8; `.npz` for images.

Rows are counted from 1, after the header where there is one. What cannot be read is named by its row.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa

from calmix.data.image_sources import npz_table
from calmix.data.json_records import count_json_lines, json_lines_table, json_table
from calmix.data.separated import count_separated_rows, separated_table
from calmix.data.table import Table, shorten
from calmix.user_error import UserError

TABLE_EXTENSIONS = (".csv", ".tsv", ".json", ".jsonl", ".parquet")
EXTENSIONS = (*TABLE_EXTENSIONS, ".npz")
EXTENSIONS_LISTED = f"{' '.join(TABLE_EXTENSIONS)}, each also .gz"
EXTENSIONS_REMEDY = f"use {EXTENSIONS_LISTED}; .npz for images"
DELIMITERS = {".csv": ",", ".tsv": "\t"}


def data_extension(path: str | Path) -> str | None:
    """The extension that says the format, without `.gz`; None if it is not one of `EXTENSIONS`.

    >>> data_extension("reviews.JSONL.gz"), data_extension("notes.txt"), data_extension("reviews")
    ('.jsonl', None, None)
    """
    name = Path(path).name.lower()
    extension = Path(name.removesuffix(".gz")).suffix
    if extension == ".npz" and name.endswith(".gz"):
        return None
    return extension if extension in EXTENSIONS else None


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


def read_table(path: str | Path) -> Table:
    """The columns of a data file, or a `UserError` that says which row cannot be read."""
    source = str(path)
    if not Path(path).exists():
        raise UserError("no such file", file=source)
    extension = data_extension(path)
    if extension is None:
        problem = f"unknown extension {Path(path).suffix!r}" if Path(path).suffix else "no extension"
        raise UserError(problem, file=source, remedy=EXTENSIONS_REMEDY)
    if extension == ".npz":
        return npz_table(Path(path))
    content = _read_bytes(Path(path))
    if not content.strip():
        raise UserError("the file is empty", file=source)
    table = _parse(content, source, extension)
    if table.row_count == 0:
        raise UserError("the file has no data rows", file=source)
    return table


def _parse(content: bytes, source: str, extension: str) -> Table:
    if extension == ".parquet":
        return _parquet_table(content, source)
    if extension == ".json":
        return json_table(_decode(content, source, lambda _: 0), source)
    if extension == ".jsonl":
        return json_lines_table(_decode(content, source, count_json_lines), source)
    delimiter = DELIMITERS[extension]
    text = _decode(content, source, lambda text: count_separated_rows(text, delimiter))
    return separated_table(text, source, delimiter)


def _read_bytes(path: Path) -> bytes:
    try:
        content = path.read_bytes()
        return gzip.decompress(content) if path.suffix.lower() == ".gz" else content
    except (gzip.BadGzipFile, zlib.error, EOFError):
        raise UserError(
            "not a whole gzip file", file=path, remedy="copy it again, or remove .gz from its name"
        ) from None
    except OSError as error:
        raise UserError(f"cannot be read ({error.strerror})", file=path) from None


def _decode(content: bytes, source: str, count_rows: Callable[[str], int]) -> str:
    """UTF-8 text without its byte order mark; `count_rows` counts the data rows in a piece of it."""
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        # The text up to the bad byte, with a letter in its place, ends inside the bad row. The codec
        # counts from after the byte order mark.
        body = error.object
        before = body[: error.start].decode() + "?"
        raise UserError(
            f"line {before.count(chr(10)) + 1} is not UTF-8 (byte 0x{body[error.start]:02x})",
            file=source,
            row=count_rows(before) or None,
            remedy="save the file as UTF-8",
        ) from None


def _parquet_table(content: bytes, source: str) -> Table:
    from pyarrow import parquet

    def unreadable(error: Exception) -> UserError:
        return UserError(f"not a whole Parquet file ({shorten(str(error), 80)})", file=source)

    try:
        file = parquet.ParquetFile(pa.BufferReader(content))
    except (pa.ArrowException, OSError) as error:
        raise unreadable(error) from None

    def read_column(name: str) -> list[Any]:
        try:
            return list(file.read(columns=[name]).column(name).to_pylist())
        except (pa.ArrowException, OSError) as error:
            raise unreadable(error) from None

    return Table(source, tuple(file.schema_arrow.names), file.metadata.num_rows, read_column)
