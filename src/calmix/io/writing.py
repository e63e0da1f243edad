"""Write a table in the format of its file name, or a directory that appears whole or not at all."""

from __future__ import annotations

import gzip
import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa

from calmix.io.formats import TABLE_EXTENSIONS, data_extension
from calmix.io.replacing import as_umask_says, fresh_name, make_directory, remove_abandoned
from calmix.io.run_directory import replacing
from calmix.user_error import UserError, argument


def check_writable(path: Path) -> None:
    """Before the work is done: a file name of a known format, in a place that can be written."""
    if data_extension(path) not in TABLE_EXTENSIONS:
        raise UserError("unknown extension", file=path, remedy=f"use one of {', '.join(TABLE_EXTENSIONS)}")
    check_place(path)


def check_place(path: Path) -> None:
    """Before the work is done: nothing is in the way of a file of this name."""
    if path.is_dir():
        raise UserError("the output is a directory", file=path, remedy="name a file")
    for place in path.parents:
        if place.exists() and not place.is_dir():
            raise UserError("the output cannot be created: a file is in the way", file=place)


def check_not_input(output: Path, *inputs: str | Path | None) -> None:
    """Refuse to write over what is read, by whatever name: a link to it too."""
    for given in inputs:
        if given is not None and output.exists() and Path(given).exists() and output.samefile(given):
            raise UserError(
                "the output is the input", file=output, remedy=f"name another {argument('output')}"
            )


def write_table(path: Path, table: pa.Table) -> None:
    """csv, tsv, jsonl, json or parquet, each also gzipped; the file appears whole or not at all."""
    check_writable(path)
    extension = data_extension(path)
    with replacing(path) as fresh:
        content = _encode(table, str(extension))
        fresh.write_bytes(gzip.compress(content, mtime=0) if path.suffix == ".gz" else content)


def _encode(table: pa.Table, extension: str) -> bytes:
    sink = pa.BufferOutputStream()
    if extension in (".csv", ".tsv"):
        from pyarrow import csv

        csv.write_csv(
            _with_texts(table, in_cells=True),
            sink,
            csv.WriteOptions(delimiter="\t" if extension == ".tsv" else ","),
        )
    elif extension == ".parquet":
        from pyarrow import parquet

        parquet.write_table(table, sink)
    else:
        records = _with_texts(table, in_cells=False).to_pylist()
        if extension == ".json":
            return _json(records).encode()
        return "".join(_json(record) + "\n" for record in records).encode()
    return bytes(sink.getvalue())


def _with_texts(table: pa.Table, *, in_cells: bool) -> pa.Table:
    """What the format has no value for as texts: lists in the cells of csv as JSON, in JSON times and
    decimals as they are written."""
    for index, column in enumerate(table.columns):
        kind = column.type
        if pa.types.is_dictionary(kind):
            column = column.cast(kind.value_type)
        elif pa.types.is_temporal(kind) or pa.types.is_decimal(kind):
            column = column if in_cells else column.cast(pa.string())
        elif isinstance(kind, pa.BaseExtensionType) or kind == pa.string_view():
            column = pa.array([None if value is None else str(value) for value in column.to_pylist()])
        elif in_cells and pa.types.is_nested(kind):
            column = pa.array([None if value is None else _json(value) for value in column.to_pylist()])
        table = table.set_column(index, table.column_names[index], column)
    return table


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


def check_new_directory(output: Path) -> None:
    """What is there already is somebody's work, and is not written over."""
    if output.exists() and (not output.is_dir() or any(output.iterdir())):
        raise _exists(output)


@contextmanager
def new_directory(output: Path) -> Iterator[Path]:
    """A directory to write into, which becomes `output` if nothing goes wrong, and is removed otherwise.

    >>> import tempfile
    >>> output = Path(tempfile.mkdtemp()) / "out"
    >>> with new_directory(output) as fresh:
    ...     _ = (fresh / "result.txt").write_text("42")
    ...     output.exists()
    False
    >>> [file.name for file in output.iterdir()]
    ['result.txt']
    """
    check_new_directory(output)
    # A name of its own: two processes with one output do not meet, and nobody's directory is removed.
    remove_abandoned(output.absolute())
    fresh = fresh_name(output.absolute())
    make_directory(fresh)
    try:
        yield fresh
        as_umask_says(file for file in list(fresh.rglob("*")) if file.is_file())
        try:
            if output.exists():
                output.rmdir()
            fresh.rename(output)
        except OSError as error:  # made by another process in the meantime
            raise _exists(output) from error
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def _exists(output: Path) -> UserError:
    return UserError("the output exists already", file=output, remedy=f"name another {argument('output')}")
