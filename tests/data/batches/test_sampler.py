import numpy as np
import pytest

from calmix.data.batches.sampler import (
    BatchKeys,
    EpochBatchSampler,
    KeyedCollator,
    KeyedRows,
    RowKey,
    epoch_batches,
)


def positions(sampler):
    return [[key.position for key in batch if not key.is_padding] for batch in sampler]


@pytest.mark.parametrize("rows", [1, 7, 16, 17, 400])
def test_every_row_stands_in_an_epoch_once(rows):
    lengths = np.random.default_rng(0).integers(1, 50, rows)
    batches = epoch_batches(rows, 8, seed=3, epoch=2, lengths=lengths)
    assert sorted(np.concatenate(batches).tolist()) == list(range(rows))
    assert [len(batch) for batch in batches[:-1]] == [8] * (len(batches) - 1)


def test_order_is_a_function_of_seed_and_epoch_alone():
    def order(seed, epoch):
        return np.concatenate(epoch_batches(100, 8, seed=seed, epoch=epoch)).tolist()

    assert order(0, 1) == order(0, 1)
    assert order(0, 1) != order(0, 2)
    assert order(0, 1) != order(1, 1)


def test_batches_hold_rows_of_similar_length_in_random_order():
    lengths = np.random.default_rng(0).integers(5, 200, 800)
    batches = epoch_batches(800, 16, seed=0, epoch=0, lengths=lengths)
    padded = sum(len(batch) * lengths[batch].max() for batch in batches)
    random = sum(len(batch) * lengths[batch].max() for batch in epoch_batches(800, 16, seed=0, epoch=0))
    assert padded < 1.06 * lengths.sum() < random
    # The batches do not come from long to short.
    longest = [int(lengths[batch].max()) for batch in batches]
    assert longest != sorted(longest, reverse=True)


@pytest.mark.parametrize(("rows", "processes"), [(98, 2), (96, 2), (97, 3), (5, 4)])
def test_processes_together_see_each_row_once_and_only_padding_twice(rows, processes):
    sampler = EpochBatchSampler(rows, 8, seed=1, processes=processes)
    batches = list(sampler)
    assert len(batches) == len(sampler)
    assert len(batches) % processes == 0
    assert {len(batch) for batch in batches} == {8}
    real = [key.position for batch in batches for key in batch if not key.is_padding]
    assert sorted(real) == list(range(rows))
    # Padding stands behind the real rows: a method mixes the first `real` rows of a batch.
    for batch in batches:
        marks = [key.is_padding for key in batch]
        assert marks == sorted(marks)


@pytest.mark.parametrize(("rows", "processes"), [(98, 2), (97, 3), (9, 4)])
def test_padding_is_made_of_different_rows(rows, processes):
    """Copies of one row would be half of what batch normalisation sees."""
    for batch in EpochBatchSampler(rows, 8, seed=1, processes=processes):
        assert len({key.position for key in batch}) == 8


def test_padding_goes_round_where_there_are_too_few_rows():
    only, empty = EpochBatchSampler(3, 8, seed=1, processes=2)
    assert [key.is_padding for key in only] == [False] * 3 + [True] * 5
    for batch in (only, empty):
        counts = np.bincount([key.position for key in batch], minlength=3)
        assert sorted(counts.tolist()) == [2, 3, 3]


def test_batches_do_not_depend_on_the_number_of_processes():
    alone = positions(EpochBatchSampler(64, 8, seed=1))
    together = positions(EpochBatchSampler(64, 8, seed=1, processes=2))
    assert alone == together


def test_collator_hands_on_the_keys_and_drops_features_the_network_does_not_take():
    rows = KeyedRows([{"x": 1.0, "note": "a"}, {"x": 2.0, "note": "b"}])

    def collate(features):
        return {"x": [row["x"] for row in features], "names": sorted(features[0])}

    keyed = [rows[RowKey(1, 5)], rows[RowKey(0, 5, is_padding=True)]]
    batch = KeyedCollator(collate, frozenset({"x"}))(keyed)
    keys = batch[BatchKeys.NAME]
    assert batch["x"] == [2.0, 1.0]
    assert batch["names"] == ["x"]
    assert (keys.positions.tolist(), keys.number, keys.real) == ([1, 0], 5, 1)
