"""Batches that hold rows of several groups."""

from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calmix.data.batches.grouped import RowGroups, grouped_epoch_batches
from calmix.data.batches.sampler import EpochBatchSampler


def make_groups(sizes, cover="all"):
    ends = np.cumsum([0, *sizes])
    positions = tuple(np.arange(start, end) for start, end in pairwise(ends))
    return RowGroups(tuple(f"group {i}" for i in range(len(sizes))), positions, cover)


def seen(batches):
    return Counter((int(p), int(g)) for b in batches for p, g in zip(b.positions, b.groups, strict=True))


@given(
    st.lists(st.integers(1, 40), min_size=2, max_size=3), st.integers(1, 17), st.integers(0, 3), st.booleans()
)
def test_all_rows_once_in_batches_where_every_group_has_its_share(sizes, batch_size, epoch, by_length):
    groups = make_groups(sizes)
    lengths = np.random.default_rng(1).integers(3, 90, sum(sizes)) if by_length else None
    batches = grouped_epoch_batches(groups, batch_size, seed=5, epoch=epoch, lengths=lengths)
    assert all(count == 1 for count in seen(batches).values())
    assert len(seen(batches)) == sum(sizes) == groups.rows_per_epoch
    assert [len(b.positions) for b in batches[:-1]] == [batch_size] * (len(batches) - 1)
    for batch in batches:
        for number, size in enumerate(sizes):
            share = len(batch.positions) * size / sum(sizes)
            assert abs(int((batch.groups == number).sum()) - share) < 2


def test_the_shortest_group_ends_the_epoch_and_other_rows_are_left_out_each_time():
    groups = make_groups([4, 9], "shortest")
    epochs = [seen(grouped_epoch_batches(groups, 4, seed=0, epoch=e)) for e in range(6)]
    for rows in epochs:
        assert sum(rows.values()) == 8 and max(rows.values()) == 1
        assert sum(group == 0 for _, group in rows) == 4
    assert len({position for rows in epochs for position, _ in rows}) == 13


def test_the_longest_group_ends_the_epoch_and_the_other_is_gone_through_again_in_a_new_order():
    groups = make_groups([4, 10], "longest")
    batches = grouped_epoch_batches(groups, 2, seed=0, epoch=0)
    rows = seen(batches)
    assert sum(rows.values()) == 20
    assert sorted(count for (_, group), count in rows.items() if group == 0) == [2, 2, 3, 3]
    # A loader that caches its batches would give every row the same partner each time round.
    partners = {}
    for batch in batches:
        (short,), (long,) = batch.positions[batch.groups == 0], batch.positions[batch.groups == 1]
        partners.setdefault(int(short), set()).add(int(long))
    assert all(len(found) >= 2 for found in partners.values())


def test_copies_of_a_row_keep_their_distance_where_rows_stand_by_length():
    lengths = np.random.default_rng(0).integers(5, 100, 750)
    groups = make_groups([50, 700], "longest")
    batches = grouped_epoch_batches(groups, 16, seed=0, epoch=0, lengths=lengths)
    small = [batch.positions[batch.groups == 0] for batch in batches]
    distinct = [len(np.unique(rows)) / len(rows) for rows in small]
    assert np.mean(distinct) > 0.95


def test_a_row_may_stand_in_two_groups():
    groups = RowGroups(("a", "b"), (np.array([0, 1]), np.array([1, 2])))
    assert seen(grouped_epoch_batches(groups, 4, seed=0, epoch=0)) == {
        (0, 0): 1,
        (1, 0): 1,
        (1, 1): 1,
        (2, 1): 1,
    }


def test_rows_of_similar_length_stand_together():
    generator = np.random.default_rng(0)
    lengths = generator.integers(5, 100, 1200)
    groups = RowGroups(("a", "b"), (np.arange(0, 1200, 2), np.arange(1, 1200, 2)))
    bucketed = grouped_epoch_batches(groups, 16, seed=0, epoch=0, lengths=lengths)
    padded = sum(len(b.positions) * lengths[b.positions].max() for b in bucketed)
    assert padded < 1.1 * lengths.sum()
    orders = [tuple(b.positions) for b in bucketed[:5]]
    assert orders != sorted(orders, key=lambda rows: -lengths[list(rows)].max())  # the steps are shuffled


def test_the_order_depends_on_seed_and_epoch_alone():
    groups = make_groups([30, 30])

    def draw(seed, epoch):
        batches = grouped_epoch_batches(groups, 8, seed=seed, epoch=epoch)
        return [batch.positions.tolist() for batch in batches]

    assert draw(1, 2) == draw(1, 2)
    assert draw(1, 2) != draw(1, 3)
    assert draw(1, 2) != draw(2, 2)


@pytest.mark.parametrize("processes", [1, 2, 3])
def test_the_sampler_hands_out_groups_and_pads_for_processes(processes):
    groups = make_groups([5, 6])
    sampler = EpochBatchSampler(11, 4, seed=0, processes=processes, groups=groups)
    batches = list(sampler)
    assert len(batches) == len(sampler) and len(batches) % processes == 0
    real = [key for batch in batches for key in batch if not key.is_padding]
    assert sorted((key.position, key.group) for key in real) == [(i, int(i >= 5)) for i in range(11)]
    if processes > 1:
        assert all(len(batch) == 4 for batch in batches)
