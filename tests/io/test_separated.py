"""Csv and tsv: what other programs write is read back, what is malformed is named by its row."""

from __future__ import annotations

import csv
import io
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from calmix.io import separated
from calmix.io.separated import has_tidy_quotes, separated_batches
from calmix.user_error import UserError

# No lone surrogates: a file in UTF-8 cannot hold them.
FIELDS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
QUOTE = "inside a quoted field write a double quote twice"


def columns_of(text: str, delimiter: str = ",") -> dict[str, list[str]]:
    columns: dict[str, list[str]] = {}
    for table in separated_batches(io.BytesIO(text.encode()), "a.csv", delimiter):
        for name, values in table.to_pydict().items():
            columns.setdefault(name, []).extend(values)
    return columns


@given(
    rows=st.lists(st.tuples(FIELDS, FIELDS), min_size=1, max_size=10),
    delimiter=st.sampled_from([",", "\t"]),
    # The csv module forgets to quote a lone carriage return unless its lines end in one.
    style=st.sampled_from([("\r\n", csv.QUOTE_MINIMAL), ("\r\n", csv.QUOTE_ALL), ("\n", csv.QUOTE_ALL)]),
    block=st.sampled_from([1, 16, 64, 1 << 20]),
)
def test_what_the_csv_module_writes_is_read_back(rows, delimiter, style, block):
    line_end, quoting = style
    buffer = io.StringIO(newline="")
    writer = csv.writer(buffer, delimiter=delimiter, lineterminator=line_end, quoting=quoting)
    writer.writerows([("text", "label"), *rows])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(separated, "BLOCK_BYTES", block)
        columns = columns_of(buffer.getvalue(), delimiter)
    assert list(zip(columns["text"], columns["label"], strict=True)) == rows


PIECES = ['"', ",", "\n", "\r", "\r\n", "a", "\ufeff", "1", '""', ',"', '",']


def by_the_csv_module(text: str) -> list[list[str]] | None:
    """What the strict csv module says, with the rules for rows; None where it refuses."""
    try:
        rows = [row for row in csv.reader(io.StringIO(text, newline=""), strict=True) if row]
    except csv.Error:
        return None
    return None if not rows or any(len(row) != 2 for row in rows) else rows


@given(
    body=st.lists(st.sampled_from(PIECES), max_size=40),
    block=st.sampled_from([1, 7, 1 << 20]),
)
def test_any_text_is_read_or_refused_as_by_the_strict_csv_module(body, block):
    text = "x,y\n" + "".join(body)
    expected = by_the_csv_module(text)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(separated, "BLOCK_BYTES", block)
        try:
            columns = columns_of(text)
        except UserError:
            assert expected is None
            return
    rows = [list(row) for row in zip(columns.get("x", []), columns.get("y", []), strict=True)]
    assert expected is not None
    assert rows == expected[1:]


def test_arrow_reads_the_tidy_part_of_a_file_and_the_csv_module_the_rest(monkeypatch):
    """A quote inside a field without quotes is legal; rows on both sides of it come out once, in order."""
    monkeypatch.setattr(separated, "BLOCK_BYTES", 100)
    generator = random.Random(0)
    rows = [[f"row {n}" + '"\n,é'[: generator.randrange(4)], str(n)] for n in range(300)]
    buffer = io.StringIO(newline="")
    csv.writer(buffer).writerows([["text", "label"], *rows[:150]])
    buffer.write('5" screen,x\n')
    csv.writer(buffer).writerows(rows[150:])
    columns = columns_of(buffer.getvalue())
    assert columns["text"] == [row[0] for row in rows[:150]] + ['5" screen'] + [row[0] for row in rows[150:]]


def test_tidy_quotes():
    assert has_tidy_quotes(b'"a",b\r\n"c ""d""",""\n', ",")
    assert has_tidy_quotes(b'a;"b;c"', ";")
    for untidy in (b'a,"b\n', b'"a"b,c\n', b'a ""b"",c\n', b'"a" ,b\n', b'"a";"b"\n'):
        assert not has_tidy_quotes(untidy, ","), untidy


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
        ('text,label\na,0\n"b,1\nc,0\n', f"a.csv, row 2: a double quote is never closed; {QUOTE}"),
        # In the last column Arrow would swallow the rows that follow.
        ('text,label\na,0\nb,"1\nc,0\nd,1\n', f"a.csv, row 2: a double quote is never closed; {QUOTE}"),
        ('"text,label\na,0\n', f"a.csv: a double quote is never closed in the header; {QUOTE}"),
        (
            'text,label\n"say "hi" now",0\n',
            f"a.csv, row 1: bad quoting (',' expected after '\"'); {QUOTE}",
        ),
        ("text,label,text\na,0,b\n", "a.csv: two columns are named 'text'; rename one of them"),
        (
            "text;label\na;0;1\n",
            "a.csv, row 1: 3 fields (line 2) where the header has 2; "
            "quote fields that contain a semicolon or a line break",
        ),
    ],
)
def test_malformed_rows_are_named(text, expected, message, write):
    assert message(write("a.csv", text)) == expected


def test_tabs_are_named_in_tsv(message, write):
    assert message(write("a.tsv", "text\tlabel\na b\n")).endswith(
        "quote fields that contain a tab or a line break"
    )


@pytest.mark.parametrize("delimiter", [";", "\t"])
def test_a_csv_file_without_commas_may_be_separated_otherwise(delimiter, read, write, caplog):
    text = 'text;label\none, two;0\n"a;b";1\n'.replace(";", delimiter)
    name = write(f"separated-{ord(delimiter)}-{read.__name__}.csv", text)
    assert read(name) == {"text": ["one, two", f"a{delimiter}b"], "label": ["0", "1"]}
    read(name)
    said = "semicolons" if delimiter == ";" else "tabs"
    assert [record.message for record in caplog.records] == [f"note: {name}: read as separated by {said}"]


def test_semicolons_in_a_file_with_commas_are_text(read, write):
    assert read(write("a.csv", "text;note,label\na;b,0\n")) == {"text;note": ["a;b"], "label": ["0"]}


def test_empty_lines_are_no_rows(read, write):
    assert read(write("a.csv", "\ntext,label\n\na,0\n\n\nb,1\n\n"))["text"] == ["a", "b"]


def test_an_empty_line_of_a_single_column_is_an_empty_value(read, write):
    assert read(write("a.csv", "text\na\n\nb\n\n")) == {"text": ["a", "", "b"]}


def test_a_document_longer_than_the_csv_modules_limit(read, write):
    document = "word " * 50_000
    for quote in ('"', 'a "'):
        text = document if quote == '"' else document.replace("word", 'w"d')
        written = '"{}"'.format(text.replace('"', '""'))
        assert read(write("a.csv", f"text,label\n{written},0\n"))["text"] == [text]


def test_blanks_around_header_names_do_not_count(read, write):
    assert list(read(write("a.csv", "text, label\na,0\n"))) == ["text", "label"]


def test_texts_stay_as_they_are_written(read, write):
    texts = ["007", "1e5", "NA", "null", "true", "2020-01-01", "", " a "]
    rows = "".join(f"{text},{text}\n" for text in texts)
    assert read(write("a.csv", "text,label\n" + rows)) == {"text": texts, "label": texts}


def test_columns_that_look_like_dates_stay_texts(write):
    from calmix.io.tables import read_arrow

    table = read_arrow(write("a.csv", "id,when,n\n10:30,2020-01-01,1\n11:00,2020-01-02 10:00:00,2\n"))
    assert table.to_pydict() == {
        "id": ["10:30", "11:00"],
        "when": ["2020-01-01", "2020-01-02 10:00:00"],
        "n": [1, 2],
    }


def test_an_unclosed_quote_does_not_read_a_large_file_into_one_field(monkeypatch, message, write):
    monkeypatch.setattr(separated, "BLOCK_BYTES", 1 << 12)
    monkeypatch.setattr(separated, "LONGEST_FIELD", 1 << 14)
    name = write("a.csv", 'text,label\na,0\n"b,1\n' + "c,0\n" * 20_000)
    assert message(name) == f"a.csv, row 2: a double quote is never closed; {QUOTE}"
