"""Tables from files of several formats, whole or in batches of rows."""

from __future__ import annotations

import gzip
import json
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from calmix.user_error import UserError

FORMATS = (".parquet", ".csv", ".tsv", ".jsonl", ".json", ".npz")


def file_format(file: Path) -> tuple[str, bool]:
    """The format by the file's name, and whether it is gzipped.

    >>> file_format(Path("scores.csv.gz"))
    ('.csv', True)
    """
    gzipped = file.suffix.lower() == ".gz"
    suffix = (Path(file.stem) if gzipped else file).suffix.lower()
    if suffix not in FORMATS:
        raise UserError(
            f"unknown file type {suffix or file.name!r}", file=file, remedy=f"known are {', '.join(FORMATS)}"
        )
    return suffix, gzipped


def read_table(file: Path) -> pa.Table:
    """The whole file as one table."""
    return pa.concat_tables(table_batches(file, batch_rows=None))


def table_batches(file: Path, *, batch_rows: int | None) -> Iterator[pa.Table]:
    """The file as tables of at most about `batch_rows` rows where its format can be streamed."""
    suffix, gzipped = file_format(file)
    if not file.is_file():
        raise UserError("no such file", file=file)
    if file.stat().st_size == 0:
        raise UserError("the file is empty", file=file)
    if suffix == ".parquet":
        yield from _parquet(file, gzipped, batch_rows)
    elif suffix in (".csv", ".tsv"):
        yield from _csv(file, "\t" if suffix == ".tsv" else ",")
    elif suffix == ".npz":
        yield _npz(file)
    else:
        yield _json(file, lines=suffix == ".jsonl")


def _parquet(file: Path, gzipped: bool, batch_rows: int | None) -> Iterator[pa.Table]:
    source: Any = pa.BufferReader(gzip.decompress(file.read_bytes())) if gzipped else file
    try:
        with pa.parquet.ParquetFile(source) as parquet:
            schema = parquet.schema_arrow
            if batch_rows is None:
                yield parquet.read()
                return
            yielded = False
            for batch in parquet.iter_batches(batch_size=batch_rows):
                yielded = True
                yield pa.Table.from_batches([batch], schema=schema)
            if not yielded:
                yield schema.empty_table()
    except (pa.ArrowInvalid, OSError) as error:
        raise UserError(f"not a readable parquet file ({_first_line(error)})", file=file) from None


def _csv(file: Path, delimiter: str) -> Iterator[pa.Table]:
    try:
        with pa.input_stream(str(file), compression="detect") as stream:
            reader = pa.csv.open_csv(
                stream,
                parse_options=pa.csv.ParseOptions(delimiter=delimiter, newlines_in_values=True),
                read_options=pa.csv.ReadOptions(block_size=1 << 24),
                # A "nan" is a number that is refused as such, not a gap in the table.
                convert_options=pa.csv.ConvertOptions(null_values=["", "NA", "null", "NULL"]),
            )
            yielded = False
            for batch in reader:
                yielded = True
                yield pa.Table.from_batches([batch])
            if not yielded:
                yield reader.schema.empty_table()
    except (pa.ArrowInvalid, OSError, EOFError) as error:
        raise UserError(f"malformed table ({_first_line(error)})", file=file) from None


def _npz(file: Path) -> pa.Table:
    try:
        with np.load(file, allow_pickle=False) as arrays:
            columns = {name: arrays[name] for name in arrays.files}
    except (ValueError, OSError, zipfile.BadZipFile, EOFError) as error:
        raise UserError(f"not a readable npz file ({_first_line(error)})", file=file) from None
    if "labels" in columns and "label" not in columns:
        columns["label"] = columns.pop("labels")
    rows = len(columns["label"]) if "label" in columns and columns["label"].ndim == 1 else None
    fields = {}
    for name, array in columns.items():
        if rows is not None and (array.ndim == 0 or len(array) != rows):
            if name in ("class_names",):
                continue
            raise UserError(f"{rows} labels but shape {array.shape}", file=file, column=name)
        if array.ndim == 2:
            wide = array.astype(np.float32) if array.dtype == np.float16 else array
            fields[name] = pa.FixedSizeListArray.from_arrays(
                pa.array(np.ascontiguousarray(wide).ravel()), array.shape[1]
            )
        elif array.ndim == 1:
            fields[name] = pa.array(array.astype(np.float32) if array.dtype == np.float16 else array)
        else:
            raise UserError(f"an array of shape {array.shape} is no column", file=file, column=name)
    return pa.table(fields)


def _json(file: Path, *, lines: bool) -> pa.Table:
    opened = gzip.open if file.suffix.lower() == ".gz" else open
    try:
        with opened(file, "rt", encoding="utf-8") as stream:
            content = _json_lines(file, stream) if lines else json.load(stream)
    except (UnicodeDecodeError, gzip.BadGzipFile, EOFError, json.JSONDecodeError) as error:
        raise UserError(f"not readable JSON ({_first_line(error)})", file=file) from None
    if isinstance(content, dict):
        content = content.get("data", content)
    try:
        if isinstance(content, dict):
            return pa.table(content)
        for row, record in enumerate(content):
            if not isinstance(record, dict):
                raise UserError("not an object with named fields", file=file, row=row + 1)
        return pa.Table.from_pylist(content)
    except (pa.ArrowInvalid, pa.ArrowTypeError, TypeError, ValueError) as error:
        raise UserError(f"rows do not fit together ({_first_line(error)})", file=file) from None


def _json_lines(file: Path, stream: Any) -> list[Any]:
    records = []
    for number, line in enumerate(stream, start=1):
        if line.strip():
            try:
                records.append(json.loads(line))
            except json.JSONDecodeError as error:
                raise UserError(f"not valid JSON ({error.msg})", file=file, row=number) from None
    return records


def _first_line(error: BaseException) -> str:
    text = str(error).strip().splitlines()
    return text[0] if text else type(error).__name__
