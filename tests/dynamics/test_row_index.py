import numpy as np
import pytest

from calmix.dynamics import row_index
from calmix.dynamics.row_index import RowIndex, as_row_ids, first_repeated


def test_finds_every_id_wherever_it_stands():
    ids = [f"train-{number}" for number in np.random.default_rng(0).permutation(500)]
    index = RowIndex(ids)
    asked = np.random.default_rng(1).permutation(500)[:64]
    assert index.positions([ids[place] for place in asked]).tolist() == asked.tolist()


def test_integer_ids_need_not_be_positions():
    assert RowIndex([30, 10, 20]).positions(np.array([10, 30])).tolist() == [1, 0]


@pytest.mark.parametrize("asked", ["train-9", "train-10", "train-100", "a", "zzz", ""])
def test_an_unknown_id_is_named_even_if_it_begins_like_a_known_one(asked):
    with pytest.raises(ValueError, match=f"unknown row id '{asked}'"):
        RowIndex(["train-1", "train-2"]).positions(["train-1", asked])


def test_strings_and_integers_are_not_confused():
    with pytest.raises(ValueError, match="row ids are strings here, integers were given"):
        RowIndex(["1", "2"]).positions([1])


def test_a_repeated_id_is_refused():
    with pytest.raises(ValueError, match="'b' occurs twice"):
        RowIndex(["a", "b", "c", "b"])


def test_ids_from_a_dataframe_column_are_strings():
    assert as_row_ids(np.array(["a", "bb"], dtype=object)).dtype.kind == "U"


@pytest.mark.parametrize("ids", [[1.5, 2.5], [["a"], ["b"]], [None, "a"]])
def test_other_kinds_of_ids_are_refused(ids):
    with pytest.raises(ValueError, match="row ids must be"):
        as_row_ids(ids)


def test_no_rows_know_no_ids():
    with pytest.raises(ValueError, match="unknown row id 'a'"):
        RowIndex([]).positions(["a"])


def test_the_smallest_repeated_id_is_found_and_colliding_hashes_are_not_one(monkeypatch):
    ids = np.array([f"row-{number}" for number in range(1000)])
    assert first_repeated(ids) is None
    assert first_repeated(np.append(ids, ["row-77", "row-500"])) == "row-500"
    assert first_repeated(np.append(np.arange(5), [3, 2])) == 2
    assert first_repeated(np.array([], dtype=np.str_)) is None
    monkeypatch.setattr(row_index, "_hashes", lambda texts: np.zeros(len(texts), dtype=np.uint64))
    assert first_repeated(ids) is None
