"""Rows keep ids, inputs and labels together through every selection."""

from __future__ import annotations

import hashlib
import struct

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calmix.data.rows import Rows


def make(count: int = 6, **columns) -> Rows:
    return Rows.from_columns(
        [f"train-{n}" for n in range(1, count + 1)],
        [f"text {n}" for n in range(1, count + 1)],
        labels=[n % 2 for n in range(count)],
        label_names=("even", "odd"),
        **columns,
    )


@given(st.data())
def test_ids_stay_with_their_rows_through_any_shuffles_and_subsets(data):
    rows = make(count=data.draw(st.integers(1, 20)))
    selected = rows
    for _ in range(data.draw(st.integers(0, 4))):
        positions = st.lists(st.integers(0, len(selected) - 1)) if len(selected) else st.just([])
        selected = selected.select(data.draw(positions))
    for row_id, text, label in zip(selected.row_ids, selected.texts(), selected.labels, strict=True):
        n = int(row_id.removeprefix("train-"))
        assert (text, label) == (f"text {n}", (n - 1) % 2)


@given(st.permutations(range(8)))
def test_shuffling_back_restores_the_fingerprint(order):
    rows = make(8)
    shuffled = rows.select(order)
    assert shuffled.select(np.argsort(order)).fingerprint() == rows.fingerprint()
    assert (shuffled.fingerprint() == rows.fingerprint()) == (order == list(range(8)))


def test_fingerprint_is_the_hash_of_lengths_and_bytes():
    # Caches of runs are keyed by it: another spelling would throw them all away.
    def spell(*texts: str) -> bytes:
        lengths = (len(texts), *(len(text.encode()) for text in texts))
        return struct.pack(f"<{len(lengths)}q", *lengths) + "".join(texts).encode()

    rows = Rows.from_columns(["a", "bc"], ["é", "xyz"], labels=[1, 0], label_names=("neg", "pos"))
    content = spell("neg", "pos") + spell("row_id") + spell("a", "bc") + spell("text") + spell("é", "xyz")
    content += spell("label") + struct.pack("<2q", 1, 0)
    assert rows.fingerprint() == hashlib.sha256(content).hexdigest()


@pytest.mark.parametrize(
    "other",
    [
        Rows.from_columns(["a", "c"], ["x", "y"], labels=[0, 1], label_names=("n", "p")),
        Rows.from_columns(["a", "b"], ["x", "z"], labels=[0, 1], label_names=("n", "p")),
        Rows.from_columns(["a", "b"], ["x", "y"], labels=[1, 0], label_names=("n", "p")),
        Rows.from_columns(["a", "b"], ["x", "y"], labels=[0, 1], label_names=("n", "q")),
        Rows.from_columns(["a", "b"], ["xy", ""], labels=[0, 1], label_names=("n", "p")),
        Rows.from_columns(["ab", ""], ["x", "y"], labels=[0, 1], label_names=("n", "p")),
        Rows.from_columns(["a", "b"], ["x", "y"], label_names=("n", "p")),
        Rows.from_columns(["a", "b"], ["x", "y"], pairs=["", ""], labels=[0, 1], label_names=("n", "p")),
        Rows.from_columns(["a"], ["x"], labels=[0], label_names=("n", "p")),
    ],
)
def test_fingerprint_sees_every_part(other):
    rows = Rows.from_columns(["a", "b"], ["x", "y"], labels=[0, 1], label_names=("n", "p"))
    assert rows.fingerprint() != other.fingerprint()


def test_fingerprint_sees_where_a_list_of_choices_ends():
    def of(choices):
        return Rows.from_columns(["a", "b"], ["x", "y"], choices=choices).fingerprint()

    assert of([["p", "q"], ["r"]]) != of([["p"], ["q", "r"]])


def test_fingerprint_does_not_depend_on_source_or_chunks():
    rows = make(6)
    chunked = pa.concat_tables([rows.table.slice(0, 2), rows.table.slice(2)])
    assert Rows(chunked, rows.label_names, "elsewhere.csv").fingerprint() == rows.fingerprint()


def test_select_refuses_what_would_pick_other_rows_than_meant():
    with pytest.raises(ValueError, match="flatnonzero"):
        make(2).select(np.array([True, False]))
    with pytest.raises(IndexError):
        make(2).select([-1])
    with pytest.raises(IndexError):
        make(2).select([2])
    assert len(make(2).select([])) == 0


def test_without_labels_the_rest_is_kept():
    rows = make(3)
    bare = rows.without_labels()
    assert not bare.is_labelled
    assert bare.row_ids.tolist() == rows.row_ids.tolist()
    assert bare.fingerprint() != rows.fingerprint()


def test_label_counts_name_absent_classes_too():
    rows = Rows.from_columns(["a", "b"], ["x", "y"], labels=[2, 2], label_names=("p", "q", "r"))
    assert rows.label_counts.tolist() == [0, 0, 2]


def test_tasks():
    assert make().task == "single"
    assert make(2, pairs=["p", "q"]).task == "pair"
    assert make(2, choices=[["p", "q"], ["r", "s"]]).task == "choice"


@pytest.mark.parametrize("labels", [[0, 2], [-1, 0]])
def test_labels_outside_the_classes_are_refused(labels):
    with pytest.raises(ValueError, match="labels outside"):
        Rows.from_columns(["a", "b"], ["x", "y"], labels=labels, label_names=("n", "p"))


def test_missing_labels_are_not_made_up():
    with pytest.raises(ValueError, match="no labels"):
        _ = make().without_labels().labels


def test_tables_of_another_shape_are_refused():
    with pytest.raises(ValueError, match="expected row_id, text"):
        Rows(pa.table({"text": ["a"], "row_id": ["b"]}), (), "memory")
    with pytest.raises(ValueError, match="not both"):
        make(2, pairs=["p", "q"], choices=[["p", "q"], ["r", "s"]])
    with pytest.raises(ValueError, match="without nulls"):
        Rows.from_columns(["a"], [None])  # type: ignore[list-item]
