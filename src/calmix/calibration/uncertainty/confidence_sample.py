"""Confidence and correctness of many rows in eight bytes a row, sortable in place.

A confidence in [0, 1] is a float64 with sign bit 0, so its bits, read as an integer, sort as the number
does. Shifted left by one they leave room for whether the row was right. Twenty million rows are 160 MB,
sorted without an index array, and every rank-based metric stays exact.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
import numpy.typing as npt

from calmix.calibration.input_checks import Floats, Integers
from calmix.calibration.metrics.binning import BLOCK_ROWS as CACHED_ROWS
from calmix.calibration.metrics.binning import BinSums

BLOCK_ROWS = 1 << 20
# 8,192 buckets for every halving of 1 - c, from 1 to 2^-53, the least that is not 0.
BUCKET_SHIFT = 52 - 13
FIRST_BUCKET = int(np.float64(2.0**-53).view(np.int64)) >> BUCKET_SHIFT
BUCKETS = (int(np.float64(1.0).view(np.int64)) >> BUCKET_SHIFT) - FIRST_BUCKET + 1


@dataclass(frozen=True, eq=False)
class ConfidenceSample:
    """Packed rows, in the order they came or sorted by confidence."""

    codes: npt.NDArray[np.uint64]

    @classmethod
    def pack(cls, confidence: Floats, correct: npt.NDArray[np.bool_] | Floats) -> ConfidenceSample:
        """
        >>> sample = ConfidenceSample.pack(np.array([0.75, 0.5]), np.array([True, False]))
        >>> sample.confidence().tolist(), sample.correct().tolist()
        ([0.75, 0.5], [1.0, 0.0])
        """
        bits = (confidence + 0.0).view(np.uint64)  # adding 0 turns a -0.0 into 0.0
        return cls((bits << np.uint64(1)) | correct.astype(np.uint64))

    @classmethod
    def join(cls, parts: Sequence[ConfidenceSample]) -> ConfidenceSample:
        return parts[0] if len(parts) == 1 else cls(np.concatenate([part.codes for part in parts]))

    def __len__(self) -> int:
        return len(self.codes)

    def confidence(self) -> Floats:
        return (self.codes >> np.uint64(1)).view(np.float64)

    def correct(self) -> Floats:
        return (self.codes & np.uint64(1)).astype(np.float64)

    def sorted(self) -> ConfidenceSample:
        """By rising confidence (and, within a tie, wrong before right)."""
        return ConfidenceSample(np.sort(self.codes))

    def blocks(self, rows: int = BLOCK_ROWS) -> Iterator[tuple[int, ConfidenceSample]]:
        """Pieces of bounded size with the position of their first row."""
        for start in range(0, len(self), rows):
            yield start, ConfidenceSample(self.codes[start : start + rows])

    def rows_below(self, values: Floats, *, or_at: bool = False) -> npt.NDArray[np.int64]:
        """Of a sorted sample: how many rows have a confidence below each of these values (or equal to it).

        >>> sample = ConfidenceSample.pack(np.array([0.25, 0.5, 0.5]), np.array([1.0, 0.0, 1.0]))
        >>> [sample.rows_below(np.array([0.5]), or_at=or_at).tolist() for or_at in (False, True)]
        [[1], [3]]
        """
        codes = ConfidenceSample.pack(values, np.full(len(values), or_at)).codes
        side: Literal["left", "right"] = "right" if or_at else "left"
        return np.asarray(np.searchsorted(self.codes, codes, side=side), dtype=np.int64)

    def sums_between(self, borders: npt.NDArray[np.int64]) -> BinSums:
        """Of a sorted sample: the sums of the rows before, between and after these rising positions."""
        edges = np.concatenate(([0], borders, [len(self)]))
        rows = np.diff(edges).astype(np.float64)
        sums = np.zeros((4, len(rows)))
        for start, block in self.blocks(CACHED_ROWS):
            inside = np.clip(edges - start, 0, len(block))
            held = inside[1:] > inside[:-1]
            confidence, correct = block.confidence(), block.correct()
            residual = correct - confidence
            columns = (confidence, correct, residual * residual, confidence * (1.0 - confidence))
            for total, values in zip(sums, columns, strict=True):
                total[held] += np.add.reduceat(values, inside[:-1][held])
        return BinSums(rows, rows, rows, *sums)

    def tie_starts(self, positions: npt.NDArray[np.integer]) -> npt.NDArray[np.int64]:
        """Of a sorted sample: where the group of equal confidences that holds each position begins."""
        even = self.codes[positions] & ~np.uint64(1)
        return np.asarray(np.searchsorted(self.codes, even, side="left"), dtype=np.int64)

    def quantile_borders(self, groups: int) -> npt.NDArray[np.int64]:
        """Of a sorted sample: at most `groups` + 1 positions that cut it into even parts between ties."""
        inner = np.linspace(0, len(self), groups + 1)[1:-1].astype(np.int64)
        cuts = self.tie_starts(inner[inner < len(self)])
        return np.unique(np.concatenate(([0], cuts, [len(self)])))


class StretchLookup:
    """Between which of many rising borders a confidence lies, for rows in any order.

    The same as `np.searchsorted(borders, confidence, side="right")`, several times faster. Buckets of 1 - c
    whose width is a fixed share of it are as fine near 1, where most confidences are, as elsewhere: a table
    holds the answer of every bucket without a border, and few rows are in the others.

    >>> StretchLookup(np.array([0.5, 0.75])).find(np.array([0.1, 0.5, 0.6, 0.75, 1.0])).tolist()
    [0, 1, 1, 2, 2]
    """

    def __init__(self, borders: Floats) -> None:
        self.borders = borders

    @cached_property
    def _answers(self) -> npt.NDArray[np.int32]:
        held = np.bincount(self._bucket(self.borders), minlength=BUCKETS)
        # A border in a bucket of smaller 1 - c is above all confidences of this one.
        return np.where(held > 0, -1, len(self.borders) - np.cumsum(held)).astype(np.int32)

    def find(self, confidence: Floats) -> Integers:
        if len(confidence) < BUCKETS // 8:  # the table would take longer
            return np.searchsorted(self.borders, confidence, side="right").astype(np.int64)
        found = self._answers[self._bucket(confidence)].astype(np.int64)
        open_rows = np.flatnonzero(found < 0)
        found[open_rows] = np.searchsorted(self.borders, confidence[open_rows], side="right")
        return found

    @staticmethod
    def _bucket(confidence: Floats) -> Integers:
        bits = (1.0 - confidence).view(np.int64)
        bits >>= BUCKET_SHIFT
        bits -= FIRST_BUCKET
        return np.maximum(bits, 0, out=bits)
