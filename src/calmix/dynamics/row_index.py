"""Row ids, and the way back from an id to its place."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

RowIds = Sequence[str] | Sequence[int] | npt.NDArray[Any] | range


def as_row_ids(row_ids: RowIds) -> npt.NDArray[Any]:
    """The ids as one array: of strings, or of 64-bit integers.

    >>> as_row_ids(["train-1", "train-2"]).dtype.kind, as_row_ids(range(3)).tolist()
    ('U', [0, 1, 2])
    """
    ids: npt.NDArray[Any] = np.asarray(row_ids)
    if ids.dtype.kind == "O" and all(isinstance(one, str) for one in ids):
        ids = ids.astype(np.str_)
    if ids.ndim != 1:
        raise ValueError(f"row ids must be a flat sequence, got shape {ids.shape}")
    if ids.dtype.kind in "iu":
        return ids.astype(np.int64, copy=False)
    if ids.dtype.kind == "U" or not len(ids):
        return ids.astype(np.str_, copy=False)
    raise ValueError(f"row ids must be all strings or all integers, got {ids.dtype}")


def first_repeated(ids: npt.NDArray[Any]) -> str | int | None:
    """The smallest id that occurs twice; None if all ids differ.

    >>> first_repeated(np.array(["b", "a", "b"])), first_repeated(np.array([1, 2]))
    ('b', None)
    """
    if len(ids) < 2:
        return None
    # Sorting millions of texts takes ten times as long as sorting numbers: only where two of them agree.
    keys = np.sort(_hashes(ids) if ids.dtype.kind == "U" else ids)
    if not (keys[1:] == keys[:-1]).any():
        return None
    values, counts = np.unique(ids, return_counts=True)
    repeated = values[counts > 1]
    return repeated[0].item() if len(repeated) else None


def _hashes(texts: npt.NDArray[np.str_]) -> npt.NDArray[np.uint64]:
    """The FNV-1a hash of every text, letter by letter for all texts at once."""
    letters = np.ascontiguousarray(texts).view(np.uint32).reshape(len(texts), -1)
    hashes = np.full(len(texts), 0xCBF29CE484222325, dtype=np.uint64)
    for place in range(letters.shape[1]):
        hashes ^= letters[:, place]
        hashes *= np.uint64(0x100000001B3)
    return hashes


class RowIndex:
    """Finds the position of ids by binary search on the sorted ids: no dictionary, no loop per row.

    >>> index = RowIndex(["train-3", "train-1", "train-2"])
    >>> index.positions(["train-1", "train-3"]).tolist()
    [1, 0]
    """

    def __init__(self, row_ids: RowIds) -> None:
        self.ids = as_row_ids(row_ids)
        twice = first_repeated(self.ids)
        if twice is not None:
            raise ValueError(f"row ids must be unique, {twice!r} occurs twice")

    @cached_property
    def _order(self) -> npt.NDArray[np.int64]:
        return np.argsort(self.ids, kind="stable")

    @cached_property
    def _sorted(self) -> npt.NDArray[Any]:
        return self.ids[self._order]

    def __len__(self) -> int:
        return len(self.ids)

    def positions(self, ids: RowIds) -> npt.NDArray[np.int64]:
        wanted = as_row_ids(ids)
        if not len(wanted):
            return np.empty(0, dtype=np.int64)
        if wanted.dtype.kind != self.ids.dtype.kind:
            ours, theirs = ("strings", "integers") if self.ids.dtype.kind == "U" else ("integers", "strings")
            raise ValueError(f"row ids are {ours} here, {theirs} were given")
        # Cast the few to the width of the many: searchsorted would otherwise widen all sorted ids each call.
        # A longer id would be cut by the cast, but then it differs from every known id below.
        place = np.searchsorted(self._sorted, wanted.astype(self.ids.dtype))
        place = np.minimum(place, len(self._sorted) - 1)
        unknown = np.flatnonzero(self._sorted[place] != wanted) if len(self) else np.arange(len(wanted))
        if len(unknown):
            raise ValueError(f"unknown row id {wanted[unknown[0]].item()!r}")
        return self._order[place]
