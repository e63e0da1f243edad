"""Anything that a file may hold is a table or a `UserError`, in both uses; nothing else."""

from __future__ import annotations

import gzip
import io
import json
import zipfile

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from calmix.io.tables import read_table, table_batches
from calmix.user_error import UserError

FORMATS = (".csv", ".tsv", ".json", ".jsonl", ".parquet", ".npz", ".csv.gz", ".jsonl.gz")
FUZZ = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture], database=None
)
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner, max_size=2),
    max_leaves=4,
)
PIECES = st.sampled_from(
    [
        *(b'"', b",", b";", b"\t", b"\n", b"\r\n", b"\x00", b"\xff", b"\xed\xa0\x80", b"\xef\xbb\xbf", b" "),
        *(b"text", b"label", b"0.5", b"-1", b"nan", b"NA", b"2020-01-01", b"9" * 5000, b"\\ud800", b"\\"),
        *(b"[", b"]", b"{", b"}", b":", b"null", b'"text":'),
    ]
)


def read_everything(path) -> None:
    """Both uses; every value is looked at."""
    for use in (rows, batches):
        try:
            use(path)
        except UserError as error:
            assert "\n" not in str(error)
            str(error).encode()  # it can be printed


def rows(path) -> None:
    table = read_table(path)
    for name in table.names:
        if table.names.count(name) == 1:
            assert len(list(table.read_column(name))) == table.row_count


def batches(path) -> None:
    for table in table_batches(path, batch_rows=2, text_columns=("row_id",)):
        table.validate(full=True)
        assert len(table)


def write(path, content: bytes):
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


@pytest.mark.parametrize("extension", FORMATS)
@FUZZ
@given(content=st.binary(max_size=200) | st.lists(PIECES, max_size=30).map(b"".join))
@example(content=b",\n\n,")  # two columns without a name, in two batches
def test_any_bytes(extension, tmp_path, content):
    read_everything(write(tmp_path / f"a{extension}", content))


@FUZZ
@given(
    records=st.lists(
        st.dictionaries(st.sampled_from(["text", "label", "probs"]), VALUES) | VALUES, max_size=5
    )
)
def test_any_json(tmp_path, records):
    lines = "\n".join(map(json.dumps, records)).encode()
    read_everything(write(tmp_path / "a.jsonl", lines))
    read_everything(write(tmp_path / "a.json", json.dumps(records).encode()))
    read_everything(write(tmp_path / "b.json", json.dumps({"text": records, "label": records}).encode()))


def parquet_bytes() -> bytes:
    sink = io.BytesIO()
    columns = {
        "text": ["a", "é", None, "d"],
        "probs": [[0.5, 0.5], [1.0, 0.0], None, []],
        "when": pa.array([1, 2**30, -(2**30), 0], pa.date32()),
        "long": pa.array([2**62, 0, 1, 2], pa.duration("s")),
        "struct": [{"a": 1}, {"a": None}, None, {"a": 3}],
    }
    pa.parquet.write_table(pa.table(columns), sink, row_group_size=2, compression="none")
    return sink.getvalue()


def npz_bytes() -> bytes:
    sink = io.BytesIO()
    np.savez(sink, label=np.arange(4), logits=np.zeros((4, 2)), class_names=np.array(["a", "b"]))
    return sink.getvalue()


@pytest.mark.parametrize(("extension", "whole"), [(".parquet", parquet_bytes()), (".npz", npz_bytes())])
@FUZZ
@given(data=st.data())
def test_damaged_files(extension, whole, tmp_path, data):
    content = bytearray(whole)
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, len(content) - 1))
        content[place] = data.draw(st.integers(0, 255))
    if data.draw(st.booleans()):
        del content[data.draw(st.integers(0, len(content) - 1)) :]
    read_everything(write(tmp_path / f"a{extension}", bytes(content)))


def member(header: str, body: bytes = b"\0" * 64) -> bytes:
    """An npy member with a header of one's own."""
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode("latin-1") + body


MEMBERS = {
    "huge shape": member("{'descr': '<i8', 'fortran_order': False, 'shape': (99999999999999,), }\n"),
    "no literal": member("{'descr': '<i8', (\n"),
    "deep": member("(" * 5000),
    "objects": member("{'descr': '|O', 'fortran_order': False, 'shape': (1,), }\n"),
    "negative shape": member("{'descr': '<i8', 'fortran_order': False, 'shape': (-1,), }\n"),
    "no dtype": member("{'descr': 'zz', 'fortran_order': False, 'shape': (1,), }\n"),
    "no array": b"hello",
    "bytes that are no text": member(
        "{'descr': '|S2', 'fortran_order': False, 'shape': (2,), }\n", b"\xff\xfe\xff\xfe"
    ),
    "surrogates": member("{'descr': '<U1', 'fortran_order': False, 'shape': (1,), }\n", b"\x00\xd8\x00\x00"),
    "beyond Unicode": member("{'descr': '<U1', 'fortran_order': False, 'shape': (1,), }\n", b"\xff" * 4),
}


@pytest.mark.parametrize("name", MEMBERS)
def test_members_of_an_archive_that_are_no_plain_arrays(name, tmp_path):
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("label" if name == "no array" else "label.npy", MEMBERS[name])
    for use in (rows, batches):
        with pytest.raises(UserError, match=r"a\.npz.*; write it with numpy\.savez"):
            use(tmp_path / "a.npz")


def test_an_array_under_the_name_of_an_archive(tmp_path):
    with (tmp_path / "a.npz").open("wb") as file:
        np.save(file, np.zeros(3))
    for use in (rows, batches):
        with pytest.raises(UserError, match=r"a single array \(\.npy\) under the name \.npz"):
            use(tmp_path / "a.npz")


def bad_text() -> pa.Array:
    return pa.StringArray.from_buffers(
        3, pa.py_buffer(np.array([0, 1, 2, 3], np.int32)), pa.py_buffer(b"a\xffb")
    )


@pytest.mark.parametrize(
    ("column", "problem"),
    [
        (bad_text(), "row 2, column 'text': the bytes of this value are no text in UTF-8"),
        (pa.array([0, 2**30, 0], pa.date32()), "row 2, column 'text': a value of the type date32"),
        (pa.array([0, 0, 2**62], pa.duration("s")), "row 3, column 'text': a value of the type duration"),
    ],
)
def test_values_of_parquet_that_have_no_python_form_are_named(tmp_path, column, problem):
    pa.parquet.write_table(pa.table({"text": column}), tmp_path / "a.parquet")
    with pytest.raises(UserError) as caught:
        rows(tmp_path / "a.parquet")
    assert problem in str(caught.value)


def test_two_parquet_columns_of_one_name_are_refused(tmp_path):
    table = pa.Table.from_arrays([pa.array(["a"]), pa.array(["b"])], names=["text", "text"])
    pa.parquet.write_table(table, tmp_path / "a.parquet")
    for use in (rows, batches):
        with pytest.raises(UserError, match="two columns are named 'text'"):
            use(tmp_path / "a.parquet")


@pytest.mark.parametrize("name", ["a\0.csv", "a" * 5000 + ".csv", "a" * 5000])
def test_names_that_no_file_can_have(name):
    for use in (rows, batches):
        with pytest.raises(UserError):
            use(name)
