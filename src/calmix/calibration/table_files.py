"""Tables from files of several formats, whole or in batches of rows."""

from __future__ import annotations

import gzip
import io
import json
import os
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from calmix.calibration.separated_files import separated_batches
from calmix.user_error import UserError

FORMATS = (".parquet", ".csv", ".tsv", ".jsonl", ".json", ".npz")
NPZ_REMEDY = "write it with numpy.savez(file, label=..., logits=...)"
RECORD_REMEDY = 'write one object per row, such as {"label": 1, "probs": [0.2, 0.8]}'


def file_format(file: Path) -> tuple[str, bool]:
    """The format by the file's name, and whether it is gzipped.

    >>> file_format(Path("scores.csv.gz"))
    ('.csv', True)
    """
    gzipped = file.suffix.lower() == ".gz"
    suffix = (Path(file.stem) if gzipped else file).suffix.lower()
    if suffix not in FORMATS:
        raise UserError(
            f"unknown file type {suffix or file.name!r}",
            file=file,
            remedy=f"known are {', '.join(FORMATS)}, each also .gz",
        )
    return suffix, gzipped


def read_table(file: Path) -> pa.Table:
    """The whole file as one table."""
    return pa.concat_tables(table_batches(file, batch_rows=None))


def table_batches(file: Path, *, batch_rows: int | None) -> Iterator[pa.Table]:
    """The file as tables of at most about `batch_rows` rows where its format can be streamed."""
    suffix, gzipped = file_format(file)
    if not file.is_file():
        raise UserError("no such file", file=file, remedy="give the path of a predictions file or of a run")
    if not os.access(file, os.R_OK):
        raise UserError("the file cannot be read", file=file, remedy="check its permissions")
    if file.stat().st_size == 0:
        raise UserError("the file is empty", file=file, remedy="write it again: one row per prediction")
    if suffix in (".csv", ".tsv"):
        yield from separated_batches(file, "\t" if suffix == ".tsv" else ",")
        return
    source: Any = io.BytesIO(_unpacked(file)) if gzipped else file
    if suffix == ".parquet":
        yield from _parquet(file, source, batch_rows)
    elif suffix == ".npz":
        yield _npz(file, source)
    else:
        yield _json(file, source, lines=suffix == ".jsonl")


def _unpacked(file: Path) -> bytes:
    try:
        return gzip.decompress(file.read_bytes())
    except (gzip.BadGzipFile, zlib.error, EOFError):
        raise UserError(
            "not a whole gzip file", file=file, remedy="copy it again, or remove .gz from its name"
        ) from None


def _parquet(file: Path, source: Any, batch_rows: int | None) -> Iterator[pa.Table]:
    import pyarrow.parquet

    try:
        with pyarrow.parquet.ParquetFile(source) as parquet:
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
    except (pa.ArrowException, OSError) as error:
        raise UserError(
            f"not a whole parquet file ({' '.join(str(error).split()):.200})",
            file=file,
            remedy="write or copy it again",
        ) from None


def _npz(file: Path, source: Any) -> pa.Table:
    try:
        with np.load(source, allow_pickle=False) as arrays:
            columns = {name: arrays[name] for name in arrays.files}
    except (ValueError, OSError, zipfile.BadZipFile, zlib.error, EOFError, AttributeError):
        # Without numpy's own words, which advise to unpickle the file.
        raise UserError("not an npz archive of plain arrays", file=file, remedy=NPZ_REMEDY) from None
    if "labels" in columns and "label" not in columns:
        columns["label"] = columns.pop("labels")
    columns.pop("class_names", None)
    rows = len(columns["label"]) if "label" in columns and columns["label"].ndim == 1 else None
    fields = {}
    for name, array in columns.items():
        if rows is not None and (array.ndim == 0 or len(array) != rows):
            raise UserError(
                f"{rows} labels but shape {array.shape}",
                file=file,
                column=name,
                remedy="give every array one entry per row",
            )
        fields[name] = _npz_column(file, name, array)
    return pa.table(fields)


def _npz_column(file: Path, name: str, array: np.ndarray[Any, Any]) -> pa.Array:
    wide = array.astype(np.float32) if array.dtype == np.float16 else array
    try:
        if array.ndim == 1:
            return pa.array(wide)
        if array.ndim == 2:
            return pa.FixedSizeListArray.from_arrays(
                pa.array(np.ascontiguousarray(wide).ravel()), array.shape[1]
            )
    except pa.ArrowException:
        raise UserError(
            f"values of type {array.dtype} are no scores", file=file, column=name, remedy=NPZ_REMEDY
        ) from None
    raise UserError(
        f"an array of shape {array.shape} is no column",
        file=file,
        column=name,
        remedy="labels have shape [rows], scores [rows, classes]",
    )


def _json(file: Path, source: Any, *, lines: bool) -> pa.Table:
    try:
        text = (source.read() if isinstance(source, io.BytesIO) else file.read_bytes()).decode("utf-8-sig")
        content = _json_lines(file, text) if lines else json.loads(text)
    except UnicodeDecodeError as error:
        raise UserError(f"not UTF-8 ({error.reason})", file=file, remedy="save the file as UTF-8") from None
    except json.JSONDecodeError as error:
        raise UserError(f"not readable JSON ({error})", file=file, remedy=RECORD_REMEDY) from None
    if isinstance(content, dict):
        content = content.get("data", content)
    if isinstance(content, dict):
        return _json_columns(file, content)
    if not isinstance(content, list):
        raise UserError("not a list of objects", file=file, remedy=RECORD_REMEDY)
    for row, record in enumerate(content, start=1):
        if not isinstance(record, dict):
            raise UserError("not an object with named fields", file=file, row=row, remedy=RECORD_REMEDY)
    if not content:
        raise UserError("the file holds no rows", file=file, remedy=RECORD_REMEDY)
    return pa.table(
        {name: _json_column(file, name, [record.get(name) for record in content]) for name in content[0]}
    )


def _json_lines(file: Path, text: str) -> list[Any]:
    records: list[Any] = []
    # Not splitlines(): U+2028 and its kin may stand unescaped inside a JSON string.
    for line in text.split("\n"):
        if line.strip():
            try:
                records.append(json.loads(line))
            except json.JSONDecodeError as error:
                raise UserError(
                    f"not valid JSON ({error.msg})", file=file, row=len(records) + 1, remedy=RECORD_REMEDY
                ) from None
    return records


def _json_columns(file: Path, content: dict[str, Any]) -> pa.Table:
    for name, values in content.items():
        if not isinstance(values, list):
            raise UserError("not a list of values", file=file, column=name, remedy=RECORD_REMEDY)
    lengths = {len(values) for values in content.values()}
    if len(lengths) > 1:
        listed = ", ".join(f"{name} {len(values)}" for name, values in content.items())
        raise UserError(
            f"the columns differ in length: {listed}", file=file, remedy="give each one value per row"
        )
    return pa.table({name: _json_column(file, name, values) for name, values in content.items()})


def _json_column(file: Path, name: str, values: list[Any]) -> pa.Array:
    """One kind of value in all rows; the first row that breaks it is found by halving."""
    column = _column(values)
    if column is not None:
        return column
    fitting, broken = 0, len(values)
    while broken - fitting > 1:
        middle = (fitting + broken) // 2
        fitting, broken = (fitting, middle) if _column(values[:middle]) is None else (middle, broken)
    raise UserError(
        f"{values[broken - 1]!r:.60} does not go with the values before it",
        file=file,
        row=broken,
        column=name,
        remedy="write the same kind of value in every row",
    )


def _column(values: list[Any]) -> pa.Array | None:
    try:
        return pa.array(values)
    except (pa.ArrowException, OverflowError):
        return None
