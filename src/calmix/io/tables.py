"""A file as a table: the one reader of training data, predictions and dynamics.

`.csv .tsv .json .jsonl .parquet .npz`, each also gzipped, text in UTF-8. Rows are counted from 1, after the
header where there is one. What cannot be read is a `UserError` that names the row.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa

from calmix.io.arrow_values import ArrowColumn, joined
from calmix.io.formats import file_format, is_gzipped
from calmix.io.json_records import ArrowColumns, json_content, json_line_records, json_table
from calmix.io.npz_arrays import npz_table
from calmix.io.opening import open_bytes
from calmix.io.parquet_files import COLUMN_ROWS, ParquetTable
from calmix.io.parser_errors import refusing
from calmix.io.separated import separated_batches
from calmix.io.table import DataTable
from calmix.user_error import UserError

DELIMITERS = {".csv": ",", ".tsv": "\t"}
# Rows of a JSON lines file that become one table.
JSON_ROWS = 1 << 14


def read_table(path: str | Path) -> DataTable:
    """All columns of a file as Python values; of csv and tsv as texts. A file without rows is an error."""
    source, extension = str(path), file_format(path)
    with open_bytes(path) as stream:
        if extension == ".json":
            table = json_table(json_content(stream, source), source)
        elif extension == ".jsonl":
            batches = json_line_records(stream, source, JSON_ROWS)
            table = json_table([record for batch in batches for record in batch], source)
        elif extension == ".parquet":
            parquet = ParquetTable(_native(path, stream), source)
            table = DataTable(
                source,
                parquet.names,
                parquet.row_count,
                lambda name: ArrowColumn(parquet.column(name), source, name),
            )
        elif extension == ".npz":
            table = _data_table(npz_table(path), source)
        else:
            pieces = separated_batches(stream, source, DELIMITERS[extension])
            table = _data_table(joined(pieces), source)
    if table.row_count == 0:
        raise _no_rows(source)
    return table


def table_batches(
    path: str | Path, *, batch_rows: int | None = None, text_columns: Collection[str] = ()
) -> Iterator[pa.Table]:
    """The file as Arrow tables: csv, tsv, jsonl and parquet are streamed, the latter by `batch_rows`.

    Columns of csv and tsv named in `text_columns` stay texts, the others are what they look like. No table
    is without rows, and a file without rows is an error.
    """
    has_rows = False
    for table in _batches(path, batch_rows, text_columns):
        if len(table):
            has_rows = True
            yield table
    if not has_rows:
        raise _no_rows(path)


def _batches(path: str | Path, batch_rows: int | None, text_columns: Collection[str]) -> Iterator[pa.Table]:
    source, extension = str(path), file_format(path)
    with open_bytes(path) as stream:
        if extension in DELIMITERS:
            yield from separated_batches(stream, source, DELIMITERS[extension], text_columns=text_columns)
        elif extension == ".parquet":
            yield from ParquetTable(_native(path, stream), source).batches(batch_rows)
        elif extension == ".npz":
            yield npz_table(path)
        else:
            columns = ArrowColumns(source)
            if extension == ".json":
                yield columns.table(json_content(stream, source))
                return
            for records in json_line_records(stream, source, JSON_ROWS):
                yield columns.table(records)


def read_arrow(path: str | Path, *, text_columns: Collection[str] = ()) -> pa.Table:
    """The whole file as one Arrow table, of parquet on disk where it is large; see `table_batches`."""
    if file_format(path) == ".parquet":
        return joined(table_batches(path, batch_rows=COLUMN_ROWS))
    with refusing("the columns change their kind within the file", path):
        return _joined(table_batches(path, text_columns=text_columns))


def _joined(tables: Iterable[pa.Table]) -> pa.Table:
    """Whole numbers in one batch may be fractions in another."""
    parts = list(tables)
    if len(parts) < 2:
        return parts[0] if parts else pa.table({})
    return pa.concat_tables(parts, promote_options="permissive")


def _no_rows(path: str | Path) -> UserError:
    return UserError("the file has no data rows", file=path, remedy="write one row per record")


def _native(path: str | Path, stream: BinaryIO) -> pa.NativeFile:
    """What Arrow's threads can read without Python: they may outlive the interpreter."""
    return pa.BufferReader(stream.read()) if is_gzipped(path) else pa.OSFile(str(path))


def _data_table(table: pa.Table, source: str) -> DataTable:
    return DataTable(
        source,
        tuple(table.column_names),
        len(table),
        lambda name: ArrowColumn(table.column(name), source, name),
    )
