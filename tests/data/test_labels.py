"""A label means the same in every format; what is no class is refused with its row."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from calmix.data.labels import (
    check_class_count,
    has_labels,
    read_choice_labels,
    read_labels,
    sorted_label_names,
)
from calmix.io.table import DataTable
from calmix.user_error import UserError


def table_of(values: list[Any]) -> DataTable:
    return DataTable("a.csv", ("label",), len(values), lambda _: values)


def encode(values: list[Any], known: tuple[str, ...] | None = None) -> tuple[list[int], tuple[str, ...]]:
    indices, names = read_labels(table_of(values), "label", known)
    return indices.tolist(), names


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (["pos", "neg", " pos "], ([1, 0, 1], ("neg", "pos"))),
        (["10", "9", "-1"], ([2, 1, 0], ("-1", "9", "10"))),
        ([10, 9, -1], ([2, 1, 0], ("-1", "9", "10"))),
        ([1.0, 0.0, Decimal(1)], ([1, 0, 1], ("0", "1"))),
        (["1.0", "0.0"], ([1, 0], ("0", "1"))),
        ([True, False], ([1, 0], ("False", "True"))),
        (["True", "False"], ([1, 0], ("False", "True"))),
        # One name among numbers: all are names, sorted as texts.
        (["10", "9", "none"], ([0, 1, 2], ("10", "9", "none"))),
        # One class, whatever the file writes and whatever else is in it.
        ([1, "1", 1.0, "1.0", "none"], ([0, 0, 0, 0, 1], ("1", "none"))),
        # "01" is a name: as a number it would fall together with "1".
        (["01", "1", "2"], ([0, 1, 2], ("01", "1", "2"))),
        (["1.5 stars", "2.5 stars"], ([0, 1], ("1.5 stars", "2.5 stars"))),
    ],
)
def test_labels_of_every_kind(values, expected):
    assert encode(values) == expected


@given(st.lists(st.integers(-50, 50), min_size=1))
def test_integers_mean_the_same_as_numbers_and_as_texts(numbers):
    expected = encode(numbers)
    assert [int(expected[1][index]) for index in expected[0]] == numbers
    assert encode([str(number) for number in numbers]) == expected
    assert encode([float(number) for number in numbers]) == expected


@given(st.lists(st.integers(0, 9), min_size=1))
def test_class_order_does_not_depend_on_row_order(numbers):
    assert sorted_label_names([str(n) for n in numbers]) == tuple(str(n) for n in sorted(set(numbers)))


@pytest.mark.parametrize("value", [None, "", "  ", float("nan")])
def test_missing_label(value):
    with pytest.raises(UserError, match=r"^a\.csv, row 2, column 'label': no label; remove the row"):
        encode(["a", value])


@pytest.mark.parametrize("values", [[1, 0.5], ["1", "0.5"], ["1.0", ".5"], [1, float("inf")]])
def test_what_is_no_class(values):
    with pytest.raises(
        UserError, match=r"^a\.csv, row 2, column 'label': .* is neither a name nor a whole number$"
    ):
        encode(values)


def test_a_list_of_labels_is_no_class_and_the_option_for_several_is_named():
    with pytest.raises(UserError) as caught:
        encode(["a", ["b"]])
    assert str(caught.value) == (
        "a.csv, row 2, column 'label': the label ['b'] is neither a name nor a whole number; give "
        "multi_label where rows have several labels"
    )


def test_known_labels_give_their_indices():
    known = ("9", "10")
    assert encode([10, "9", "10.0", 9.0], known) == ([1, 0, 1, 0], known)


def test_unknown_label_is_named_and_the_known_ones_are_listed():
    with pytest.raises(UserError) as caught:
        encode(["pos", "neutral"], ("neg", "pos"))
    assert str(caught.value) == (
        "a.csv, row 2, column 'label': the label 'neutral' does not occur in training; "
        "the labels are: neg, pos"
    )


def test_a_long_list_of_labels_is_cut():
    with pytest.raises(UserError, match=r"18, 19 and 5 more$"):
        encode(["x"], tuple(str(index) for index in range(25)))


def test_index_of_the_right_choice():
    assert read_choice_labels(table_of([0, "2", 1.0]), "label", 3).tolist() == [0, 2, 1]


@pytest.mark.parametrize("value", [3, -1, "b", "1.5"])
def test_an_index_that_is_no_choice(value):
    with pytest.raises(UserError, match=f"row 1, .* the label '{value}' is not the index of a choice"):
        read_choice_labels(table_of([value]), "label", 3)


def test_one_class_only_is_refused():
    with pytest.raises(UserError) as caught:
        check_class_count(("pos",), "train.csv", "label")
    assert str(caught.value) == (
        "train.csv, column 'label': every row has the label 'pos'; training needs at least two classes"
    )


def test_a_column_of_blanks_holds_no_labels():
    assert has_labels(table_of([None, "", 0]), "label")
    assert has_labels(table_of([False]), "label")
    assert not has_labels(table_of([None, "", " "]), "label")
    assert not has_labels(table_of(["a"]), "gold")
