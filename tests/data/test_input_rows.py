"""Rows to be predicted: blank ones, and the columns beside them."""

import numpy as np
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
