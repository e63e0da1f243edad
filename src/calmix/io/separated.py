"""Comma- and tab-separated values: a header, then one row per record, fields quoted where needed.

The `csv` module in its strict mode defines what a row is. Arrow parses many times faster but accepts quotes
that never close, so it is given only blocks whose quotes are tidy (see `has_tidy_quotes`), where both agree.
From the first block that is not tidy, or that Arrow refuses, the `csv` module goes on; it names the row.

Arrow parses blocks that lie in memory, in this thread, and calls nothing of ours back. Its streaming reader
goes on in a thread of its own after an error, and aborts the process if the interpreter has ended by then.
"""

from __future__ import annotations

import csv
import io
import logging
import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import chain, islice
from typing import BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.csv

from calmix.io.opening import BYTE_ORDER_MARK
from calmix.io.table import check_names
from calmix.user_error import UserError

# Bytes parsed at a time. The first block decides the kinds of the columns.
BLOCK_BYTES = 1 << 24
# Rows of the csv module that become one table.
STRICT_ROWS = 1 << 15
# Lines of one field behind which the end of a row is looked for.
MOST_LINES = 1000
# The csv module's own limit of 128 KiB is below the length of real documents.
LONGEST_FIELD = 1 << 28
DELIMITER_NAMES = {",": "a comma", "\t": "a tab", ";": "a semicolon"}
QUOTE_REMEDY = "inside a quoted field write a double quote twice"
LINE_END = re.compile(rb"\r\n|\n|\r")
CONVERSION = re.compile(
    r"In CSV column #(\d+): (?:Row #(\d+): )?CSV conversion error to \w+: invalid value (.*)"
)
log = logging.getLogger("calmix")


def separated_batches(
    stream: BinaryIO, source: str, delimiter: str, *, text_columns: Collection[str] | None = None
) -> Iterator[pa.Table]:
    """The table in pieces of about `BLOCK_BYTES`.

    `text_columns` stay texts; None means all of them. The other columns are numbers, truth values or texts,
    as the first block says; whole numbers may go on as fractions. A file named .csv without a comma in its
    header may be separated by semicolons or tabs.
    """
    csv.field_size_limit(LONGEST_FIELD)
    blocks = _blocks(stream)
    first = next(blocks, b"").lstrip(b"\r\n")
    if not first:
        raise UserError("the file is empty", file=source, remedy="write a header and one row per record")
    reader = _Reader(source, delimiter, text_columns)
    rest = reader.take_header(first)
    yield from reader.tables(chain([rest] if rest else [], blocks))


@dataclass
class _Reader:
    source: str
    delimiter: str
    text_columns: Collection[str] | None
    names: list[str] = field(default_factory=list)
    kinds: dict[str, pa.DataType] = field(default_factory=dict)
    rows: int = 0
    lines: int = 0

    def take_header(self, block: bytes) -> bytes:
        """Read the header; what follows it in the block is given back."""
        lines = io.TextIOWrapper(io.BytesIO(block), encoding="utf-8", errors="surrogateescape", newline="")
        reader = csv.reader(lines, delimiter=self.delimiter, strict=True)
        try:
            fields = next((fields for fields in reader if fields), [])
        except csv.Error as error:
            raise self._bad_quoting(error, header=True) from None
        if self.delimiter == "," and len(fields) == 1:
            for other in ";\t":
                if other in fields[0]:
                    self.delimiter = other
                    _note_delimiter(self.source, other)
                    return self.take_header(block)
        names = [name.strip() for name in fields]
        # Several columns without a name get one, to tell them apart.
        self.names = [
            name or (f"column {place}" if names.count("") > 1 else "")
            for place, name in enumerate(names, start=1)
        ]
        end = next(islice(LINE_END.finditer(block), reader.line_num - 1, None), None)
        header = block if end is None else block[: end.end()]
        self._check_text(header, header=True)
        check_names(self.names, self.source)
        self.lines += reader.line_num
        return b"" if end is None else block[end.end() :]

    def tables(self, blocks: Iterator[bytes]) -> Iterator[pa.Table]:
        if len(self.names) == 1:  # Arrow cannot tell an empty line from an empty value
            yield from self._strict_tables(blocks)
            return
        for block in blocks:
            self._check_text(block)
            # Arrow takes a zero-width blank at the start of a block for the mark of a file.
            tidy = has_tidy_quotes(block, self.delimiter) and not block.startswith(BYTE_ORDER_MARK)
            table = self._parse(block) if tidy else None
            if table is None:
                yield from self._strict_tables(chain([block], blocks))
                return
            self.lines += block.count(b"\n")
            self.rows += len(table)
            yield table

    def _check_text(self, block: bytes, header: bool = False) -> None:
        if block.isascii():
            return
        try:
            block.decode()
        except UnicodeDecodeError as error:
            # The text up to the bad byte, with a letter in its place, ends inside the bad row.
            before = block[: error.start].decode() + "?"
            line = self.lines + before.count("\n") + 1
            begun = sum(1 for fields in csv.reader(_lines(before), delimiter=self.delimiter) if fields)
            raise UserError(
                f"line {line} is not UTF-8 (byte 0x{block[error.start]:02x})",
                file=self.source,
                row=None if header else self.rows + begun,
                remedy="save the file as UTF-8",
            ) from None

    def _parse(self, block: bytes) -> pa.Table | None:
        """Arrow's table of a block; None where it finds rows that the csv module should name."""
        types = dict.fromkeys(self.names if self.text_columns is None else self.text_columns, pa.string())
        while True:
            try:
                table = self._read(block, self.kinds | types)
                break
            except pa.ArrowInvalid as error:
                found = CONVERSION.search(" ".join(str(error).split()))
                if found is None:
                    return None
                name = self.names[int(found[1])]
                if not pa.types.is_integer(self.kinds[name]):
                    raise UserError(
                        f"{found[3]:.60} does not go with the values before it",
                        file=self.source,
                        row=self.rows + int(found[2]) if found[2] else None,
                        column=name,
                        remedy="write the same kind of value in every row",
                    ) from None
                self.kinds[name] = pa.float64()  # whole numbers so far, fractions from here on
        # Dates and times stay texts, as they are written.
        others = {f.name: pa.string() for f in table.schema if not _is_plain(f.type)}
        if others:
            table = self._read(block, self.kinds | types | others)
        self.kinds |= {f.name: f.type for f in table.schema if f.name and not pa.types.is_null(f.type)}
        return table

    def _read(self, block: bytes, types: dict[str, pa.DataType]) -> pa.Table:
        return pa.csv.read_csv(
            pa.BufferReader(block),
            read_options=pa.csv.ReadOptions(
                use_threads=False, block_size=len(block) + 1, column_names=self.names
            ),
            parse_options=pa.csv.ParseOptions(delimiter=self.delimiter, newlines_in_values=b'"' in block),
            # A "nan" is a number that is refused as such, not a gap in the table.
            convert_options=pa.csv.ConvertOptions(
                null_values=["", "NA", "null", "NULL"], column_types=types, check_utf8=False
            ),
        )

    def _strict_tables(self, blocks: Iterable[bytes]) -> Iterator[pa.Table]:
        """The rest of the file by the csv module; its rows become types as Arrow's would."""
        records = self._strict_rows(blocks)
        while chosen := list(islice(records, STRICT_ROWS)):
            tidy = io.StringIO(newline="")
            csv.writer(tidy, delimiter=self.delimiter, quoting=csv.QUOTE_ALL).writerows(chosen)
            table = self._parse(tidy.getvalue().encode())
            assert table is not None
            self.rows += len(table)
            yield table

    def _strict_rows(self, blocks: Iterable[bytes]) -> Iterator[list[str]]:
        # Strict: a quote that never closes must not swallow the rows after it in silence.
        reader = csv.reader(self._text_lines(blocks), delimiter=self.delimiter, strict=True)
        width, first, count, empty = len(self.names), self.rows, 0, 0
        line = self.lines
        try:
            for fields in reader:
                if not fields and width == 1:
                    empty += 1  # an empty value, unless nothing but empty lines follows
                    continue
                if fields and len(fields) != width:
                    raise UserError(
                        f"{len(fields)} {'field' if len(fields) == 1 else 'fields'} "
                        f"(line {line + reader.line_num}) where the header has {width}",
                        file=self.source,
                        row=first + count + 1,
                        remedy=f"quote fields that contain {DELIMITER_NAMES[self.delimiter]} or a line break",
                    )
                for _ in range(empty):
                    yield [""]
                if fields:
                    yield fields
                count += empty + bool(fields)
                empty = 0
        except csv.Error as error:
            raise self._bad_quoting(error, row=first + count + 1) from None

    def _text_lines(self, blocks: Iterable[bytes]) -> Iterator[str]:
        for block in blocks:
            self._check_text(block)
            self.lines += block.count(b"\n")
            yield from _lines(block.decode())

    def _bad_quoting(self, error: csv.Error, row: int | None = None, header: bool = False) -> UserError:
        reason = str(error)
        if "unexpected end of data" in reason or "field larger" in reason:
            reason = "a double quote is never closed"
        else:
            reason = f"bad quoting ({reason})"
        return UserError(
            f"{reason} in the header" if header else reason, file=self.source, row=row, remedy=QUOTE_REMEDY
        )


def has_tidy_quotes(block: bytes, delimiter: str) -> bool:
    """Whether every quote of whole rows opens or closes a field, or is doubled inside one.

    A doubled quote closes a field and opens it again. So quotes alternate: one that opens stands after a
    delimiter, a line end or a quote; one that closes stands before one. Quotes inside fields without quotes
    are legal but not tidy.

    >>> has_tidy_quotes(b'"a, ""b"" c",1\\n', ","), has_tidy_quotes(b'5" screen,1\\n', ",")
    (True, False)
    """
    if b'"' not in block:
        return True
    data = np.frombuffer(block, dtype=np.uint8)
    quotes = np.flatnonzero(data == ord('"'))
    if len(quotes) % 2:
        return False
    ends = np.zeros(256, dtype=np.bool_)
    ends[np.frombuffer(f'{delimiter}"\r\n'.encode(), dtype=np.uint8)] = True
    opens, closes = quotes[0::2], quotes[1::2]
    before = data[opens[opens > 0] - 1]
    after = data[closes[closes < len(data) - 1] + 1]
    return bool(ends[before].all() and ends[after].all())


def _blocks(stream: BinaryIO) -> Iterator[bytes]:
    """The file in pieces that end with a row, as far as quotes are tidy."""
    carry = b""
    while chunk := stream.read(BLOCK_BYTES):
        carry += chunk
        end = _row_end(carry)
        if end:
            yield carry[:end]
            carry = carry[end:]
    if carry:
        yield carry


def _row_end(data: bytes) -> int:
    """The end of the last row, if quotes are tidy; 0 if none ends here.

    Where that is not among the last lines, the end of the last line: the block is then not tidy.

    >>> _row_end(b'a,b\\n"c\\nd",e\\nf,"g\\n'), _row_end(b"a,b\\r"), _row_end(b"a,b\\rc\\r")
    (12, 0, 4)
    """
    before = data.count(b'"')
    last = end = _line_end(data, len(data))
    before -= data.count(b'"', end)
    for _ in range(MOST_LINES):
        if end == 0 or before % 2 == 0:
            return end
        counted, end = end, _line_end(data, end - 1)
        before -= data.count(b'"', end, counted)
    return last


def _line_end(data: bytes, limit: int) -> int:
    # A carriage return at the very end may be half of a line end.
    return max(data.rfind(b"\n", 0, limit), data.rfind(b"\r", 0, min(limit, len(data) - 1))) + 1


def _lines(text: str) -> Iterator[str]:
    """Lines with their ends; U+2028 and its kin are no line ends in csv."""
    return iter(io.StringIO(text, newline=""))


def _is_plain(kind: pa.DataType) -> bool:
    return kind in (pa.null(), pa.bool_(), pa.int64(), pa.float64(), pa.string())


@lru_cache(maxsize=64)
def _note_delimiter(source: str, delimiter: str) -> None:
    """Once for a file, however often it is read."""
    log.warning("note: %s: read as separated by %ss", source, DELIMITER_NAMES[delimiter].split()[1])
