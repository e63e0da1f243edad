"""Stratified parts: shares, bounds, and dependence on ids and seed alone."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.model_selection import train_test_split

from calmix.data.rows import Rows
from calmix.data.sampling import apportion, stratified_sample, stratified_split

COUNTS = st.lists(st.integers(0, 40), min_size=1, max_size=6).filter(lambda counts: sum(counts) > 0)
FRACTIONS = st.floats(0.01, 0.99)


def make(counts: list[int]) -> Rows:
    labels = np.repeat(np.arange(len(counts)), counts)
    labels = np.random.default_rng(0).permutation(labels)
    row_ids = [f"train-{n}" for n in range(1, len(labels) + 1)]
    names = tuple(map(str, range(len(counts))))
    return Rows.from_columns(row_ids, row_ids, labels=labels, label_names=names)


@given(COUNTS, FRACTIONS, st.integers(-3, 3))
def test_split_divides_the_rows_and_leaves_every_class_in_the_rest(counts, fraction, seed):
    rows = make(counts)
    rest, part = stratified_split(rows, fraction, seed)
    assert sorted([*rest.row_ids, *part.row_ids]) == sorted(rows.row_ids)
    assert np.all((rest.label_counts > 0) == (np.array(counts) > 0))
    spare = sum(max(count - 1, 0) for count in counts)
    assert len(part) == min(max(1, int(fraction * len(rows) + 0.5 + 1e-9)), spare)
    for each in (rest, part):
        numbers = [int(row_id.removeprefix("train-")) for row_id in each.row_ids]
        assert numbers == sorted(numbers)


@given(st.lists(st.integers(30, 300), min_size=2, max_size=5), st.floats(0.1, 0.5))
def test_split_shares_agree_with_scikit_learn(counts, fraction):
    rows = make(counts)
    _, part = stratified_split(rows, fraction, seed=0)
    _, reference = train_test_split(rows.labels, test_size=len(part), stratify=rows.labels, random_state=0)
    assert np.abs(part.label_counts - np.bincount(reference, minlength=len(counts))).max() <= 1


@given(st.permutations(range(30)), st.integers(0, 3))
def test_split_does_not_depend_on_the_order_of_the_rows(order, seed):
    rows = make([20, 10])
    _, part = stratified_split(rows, 0.2, seed)
    _, shuffled = stratified_split(rows.select(order), 0.2, seed)
    assert set(part.row_ids) == set(shuffled.row_ids)


def test_split_takes_the_first_rows_of_every_class_by_hash():
    # Spelled out, since a run that is repeated years later must split the same rows off.
    rows = make([20, 10])
    _, part = stratified_split(rows, 0.1, seed=7)
    expected = []
    for label, share in [(0, 2), (1, 1)]:
        row_ids = rows.row_ids[rows.labels == label].tolist()
        row_ids.sort(key=lambda row_id: hashlib.blake2b(f"split/7/{row_id}".encode(), digest_size=8).digest())
        expected += row_ids[:share]
    assert sorted(part.row_ids.tolist()) == sorted(expected)


def test_other_seeds_and_purposes_take_other_rows():
    rows = make([500, 500])
    parts = [set(stratified_split(rows, 0.1, seed)[1].row_ids) for seed in range(3)]
    parts.append(set(stratified_sample(rows, 100, seed=0).row_ids))
    for position, part in enumerate(parts):
        for other in parts[:position]:
            # Independent draws of 100 among 1,000 share about 10 rows.
            assert len(part & other) < 30


def test_every_row_is_equally_likely_to_be_split_off():
    rows = make([50, 30])
    taken = np.zeros(len(rows))
    for seed in range(400):
        _, part = stratified_split(rows, 0.1, seed)
        taken[[int(row_id.removeprefix("train-")) - 1 for row_id in part.row_ids]] += 1
    # 40 expected of 400 draws, standard deviation 6.
    assert taken.min() > 40 - 5 * 6
    assert taken.max() < 40 + 5 * 6


def test_rows_of_single_classes_cannot_be_split():
    rest, part = stratified_split(make([1, 1, 1]), 0.1, seed=0)
    assert (len(rest), len(part)) == (3, 0)


@given(COUNTS, st.integers(1, 250), st.integers(0, 3))
def test_sample_has_the_size_and_every_class_it_has_room_for(counts, n, seed):
    rows = make(counts)
    sample = stratified_sample(rows, n, seed)
    assert len(sample) == min(n, len(rows))
    assert len(set(sample.row_ids)) == len(sample)
    if n >= np.count_nonzero(counts):
        assert np.all((sample.label_counts > 0) == (np.array(counts) > 0))


def test_sample_keeps_shares_and_order():
    sample = stratified_sample(make([600, 300, 100]), 50, seed=1)
    assert sample.label_counts.tolist() == [30, 15, 5]
    numbers = [int(row_id.removeprefix("train-")) for row_id in sample.row_ids]
    assert numbers == sorted(numbers)


def test_unlabelled_rows_can_be_sampled():
    rows = make([10, 10]).without_labels()
    assert len(stratified_sample(rows, 5, seed=0)) == 5


@given(COUNTS, st.integers(0, 200))
def test_apportioned_shares_differ_from_proportion_by_less_than_one(counts, total):
    counts = np.array(counts)
    total = min(total, int(counts.sum()))
    shares = apportion(counts, total, np.zeros_like(counts), counts)
    assert shares.sum() == total
    assert np.all(np.abs(shares * counts.sum() - counts * total) < counts.sum())


@pytest.mark.parametrize("fraction", [0, 1, -0.1])
def test_fractions_that_are_none_are_refused(fraction):
    with pytest.raises(ValueError, match="between 0 and 1"):
        stratified_split(make([5, 5]), fraction, seed=0)


def test_a_sample_of_nothing_is_refused():
    with pytest.raises(ValueError, match="at least one"):
        stratified_sample(make([5, 5]), 0, seed=0)


@given(
    st.lists(st.tuples(st.sampled_from("abcdefgh"), st.integers(0, 2)), min_size=4, max_size=30), FRACTIONS
)
def test_rows_of_one_input_stay_on_one_side(pairs, fraction):
    labels = [label for _, label in pairs]
    rows = Rows.from_columns(
        [f"r{n}" for n in range(len(pairs))],
        [text for text, _ in pairs],
        labels=labels,
        label_names=("0", "1", "2"),
    )
    rest, part = stratified_split(rows, fraction, seed=3)
    assert sorted([*rest.row_ids, *part.row_ids]) == sorted(rows.row_ids)
    assert not set(rest.texts()) & set(part.texts())
    assert set(rest.labels.tolist()) == set(labels)
