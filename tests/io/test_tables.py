"""Files that cannot be read say why in one line."""

from __future__ import annotations

import gzip
import io

import pandas
import pytest

from calmix.io.formats import data_extension, file_stem

ROWS = "write a header and one row per record"


def test_missing_file(message, write):
    assert message("reviews.csv") == "reviews.csv: no such file; check the path"


@pytest.mark.parametrize("name", ["reviews.csv", "reviews.jsonl", "reviews.json", "reviews.parquet"])
@pytest.mark.parametrize("content", ["", "\n\n", "\ufeff", "\ufeff\n", " "])
def test_empty_file(message, name, content, write):
    assert message(write(name, content)) == f"{name}: the file is empty; {ROWS}"


def test_empty_gzip_file(message, write):
    assert message(write("a.csv.gz", gzip.compress(b""))) == f"a.csv.gz: the file is empty; {ROWS}"


@pytest.mark.parametrize(("name", "content"), [("a.csv", "text,label\n"), ("a.json", "[]")])
def test_no_rows(message, name, content, write):
    assert message(write(name, content)) == f"{name}: the file has no data rows; write one row per record"


def test_parquet_without_rows(message, tmp_path):
    path = tmp_path / "a.parquet"
    pandas.DataFrame({"text": [], "label": []}).to_parquet(path)
    assert message(path) == f"{path}: the file has no data rows; write one row per record"


@pytest.mark.parametrize(
    ("name", "problem"),
    [("a.txt", "unknown extension '.txt'"), ("a.gz", "unknown extension '.gz'"), ("a", "no extension")],
)
def test_unknown_extension(message, name, problem, write):
    assert message(write(name, "text")) == (
        f"{name}: {problem}; use .csv .tsv .json .jsonl .parquet .npz, each also .gz"
    )


def test_a_directory_under_a_file_name(message, write, tmp_path):
    (tmp_path / "a.csv").mkdir()
    assert message("a.csv") == "a.csv: cannot be read (Is a directory)"


def test_broken_gzip(message, write):
    remedy = "copy it again, or remove .gz from its name"
    assert message(write("a.csv.gz", "text,label\n")) == f"a.csv.gz: not a whole gzip file; {remedy}"
    whole = gzip.compress(b"text,label\na,0\n" * 100)
    assert message(write("b.csv.gz", whole[:-9])) == f"b.csv.gz: not a whole gzip file; {remedy}"


def test_broken_parquet(message, write):
    assert message(write("a.parquet", "text,label\na,0\n")).startswith(
        "a.parquet: not a whole parquet file ("
    )
    buffer = io.BytesIO()
    pandas.DataFrame({"text": ["a"]}).to_parquet(buffer)
    cut = write("b.parquet", buffer.getvalue()[:-20])
    assert message(cut).startswith("b.parquet: not a whole parquet file (")


@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
@pytest.mark.parametrize(
    ("name", "content", "place"),
    [
        # The line counts the header and line breaks inside quotes, the row does not.
        ("a.csv", b'text,label\n"one\ntwo",0\ncaf\xe9,1\n', "a.csv, row 2: line 4"),
        ("a.csv", b"text,label\n\xe9t\xe9,0\n", "a.csv, row 1: line 2"),
        ("a.csv", b"t\xe9xt,label\na,0\n", "a.csv: line 1"),
        ("a.jsonl", b'{"text": "a"}\n\n{"text": "\xe9"}\n', "a.jsonl, row 2: line 3"),
        ("a.json", b'[{"text": "a"},\n{"text": "\xe9"}]', "a.json: line 2"),
    ],
)
def test_other_encodings_are_named_by_row_and_line(message, mark, name, content, place, write):
    expected = f"{place} is not UTF-8 (byte 0xe9); save the file as UTF-8"
    assert message(write(name, mark + content)) == expected


@pytest.mark.parametrize("name", ["a.csv", "a.jsonl", "a.json"])
def test_a_byte_order_mark_is_no_part_of_the_first_column(read, name, write):
    content = "text,label\na,0\n" if name == "a.csv" else '{"text": "a", "label": 0}'
    assert list(read(write(name, "\ufeff" + content))) == ["text", "label"]


def test_extensions_in_any_case():
    assert data_extension("A.CSV.GZ") == ".csv"
    assert file_stem("A.CSV.GZ") == "A"
    assert file_stem("a.csv.csv") == "a.csv"
    assert data_extension(".csv") is None
