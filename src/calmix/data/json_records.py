"""JSON: one object per line, a list of objects, or an object of columns."""

from __future__ import annotations

import json
import re
from typing import Any

from calmix.data.table import Table, shorten
from calmix.user_error import UserError

RECORD_REMEDY = 'write one object per row, such as {"text": "...", "label": "..."}'
JSON_TYPES = {list: "list", str: "string", bool: "truth value", int: "number", float: "number"}


def json_lines_table(text: str, source: str) -> Table:
    """The table of a text with one JSON object per line; empty lines are no rows."""
    records: list[dict[str, Any]] = []
    # Not splitlines(): U+2028 and its kin may stand unescaped inside a JSON string.
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except json.JSONDecodeError as error:
            raise UserError(
                f"line {number} is not JSON ({error.msg} at character {error.colno})",
                file=source,
                row=len(records) + 1,
                remedy=RECORD_REMEDY,
            ) from None
        records.append(_checked_record(record, source, len(records) + 1))
    return _records_table(records, source)


def json_table(text: str, source: str) -> Table:
    """The table of a JSON text: a list of objects, an object of columns, or JSON lines after all.

    Hub files are often JSON lines under the name `.json`.
    """
    try:
        content = json.loads(text)
    except json.JSONDecodeError as error:
        if text.lstrip().startswith("{") and error.msg == "Extra data":
            return json_lines_table(text, source)
        raise UserError(
            f"line {error.lineno} is not JSON ({error.msg} at character {error.colno})",
            file=source,
            row=_broken_element(text),
            remedy=RECORD_REMEDY,
        ) from None
    if isinstance(content, dict):
        if content and all(isinstance(column, list) for column in content.values()):
            return _columns_table(content, source)
        content = [content]
    if not isinstance(content, list):
        raise UserError("not a list of objects", file=source, remedy=RECORD_REMEDY)
    return _records_table(
        [_checked_record(record, source, row) for row, record in enumerate(content, start=1)], source
    )


def count_json_lines(text: str) -> int:
    """How many rows begin in a piece of a JSON lines file.

    >>> count_json_lines('{"text": "a"}\\n\\n{"te')
    2
    """
    return sum(1 for line in text.split("\n") if line.strip())


def _records_table(records: list[dict[str, Any]], source: str) -> Table:
    names = tuple(dict.fromkeys(name for record in records for name in record))

    def read_column(name: str) -> list[Any]:
        try:
            return [record[name] for record in records]
        except KeyError:
            row = next(row for row, record in enumerate(records, start=1) if name not in record)
            raise UserError("missing key", file=source, row=row, column=name, remedy=RECORD_REMEDY) from None

    return Table(source, names, len(records), read_column)


def _columns_table(columns: dict[str, list[Any]], source: str) -> Table:
    lengths = {name: len(column) for name, column in columns.items()}
    if len(set(lengths.values())) > 1:
        listed = ", ".join(f"{shorten(name)} {length}" for name, length in lengths.items())
        raise UserError(f"the columns differ in length: {listed}", file=source)
    return Table(source, tuple(columns), next(iter(lengths.values())), columns.__getitem__)


def _checked_record(record: object, source: str, row: int) -> dict[str, Any]:
    if not isinstance(record, dict):
        raise UserError(
            f"a JSON {JSON_TYPES.get(type(record), 'null')} where an object is expected",
            file=source,
            row=row,
            remedy=RECORD_REMEDY,
        )
    return record


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
    decoder, element = json.JSONDecoder(), 1
    while True:
        try:
            _, position = decoder.raw_decode(text, skip_blank(position + 1))
        except json.JSONDecodeError:
            return element
        position = skip_blank(position)
        if not text.startswith(",", position):
            return element
        element += 1
