"""Hidden states on disk: each sequence computed once, found by its tokens, whole or not there."""

import os

import numpy as np
import pytest

from calmix.data.batches.encoding import EncodedRows, PaddingCollator
from calmix.data.batches.state_cache import StateCache, make_room
from calmix.models.cached_states import CachedRows, StateCollator
from calmix.user_error import UserError


def make_rows(sequences, per_row=1):
    offsets = np.concatenate([[0], np.cumsum([len(s) for s in sequences])])
    count = len(sequences) // per_row
    return EncodedRows(
        tokens={"input_ids": np.concatenate(sequences).astype(np.int32)},
        offsets=offsets,
        sequences_per_row=per_row,
        is_choice=per_row > 1,
        labels=np.zeros(count, dtype=np.int64),
        row_ids=np.array([str(i) for i in range(count)]),
        truncated=np.zeros(count, dtype=np.bool_),
    )


class Counted:
    """States that say which tokens they come from."""

    def __init__(self):
        self.calls = 0

    def __call__(self, tokens):
        self.calls += 1
        return np.stack([tokens["input_ids"] * 1.0, tokens["input_ids"] * 0.5], axis=1).astype(np.float32)


FIRST = [[2, 7, 3], [2, 8, 9, 3], [2, 7, 3]]
SECOND = [[2, 8, 9, 3], [2, 5, 3]]


def test_every_sequence_is_computed_once_for_all_splits_and_openings(tmp_path):
    compute = Counted()
    cache = StateCache(tmp_path / "a", 2)
    cache.fill(cache.missing([make_rows(FIRST), make_rows(SECOND)]), compute)
    assert compute.calls == 3
    again = StateCache(tmp_path / "a", 2)
    more = make_rows([*SECOND, [2, 6, 3]])
    again.fill(again.missing([more]), compute)
    assert compute.calls == 4
    rows = CachedRows.of(more, again, "states")
    for position in range(3):
        row = rows[position]
        assert row["states"][0][:, 0].tolist() == row["input_ids"][0].tolist()


def test_large_files_are_written_in_segments(tmp_path, monkeypatch):
    monkeypatch.setattr("calmix.data.batches.state_cache.SEGMENT_BYTES", 40)
    rows = make_rows([[2, token, 3] for token in range(10, 20)])
    cache = StateCache(tmp_path / "a", 2)
    cache.fill(cache.missing([rows]), Counted())
    assert len(cache.segments) > 3
    read = CachedRows.of(rows, StateCache(tmp_path / "a", 2), "states")
    assert [read[i]["states"][0][1, 0] for i in range(10)] == list(range(10, 20))


def test_damaged_states_are_computed_again(tmp_path):
    compute, rows = Counted(), make_rows(FIRST)
    cache = StateCache(tmp_path / "a", 2)
    cache.fill(cache.missing([rows]), compute)
    file = tmp_path / "a" / "00000.npy"
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(bytes(content))
    again = StateCache(tmp_path / "a", 2)
    assert len(again.missing([rows]).sequences) == 2
    again.fill(again.missing([rows]), compute)
    assert compute.calls == 4
    assert CachedRows.of(rows, again, "states")[0]["states"][0][:, 0].tolist() == [2, 7, 3]


def test_states_are_padded_as_tokens_are(tmp_path):
    rows = make_rows([[2, 7, 3], [2, 8, 9, 3], [2, 3], [2, 5, 3]], per_row=2)
    cache = StateCache(tmp_path / "a", 2)
    cache.fill(cache.missing([rows]), Counted())
    cached = CachedRows.of(rows, cache, "states")
    for side in ("right", "left"):
        collator = StateCollator(PaddingCollator({"input_ids": 0}, side, is_choice=True), "states")
        batch = collator([cached[0], cached[1]])
        assert batch["states"].shape == (2, 2, 4, 2)
        assert batch["states"][..., 0].tolist() == batch["input_ids"].tolist()


def test_half_precision_takes_half_the_space_and_refuses_what_it_cannot_hold(tmp_path):
    rows = make_rows(FIRST)
    cache = StateCache(tmp_path / "a", 2, "float16")
    assert cache.bytes_for(10) == 40
    cache.fill(cache.missing([rows]), Counted())
    assert CachedRows.of(rows, cache, "states")[1]["states"][0].dtype == np.float16
    large = make_rows([[2, 100_000, 3]])
    with pytest.raises(UserError, match="too large for half precision"):
        cache.fill(cache.missing([large]), Counted())


def test_what_was_not_used_for_longest_makes_room(tmp_path):
    for age, name in enumerate(("old", "new", "mine")):
        cache = StateCache(tmp_path / name, 2)
        cache.fill(cache.missing([make_rows(FIRST)]), Counted())
        mark = tmp_path / name / "used"
        mark.touch()
        os.utime(mark, (age, age))
    size = sum(file.stat().st_size for file in (tmp_path / "mine").iterdir())
    make_room(tmp_path, 10, 3 * size, tmp_path / "mine")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mine", "new"]
    with pytest.raises(UserError, match="the limit is"):
        make_room(tmp_path, 2 * size, 2 * size, tmp_path / "mine")
    assert (tmp_path / "new").is_dir()
