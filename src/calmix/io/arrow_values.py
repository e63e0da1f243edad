"""Arrow columns as Python values and as texts; what has no such form is named by its row.

Columns are read a few thousand rows at a time and lie on disk where they are large: millions of texts as
Python objects would fill the memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from calmix.io.json_records import decode_json
from calmix.io.parser_errors import PARSER_ERRORS
from calmix.runtime import large_arrays
from calmix.user_error import UserError

CHUNK_ROWS = 1 << 14


class ArrowColumn(Sequence[Any]):
    """The values of an Arrow column, made into Python objects when they are looked at.

    >>> column = ArrowColumn(pa.chunked_array([["a", None], ["b"]]), "a.parquet", "text")
    >>> list(column), column[2], column[-1], column[1:], len(column)
    (['a', None, 'b'], 'b', 'b', [None, 'b'], 3)
    """

    def __init__(self, column: pa.ChunkedArray, source: str | Path, name: str) -> None:
        self.arrow, self.source, self.name = column, source, name

    def __len__(self) -> int:
        return len(self.arrow)

    def __getitem__(self, place: Any) -> Any:
        if isinstance(place, slice):
            return list(ArrowColumn(self.arrow[place], self.source, self.name))
        return self[slice(place, place + 1 or None)][0]

    def __iter__(self) -> Iterator[Any]:
        for start in range(0, len(self.arrow), CHUNK_ROWS):
            yield from self._values(start)

    def _values(self, start: int) -> list[Any]:
        """Arrow's dates and durations reach further than Python's."""
        part = self.arrow.slice(start, CHUNK_ROWS)
        try:
            return list(part.to_pylist())
        except PARSER_ERRORS:
            for row, value in enumerate(part, start=start + 1):
                try:
                    value.as_py()
                except PARSER_ERRORS:
                    raise UserError(
                        f"a value of the type {self.arrow.type} that cannot be read",
                        file=self.source,
                        row=row,
                        column=self.name,
                        remedy="write it as a text or a number",
                    ) from None
            raise


def values_at(values: Sequence[Any], places: Sequence[int]) -> Sequence[Any]:
    """Some of the values, in the order of their places.

    >>> list(values_at(ArrowColumn(pa.chunked_array([["a", "b"]]), "a.csv", "text"), [1]))
    ['b']
    """
    if isinstance(values, ArrowColumn):
        return ArrowColumn(values.arrow.take(pa.array(places, pa.int64())), values.source, values.name)
    return [values[place] for place in places]


def joined(tables: Iterable[pa.Table]) -> pa.Table:
    """Tables of one schema end to end: in memory, or in a file without a name where they are large."""
    parts: list[pa.Table] = []
    file: IO[bytes] | None = None
    writer: pa.RecordBatchFileWriter | None = None
    size = 0
    for table in tables:
        parts.append(table)
        size += table.nbytes
        if size > large_arrays.MEMORY_BYTES:
            if writer is None:
                file = large_arrays.unnamed_file()
                writer = pa.ipc.new_file(file, parts[0].schema)
            with large_arrays.room_on_disk():
                for part in parts:
                    writer.write_table(part)
            parts = []
    if writer is None or file is None:
        return pa.concat_tables(parts) if parts else pa.table({})
    with large_arrays.room_on_disk():
        for part in parts:
            writer.write_table(part)
        writer.close()
    return pa.ipc.open_file(pa.py_buffer(large_arrays.mapped(file))).read_all()


def texts_of(column: pa.ChunkedArray, source: str | Path, name: str) -> pa.ChunkedArray:
    """The values as texts: names, numbers, truth values and times have one, structures do not."""
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    try:
        return column if pa.types.is_string(column.type) else column.cast(pa.string())
    except PARSER_ERRORS:
        raise UserError(
            f"values of the type {column.type} have no text form",
            file=source,
            column=name,
            remedy="write texts or whole numbers",
        ) from None


def listed_values(value: Any, separator: str | None = None) -> list[Any]:
    """The values that one cell lists: a list, a JSON list as text or, with a separator, a text in parts.

    A `ValueError` says what else it is. With a separator an empty cell is an empty list.

    >>> listed_values(["a"]), listed_values('["a", 1]'), listed_values("a; b;", ";"), listed_values(None, ";")
    (['a'], ['a', 1], ['a', 'b'], [])
    """
    if separator is not None and (value is None or isinstance(value, str)):
        return [part.strip() for part in (value or "").split(separator) if part.strip()]
    if value is None or (isinstance(value, str) and not value.strip()):
        raise ValueError("no list, not even an empty one: []")
    found = value
    if isinstance(value, str):
        try:
            found = decode_json(value)
        except ValueError:
            found = None
    if not isinstance(found, list) or any(one is None or isinstance(one, dict | list) for one in found):
        raise ValueError(f"not a list of names: {str(value)[:60]!r}")
    return found


def text_array(column: pa.ChunkedArray | pa.Array) -> NDArray[np.str_]:
    """A column of texts as an array of numpy.

    >>> text_array(pa.array(["a", "bcd"]))
    array(['a', 'bcd'], dtype='<U3')
    """
    found = large_arrays.zeros((len(column),), f"U{pc.max(pc.utf8_length(column)).as_py() or 1}")
    for start in range(0, len(column), CHUNK_ROWS):
        found[start : start + CHUNK_ROWS] = column.slice(start, CHUNK_ROWS).to_pylist()
    return found
