"""Rows to be predicted: blank ones, and the columns beside them."""

from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from calmix.data.columns import ColumnNames
from calmix.data.input_rows import read_input
from calmix.user_error import UserError


def test_pairs_are_blank_if_either_text_is(tmp_path):
    file = tmp_path / "pairs.jsonl"
    file.write_text(
        '{"text": "a", "text_pair": "b", "n": 1}\n{"text": "a", "text_pair": " ", "n": 2}\n'
        '{"text": null, "text_pair": "b", "n": 3}\n{"text": "c", "text_pair": "d", "n": 4}\n'
    )
    given = read_input(file, ColumnNames(), skip_blank=True)
    assert given.blank == (2, 3)
    assert given.rows.row_ids.tolist() == ["input-1", "input-4"]
    assert given.rows.pairs() == ["b", "d"]
    assert given.columns["n"].to_pylist() == [1, 4]
    with pytest.raises(UserError, match="2 rows have no text: rows 2, 3; fill them in"):
        read_input(file, ColumnNames())


def test_an_error_behind_a_blank_row_keeps_its_number(tmp_path):
    file = tmp_path / "rows.jsonl"
    file.write_text('{"text": ""}\n{"text": "a"}\n{"text": 3}\n')
    with pytest.raises(UserError, match="row 3"):
        read_input(file, ColumnNames(), skip_blank=True)


def test_ids_and_columns_of_every_kind(tmp_path):
    file = tmp_path / "rows.jsonl"
    file.write_text(
        '{"key": "x", "text": "a", "tags": ["p", "q"], "mixed": 1}\n'
        '{"key": "y", "text": "", "tags": [], "mixed": "one"}\n'
        '{"key": "z", "text": "b", "tags": null, "mixed": {"k": 1}}\n'
    )
    given = read_input(file, ColumnNames(id="key"), skip_blank=True)
    assert given.rows.row_ids.tolist() == ["x", "z"]
    assert given.columns["tags"].to_pylist() == [["p", "q"], None]
    assert len(given.columns["mixed"]) == 2


def test_arrays_of_images_are_not_copied(tmp_path):
    np.savez(tmp_path / "images.npz", images=np.zeros((2, 8, 8), np.uint8), labels=np.array([0, 1]))
    given = read_input(tmp_path / "images.npz", ColumnNames(), task="image")
    assert given.dropped == ("image",)
    assert given.columns["label"].to_pylist() == [0, 1]


def columns_of(directory, name, columns):
    """The columns of a parquet file as they are kept."""
    file = directory / name
    pq.write_table(pa.table({"text": ["a", "b", "c"], **columns}), file)
    return read_input(file, ColumnNames())


def test_columns_beside_the_text_keep_their_types_and_values(tmp_path):
    columns = {
        "when": pa.array([1577840523456789123] * 3, pa.timestamp("ns")),
        "share": pa.array([0.1] * 3, pa.float32()),
        "count": pa.array([2**64 - 1, 0, 1], pa.uint64()),
        "price": pa.array([Decimal("1.10")] * 3),
        "facts": pa.array([None, {"a": 1}, None]),
        "group": pa.array(["x", "y", "x"]).dictionary_encode(),
    }
    given = columns_of(tmp_path, "a.parquet", columns)
    assert given.dropped == ()
    for name, column in columns.items():
        assert given.columns[name].type == column.type
        assert given.columns[name].combine_chunks().equals(column)


@pytest.mark.parametrize(
    "values",
    [[None, b"\xff", b"P5"], [{"bytes": None, "path": "a"}, {"bytes": b"P5", "path": "b"}, None]],
)
def test_columns_of_bytes_are_left_out_wherever_the_first_of_them_is(tmp_path, values):
    assert columns_of(tmp_path, "a.parquet", {"raw": pa.array(values)}).dropped == ("raw",)


def test_objects_with_different_keys_stay_as_they_are_written(tmp_path):
    file = tmp_path / "a.jsonl"
    file.write_text('{"text": "a", "x": {"a": 1}}\n{"text": "b", "x": {"b": [2]}}\n')
    assert read_input(file, ColumnNames()).columns["x"].to_pylist() == ['{"a": 1}', '{"b": [2]}']


def test_columns_without_a_name_are_all_kept(tmp_path):
    file = tmp_path / "a.csv"
    file.write_text("text,,label,\na,1,x,2\nb,3,y,4\n")
    given = read_input(file, ColumnNames()).columns
    assert {name: column.to_pylist() for name, column in given.items()} == {
        "text": ["a", "b"], "column 2": ["1", "3"], "label": ["x", "y"], "column 4": ["2", "4"],
    }  # fmt: skip
