"""Arrow columns as Python values and as texts; what has no such form is named by its row."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa

from calmix.io.json_records import decode_json
from calmix.io.parser_errors import PARSER_ERRORS
from calmix.user_error import UserError


def python_values(column: pa.ChunkedArray, source: str | Path, name: str) -> list[Any]:
    """The values as Python objects; Arrow's dates and durations reach further than Python's."""
    try:
        return list(column.to_pylist())
    except PARSER_ERRORS:
        for row, value in enumerate(column, start=1):
            try:
                value.as_py()
            except PARSER_ERRORS:
                raise UserError(
                    f"a value of the type {column.type} that cannot be read",
                    file=source,
                    row=row,
                    column=name,
                    remedy="write it as a text or a number",
                ) from None
        raise


def texts_of(column: pa.ChunkedArray, source: str | Path, name: str) -> list[str | None]:
    """The values as texts: names, numbers, truth values and times have one, structures do not."""
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    try:
        cast = column if pa.types.is_string(column.type) else column.cast(pa.string())
        return list(cast.to_pylist())
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
