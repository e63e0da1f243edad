"""Comma- and tab-separated values: a header, then one row per record, fields quoted where needed."""

from __future__ import annotations

import csv
import io

from calmix.data.table import Table
from calmix.user_error import UserError

DELIMITER_NAMES = {",": "a comma", "\t": "a tab"}


def separated_table(text: str, source: str, delimiter: str) -> Table:
    """The table of a csv or tsv text. Every value is a string; empty lines are no rows."""
    # The module's limit of 128 KiB for a field is below the length of real documents.
    csv.field_size_limit(2**31 - 1)
    # Strict: a quote that never closes must not swallow the rows after it in silence.
    reader = csv.reader(io.StringIO(text.rstrip("\r\n"), newline=""), delimiter=delimiter, strict=True)
    rows: list[list[str]] = []
    try:
        header = [name.strip() for name in next(fields for fields in reader if fields)]
        _check_header(header, source)
        for fields in reader:
            if len(fields) == len(header):
                rows.append(fields)
            elif not fields and len(header) == 1:
                rows.append([""])  # With a single column an empty line is an empty value.
            elif fields:
                raise UserError(
                    f"{len(fields)} {'field' if len(fields) == 1 else 'fields'} "
                    f"(line {reader.line_num}) where the header has {len(header)}",
                    file=source,
                    row=len(rows) + 1,
                    remedy=f"quote fields that contain {DELIMITER_NAMES[delimiter]} or a line break",
                )
    except csv.Error as error:
        never_closed = "unexpected end of data" in str(error)
        raise UserError(
            "a double quote is never closed" if never_closed else f"bad quoting ({error})",
            file=source,
            row=len(rows) + 1,
            remedy="inside a quoted field write a double quote twice",
        ) from None
    columns = dict(zip(header, zip(*rows, strict=True), strict=True)) if rows else {}
    return Table(source, tuple(header), len(rows), columns.__getitem__)


def count_separated_rows(text: str, delimiter: str) -> int:
    """How many data rows begin in a piece of a file, the header not counted.

    >>> count_separated_rows('text,label\\n"two\\nlines",a\\n\\nthird', ",")
    2
    """
    lines = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
    return sum(1 for fields in lines if fields) - 1


def _check_header(header: list[str], source: str) -> None:
    for position, name in enumerate(header):
        if name and name in header[:position]:
            raise UserError(f"two columns are named {name!r}", file=source, remedy="rename one in the header")
