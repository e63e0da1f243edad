"""Parquet files, whole or in batches. Every value is validated: texts may be invalid UTF-8."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from calmix.io.arrow_values import joined
from calmix.io.json_records import decode_json
from calmix.io.parser_errors import BROKEN_REMEDY, refusing
from calmix.io.table import check_names
from calmix.user_error import UserError

# Rows that are decoded and validated at a time.
COLUMN_ROWS = 1 << 16
BROKEN = "not a whole parquet file"
CLASS_NAMES_KEY = b"calmix.class_names"


class ParquetTable:
    """An open parquet file; columns are read when they are asked for."""

    def __init__(self, content: Any, source: str) -> None:
        from pyarrow import parquet

        self.source = source
        with refusing(BROKEN, source):
            self._file = parquet.ParquetFile(content)
            self.schema: pa.Schema = self._file.schema_arrow
            self.names = tuple(self.schema.names)
            self.row_count: int = self._file.metadata.num_rows
        check_names(self.names, source)

    def column(self, name: str) -> pa.ChunkedArray:
        """One column; on disk where it is large."""
        return joined(self._batches(COLUMN_ROWS, name)).column(name)

    def batches(self, batch_rows: int | None) -> Iterator[pa.Table]:
        """Tables of `batch_rows` rows, or a single one."""
        if batch_rows is None:
            with refusing(BROKEN, self.source):
                table = self._file.read()
            self._check_rows(len(table))
            yield self._validated(table, 0)
            return
        yield from self._batches(batch_rows)

    def _batches(self, batch_rows: int, name: str | None = None) -> Iterator[pa.Table]:
        """All columns, or one."""
        schema = self.schema if name is None else pa.schema([self.schema.field(name)])
        with refusing(BROKEN, self.source):
            columns = None if name is None else [name]
            batches = self._file.iter_batches(batch_size=batch_rows, columns=columns)
        row = 0
        while True:
            with refusing(BROKEN, self.source):
                batch = next(batches, None)
                if batch is None:
                    break
                table = pa.Table.from_batches([batch], schema=schema)
            yield self._validated(table, row)
            row += len(table)
        self._check_rows(row)

    def _check_rows(self, found: int) -> None:
        """Damaged pages can end a column early without an error."""
        if found != self.row_count:
            problem = f"{BROKEN}: {found} rows where it says {self.row_count}"
            raise UserError(problem, file=self.source, remedy=BROKEN_REMEDY)

    def _validated(self, table: pa.Table, first_row: int) -> pa.Table:
        try:
            table.validate(full=True)
        except pa.ArrowInvalid:
            for name in table.column_names:
                row = _first_invalid(table.column(name))
                if row is not None:
                    raise UserError(
                        "the bytes of this value are no text in UTF-8, or broken",
                        file=self.source,
                        row=first_row + row + 1,
                        column=name,
                        remedy=BROKEN_REMEDY,
                    ) from None
            raise UserError(BROKEN, file=self.source, remedy=BROKEN_REMEDY) from None
        return table


def stored_class_names(schema: pa.Schema, source: str | Path) -> tuple[str, ...] | None:
    """The class names in a table's metadata; None if it has none."""
    stored = (schema.metadata or {}).get(CLASS_NAMES_KEY)
    if stored is None:
        return None
    try:
        names = decode_json(stored.decode())
        json.dumps(names, ensure_ascii=False).encode()  # half a surrogate pair cannot be written again
    except ValueError:
        names = None
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise UserError(
            "the metadata 'calmix.class_names' is not a JSON list of names", file=source, remedy=BROKEN_REMEDY
        )
    return tuple(names)


def with_class_names(table: pa.Table, names: Any) -> pa.Table:
    """The table with class names in its metadata, for `stored_class_names`."""
    stored = json.dumps(list(names), ensure_ascii=False).encode()
    return table.replace_schema_metadata({**(table.schema.metadata or {}), CLASS_NAMES_KEY: stored})


def _first_invalid(column: pa.ChunkedArray) -> int | None:
    """The first row whose value is invalid, by halving."""

    def is_valid(rows: int) -> bool:
        try:
            column.slice(0, rows).validate(full=True)
        except pa.ArrowInvalid:
            return False
        return True

    if is_valid(len(column)):
        return None
    fine, broken = 0, len(column)
    while broken - fine > 1:
        middle = (fine + broken) // 2
        fine, broken = (middle, broken) if is_valid(middle) else (fine, middle)
    return broken - 1
