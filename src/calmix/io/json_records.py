"""JSON: one object per line, a list of objects, or an object of columns.

Python's parser alone reads what users give: Arrow's own ends the process at a line such as `null`.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator
from typing import Any, BinaryIO

import pyarrow as pa

from calmix.io.parser_errors import PARSER_ERRORS
from calmix.io.table import DataTable, shorten
from calmix.user_error import UserError

Record = dict[str, Any]
Columns = dict[str, list[Any]]
RECORD_REMEDY = 'write one object per row, such as {"text": "...", "label": "..."}'
JSON_TYPES = {list: "list", str: "string", bool: "truth value", int: "number", float: "number"}


class RepeatedKey(ValueError):
    """An object with two values for one key, of which the parser alone would take the last."""


def _object(pairs: list[tuple[str, Any]]) -> Record:
    made = dict(pairs)
    if len(made) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in made if names.count(name) > 1)
        raise RepeatedKey(f"the key {shorten(twice)!r} is there twice")
    return made


DECODER = json.JSONDecoder(object_pairs_hook=_object)


def decode_json(text: str) -> Any:
    """The value of a JSON text; whatever is wrong with it is a ValueError in a few words.

    >>> decode_json("[" * 100_000)
    Traceback (most recent call last):
    ValueError: nested too deeply
    >>> decode_json('{"label": 0, "label": 1}')
    Traceback (most recent call last):
    calmix.io.json_records.RepeatedKey: the key 'label' is there twice
    """
    stripped = text.strip()
    try:
        value, end = DECODER.raw_decode(stripped)
    except json.JSONDecodeError as error:
        place = error.pos + len(text) - len(text.lstrip())
        raise json.JSONDecodeError(error.msg, text, place) from None
    except RecursionError:
        raise ValueError("nested too deeply") from None
    except RepeatedKey:
        raise
    except ValueError:
        raise ValueError("an integer of thousands of digits") from None
    if end != len(stripped):
        raise json.JSONDecodeError("Extra data", text, end + len(text) - len(text.lstrip()))
    return value


def json_line_records(stream: BinaryIO, source: str, batch_rows: int) -> Iterator[list[Record]]:
    """The objects of a file with one per line, `batch_rows` at a time; empty lines are no rows."""
    records: list[Record] = []
    row = 0
    for number, line in enumerate(stream, start=1):
        if not line.strip():
            continue
        row += 1
        try:
            text = line.decode()
            records.append(_checked_record(decode_json(text), text, source, row))
        except UnicodeDecodeError as error:
            raise _not_utf8(error, source, number, row) from None
        except ValueError as error:
            raise _not_json(error, source, number, row) from None
        if len(records) == batch_rows:
            yield records
            records = []
    if records:
        yield records


def json_content(stream: BinaryIO, source: str) -> list[Record] | Columns:
    """The rows of a JSON file: a list of objects, an object of columns, or JSON lines after all.

    The list or the columns may be the value of `data`. Files on the hub are often JSON lines under the name
    `.json`.
    """
    content = stream.read()
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        raise _not_utf8(error, source, content.count(b"\n", 0, error.start) + 1, None) from None
    try:
        value = decode_json(text)
    except ValueError as error:
        if text.lstrip().startswith("{") and getattr(error, "msg", "") == "Extra data":
            return next(json_line_records(io.BytesIO(content), source, batch_rows=len(content)))
        raise _not_json(error, source, getattr(error, "lineno", None), _broken_element(text)) from None
    if isinstance(value, dict):
        inner = value.get("data")
        if isinstance(inner, dict) or (
            isinstance(inner, list) and all(isinstance(one, dict) for one in inner)
        ):
            value = inner
    if isinstance(value, dict):
        if value and all(isinstance(column, list) for column in value.values()):
            return _checked_columns(value, source)
        value = [value]
    if not isinstance(value, list):
        raise UserError("not a list of objects", file=source, remedy=RECORD_REMEDY)
    return [_checked_record(record, text, source, row) for row, record in enumerate(value, start=1)]


def json_table(content: list[Record] | Columns, source: str) -> DataTable:
    """The table of objects or columns; a key that an object lacks is an error where its column is read."""
    if isinstance(content, dict):
        return DataTable(source, tuple(content), len(next(iter(content.values()))), content.__getitem__)
    names = tuple(dict.fromkeys(name for record in content for name in record))

    def read_column(name: str) -> list[Any]:
        try:
            return [record[name] for record in content]
        except KeyError:
            row = next(row for row, record in enumerate(content, start=1) if name not in record)
            raise UserError("missing key", file=source, row=row, column=name, remedy=RECORD_REMEDY) from None

    return DataTable(source, names, len(content), read_column)


class ArrowColumns:
    """JSON values as Arrow columns: one kind of value in all rows of a column, from batch to batch."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.rows = 0
        self._names: list[str] = []
        self._known: dict[str, Any] = {}

    def table(self, content: list[Record] | Columns) -> pa.Table:
        """The next rows, with the columns of the first ones; None stands for what an object lacks."""
        if isinstance(content, list):
            self._names = self._names or list(dict.fromkeys(name for record in content for name in record))
            content = {name: [record.get(name) for record in content] for name in self._names}
        fields = {}
        for name, values in content.items():
            # A value from before stands first: what does not go with it is refused as within a batch.
            known = [self._known[name]] if name in self._known else []
            fields[name] = self._column(name, known + values)[len(known) :]
            if not known:
                found = next((value for value in values if value is not None), None)
                self._known |= {} if found is None else {name: found}
        self.rows += max(map(len, content.values()), default=0)
        return pa.table(fields)

    def _column(self, name: str, values: list[Any]) -> pa.Array:
        """The first row that breaks the column is found by halving."""
        column = _arrow_column(values)
        if column is not None:
            return column
        fitting, broken = 0, len(values)
        while broken - fitting > 1:
            middle = (fitting + broken) // 2
            fitting, broken = (
                (fitting, middle) if _arrow_column(values[:middle]) is None else (middle, broken)
            )
        raise UserError(
            f"{values[broken - 1]!r:.60} does not go with the values before it",
            file=self.source,
            row=self.rows + broken - (name in self._known),
            column=name,
            remedy="write the same kind of value in every row",
        )


def _arrow_column(values: list[Any]) -> pa.Array | None:
    try:
        return pa.array(values)
    except PARSER_ERRORS:
        return None


def _checked_columns(columns: Columns, source: str) -> Columns:
    lengths = {name: len(column) for name, column in columns.items()}
    if len(set(lengths.values())) > 1:
        listed = ", ".join(f"{shorten(name)} {length}" for name, length in lengths.items())
        raise UserError(
            f"the columns differ in length: {listed}", file=source, remedy="give each one value per row"
        )
    for name, column in columns.items():
        for row, value in enumerate(column, start=1):
            _refuse_surrogates({name: value}, source, row)
    return columns


def _checked_record(record: object, text: str, source: str, row: int) -> Record:
    """The object of a row; `text` is what it was written as."""
    if not isinstance(record, dict):
        raise UserError(
            f"a JSON {JSON_TYPES.get(type(record), 'null')} where an object is expected",
            file=source,
            row=row,
            remedy=RECORD_REMEDY,
        )
    if "\\u" in text:
        _refuse_surrogates(record, source, row)
    return record


def _refuse_surrogates(record: Record, source: str, row: int) -> None:
    """JSON can spell half a surrogate pair, which is no character and cannot be written again."""
    for name, value in record.items():
        try:
            json.dumps([name, value], ensure_ascii=False).encode()
        except UnicodeEncodeError:
            raise UserError(
                "a broken character (half of a surrogate pair)",
                file=source,
                row=row,
                column=name.encode(errors="replace").decode(),
                remedy="write the text as UTF-8",
            ) from None


def _not_utf8(error: UnicodeDecodeError, source: str, line: int, row: int | None) -> UserError:
    byte = error.object[error.start]
    return UserError(
        f"line {line} is not UTF-8 (byte 0x{byte:02x})", file=source, row=row, remedy="save the file as UTF-8"
    )


def _not_json(error: ValueError, source: str, line: int | None, row: int | None) -> UserError:
    reason = str(error)
    if isinstance(error, json.JSONDecodeError):
        reason = f"{error.msg} at character {error.colno}"
    problem = "not JSON" if line is None else f"line {line} is not JSON"
    return UserError(f"{problem} ({reason})", file=source, row=row, remedy=RECORD_REMEDY)


def _broken_element(text: str) -> int | None:
    """The 1-based element of a JSON list at which the text stops being JSON; None if it is no list.

    >>> _broken_element('[{"a": 1}, {"a": 2}, {"a" 3}]')
    3
    """
    blank = re.compile(r"\s*")

    def skip_blank(position: int) -> int:
        match = blank.match(text, position)
        return match.end() if match else position

    position = skip_blank(0)
    if not text.startswith("[", position):
        return None
    element = 1
    while True:
        try:
            _, position = DECODER.raw_decode(text, skip_blank(position + 1))
        except (ValueError, RecursionError):
            return element
        position = skip_blank(position)
        if not text.startswith(",", position):
            return element
        element += 1
