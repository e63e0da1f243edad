"""Csv and tsv: what other programs write is read back, what is malformed is named by its row."""

from __future__ import annotations

import csv
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from calmix.data.separated import separated_table
from calmix.user_error import UserError

# No lone surrogates: a file in UTF-8 cannot hold them.
FIELDS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


def message(text: str, delimiter: str = ",") -> str:
    with pytest.raises(UserError) as caught:
        separated_table(text, "a.csv", delimiter)
    return str(caught.value)


@given(
    rows=st.lists(st.tuples(FIELDS, FIELDS), min_size=1, max_size=10),
    delimiter=st.sampled_from([",", "\t"]),
    # The csv module forgets to quote a lone carriage return unless its lines end in one.
    style=st.sampled_from([("\r\n", csv.QUOTE_MINIMAL), ("\r\n", csv.QUOTE_ALL), ("\n", csv.QUOTE_ALL)]),
)
def test_what_the_csv_module_writes_is_read_back(rows, delimiter, style):
    line_end, quoting = style
    buffer = io.StringIO(newline="")
    writer = csv.writer(buffer, delimiter=delimiter, lineterminator=line_end, quoting=quoting)
    writer.writerows([("text", "label"), *rows])
    table = separated_table(buffer.getvalue(), "a.csv", delimiter)
    columns = (table.column("text", ""), table.column("label", ""))
    assert list(zip(*columns, strict=True)) == rows


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            'text,label\n"two\nlines",0\na,b,1\n',
            "a.csv, row 2: 3 fields (line 4) where the header has 2; "
            "quote fields that contain a comma or a line break",
        ),
        (
            "text,label\na,0\n\nb\n",
            "a.csv, row 2: 1 field (line 4) where the header has 2; "
            "quote fields that contain a comma or a line break",
        ),
        (
            'text,label\na,0\n"b,1\nc,0\n',
            "a.csv, row 2: a double quote is never closed; inside a quoted field write a double quote twice",
        ),
        (
            'text,label\n"say "hi" now",0\n',
            "a.csv, row 1: bad quoting (',' expected after '\"'); "
            "inside a quoted field write a double quote twice",
        ),
        (
            "text,label,text\na,0,b\n",
            "a.csv: two columns are named 'text'; rename one in the header",
        ),
    ],
)
def test_malformed_rows_are_named(text, expected):
    assert message(text) == expected


def test_tabs_are_named_in_tsv():
    assert message("text\tlabel\na b\n", "\t").endswith("quote fields that contain a tab or a line break")


def test_empty_lines_are_no_rows():
    table = separated_table("\ntext,label\n\na,0\n\n\nb,1\n\n", "a.csv", ",")
    assert list(table.column("text", "")) == ["a", "b"]


def test_an_empty_line_of_a_single_column_is_an_empty_value():
    table = separated_table("text\na\n\nb\n\n", "a.csv", ",")
    assert list(table.column("text", "")) == ["a", "", "b"]


def test_a_document_longer_than_the_csv_modules_limit():
    document = "word " * 50_000
    table = separated_table(f'text,label\n"{document}",0\n', "a.csv", ",")
    assert table.column("text", "") == (document,)


def test_blanks_around_header_names_do_not_count():
    assert separated_table("text, label\na,0\n", "a.csv", ",").names == ("text", "label")
