"""Confidence bins: where a confidence falls, and what each bin holds.

Equal-width bins have the edges k/M. Two conventions differ on exact edges: "right" closes a bin on its
right, (a, b] (Guo et al. 2017), "left" on its left, [a, b) (Desai & Durrett 2020). In both, 0 is in the first
bin and 1 in the last.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from calmix.calibration.input_checks import (
    Floats,
    Integers,
    check_confidence,
    check_correct,
    check_level,
    check_weights,
)

Closed = Literal["right", "left"]

# Rows are summed in blocks and the blocks then added: it stays in the cache, and the rounding error of
# tens of millions of rows stays that of a few hundred additions.
BLOCK_ROWS = 1 << 16


# Arrays of all bins and classes are made; a calibration error of more bins than rows says nothing.
MOST_BINS = 100_000


def check_bins(bins: int, closed: str) -> None:
    if not isinstance(bins, int | np.integer) or isinstance(bins, bool) or bins < 1:
        raise ValueError(f"bins must be a whole number above 0, not {bins!r}")
    if bins > MOST_BINS:
        raise ValueError(f"bins must be at most {MOST_BINS:,}, not {bins:,}")
    if closed not in ("right", "left"):
        raise ValueError(f"closed must be 'right' or 'left', not {closed!r}")


def bin_counts(bins: int | Sequence[int]) -> tuple[int, ...]:
    """One number of bins, or several of which the first is the main one; each is taken once.

    >>> bin_counts(15), bin_counts([10, 15, 10])
    ((15,), (10, 15))
    """
    several = (bins,) if isinstance(bins, int | np.integer | str | float) else tuple(bins)
    if not several:
        raise ValueError("bins must be a whole number above 0, or several of them")
    return tuple(dict.fromkeys(several))


def bin_edges(bins: int) -> Floats:
    """0, 1/M, ..., 1.

    >>> bin_edges(4).tolist()
    [0.0, 0.25, 0.5, 0.75, 1.0]
    """
    return np.arange(bins + 1) / bins


def assign_bins(confidence: Floats, bins: int, closed: Closed = "right") -> Integers:
    """The bin of each confidence, 0..M-1.

    >>> assign_bins(np.array([0.0, 0.25, 0.3, 1.0]), 4, "right").tolist()
    [0, 0, 1, 3]
    >>> assign_bins(np.array([0.0, 0.25, 0.3, 1.0]), 4, "left").tolist()
    [0, 1, 1, 3]
    """
    borders = bin_edges(bins)
    # floor(c * M) alone misplaces exact edges (0.29 * 100 < 29), so it is only the first guess, at most one
    # off; the comparison with k/M decides. Same answer as a binary search, without its branches.
    guess = (confidence * bins).astype(np.int64)
    if closed == "right":
        guess -= confidence <= borders[guess]
        guess += confidence > borders[guess + 1]
    else:
        np.minimum(guess, bins - 1, out=guess)
        guess -= confidence < borders[guess]
        guess += confidence >= borders[guess + 1]
    return np.clip(guess, 0, bins - 1, out=guess)


@dataclass(frozen=True, eq=False)
class BinSums:
    """What a set of bins must remember: seven float64 sums per bin, from which every binned metric follows.

    With weight w, confidence c, correctness y and residual r = y - c of each row in the bin: `rows` counts
    those with w > 0, `weight` = sum w, `weight_square` = sum w^2, `confidence` = sum w c, `correct` =
    sum w y, `square` = sum w^2 r^2 and `bernoulli` = sum w^2 c (1 - c): the spread of the sum of w r as
    seen, and as it would be were the confidences true.
    """

    rows: Floats
    weight: Floats
    weight_square: Floats
    confidence: Floats
    correct: Floats
    square: Floats
    bernoulli: Floats

    @classmethod
    def empty(cls, bins: int) -> BinSums:
        return cls(*(np.zeros(bins) for _ in range(7)))

    @property
    def total(self) -> float:
        return float(self.weight.sum())

    @property
    def residual(self) -> Floats:
        """sum w (y - c) per bin."""
        return self.correct - self.confidence

    def __add__(self, other: BinSums) -> BinSums:
        return BinSums(
            self.rows + other.rows,
            self.weight + other.weight,
            self.weight_square + other.weight_square,
            self.confidence + other.confidence,
            self.correct + other.correct,
            self.square + other.square,
            self.bernoulli + other.bernoulli,
        )

    def gap(self) -> Floats:
        """Mean confidence minus accuracy of each bin; 0 where the bin is empty."""
        return np.divide(-self.residual, self.weight, out=np.zeros_like(self.weight), where=self.weight > 0)


def binned_error(residual: npt.NDArray[Any], total: float | Floats, axis: int | None = None) -> Any:
    """The expected calibration error of bins: (1/W) sum_m |sum of w (y - c) in bin m|.

    No division per bin, so empty bins vanish by themselves. With an axis the bins are along it.

    >>> float(binned_error(np.array([0.5, -0.25, 0.0]), total=3.0))
    0.25
    """
    return np.abs(residual).sum(axis=axis) / total


def sum_bins(
    assigned: Integers, bins: int, confidence: Floats, correct: Floats, weights: Floats | None
) -> BinSums:
    """Add rows up by bin, block by block."""
    total = BinSums.empty(bins)
    for start in range(0, len(confidence), BLOCK_ROWS):
        part = slice(start, start + BLOCK_ROWS)
        total = total + _sum_block(
            assigned[part], bins, confidence[part], correct[part], None if weights is None else weights[part]
        )
    return total


def _sum_block(
    assigned: Integers, bins: int, confidence: Floats, correct: Floats, weights: Floats | None
) -> BinSums:
    def by_bin(values: Floats) -> Floats:
        return np.asarray(np.bincount(assigned, weights=values, minlength=bins), dtype=np.float64)

    residual = correct - confidence
    if weights is None:
        rows = np.bincount(assigned, minlength=bins).astype(np.float64)
        return BinSums(
            rows,
            rows,
            rows,
            by_bin(confidence),
            by_bin(correct),
            by_bin(residual * residual),
            by_bin(confidence * (1.0 - confidence)),
        )
    squared = weights * weights
    return BinSums(
        by_bin((weights > 0).astype(np.float64)),
        by_bin(weights),
        by_bin(squared),
        by_bin(weights * confidence),
        by_bin(weights * correct),
        by_bin(squared * residual * residual),
        by_bin(squared * confidence * (1.0 - confidence)),
    )


def equal_width_sums(
    confidence: npt.ArrayLike,
    correct: npt.ArrayLike,
    *,
    bins: int = 15,
    closed: Closed = "right",
    weights: npt.ArrayLike | None = None,
) -> BinSums:
    """The sums of M bins of equal width."""
    check_bins(bins, closed)
    sure = check_confidence(confidence)
    right = check_correct(correct, rows=len(sure))
    weight = check_weights(weights, rows=len(sure))
    return sum_bins(assign_bins(sure, bins, closed), bins, sure, right, weight)


def equal_mass_sums(
    confidence: npt.ArrayLike,
    correct: npt.ArrayLike,
    *,
    bins: int = 15,
    weights: npt.ArrayLike | None = None,
) -> BinSums:
    """The sums of M bins that hold the same number of rows (or weight), in the order of confidence.

    Rows are ranked; the row whose ranks span (before, before + w] of the total W goes to bin
    floor(M * (before + w/2) / W). Rows of equal confidence stay together, in the bin of their middle: where
    a tie would fall on two sides of a border, the metric must not depend on the order of the rows.
    """
    check_bins(bins, "right")
    sure = check_confidence(confidence)
    right = check_correct(correct, rows=len(sure))
    weight = check_weights(weights, rows=len(sure))
    assigned = assign_equal_mass(sure, bins, weight)
    return sum_bins(assigned, bins, sure, right, weight)


def assign_equal_mass(confidence: Floats, bins: int, weights: Floats | None = None) -> Integers:
    """The equal-mass bin of each row, 0..M-1; ties share the bin of their middle.

    >>> assign_equal_mass(np.array([0.9, 0.1, 0.5, 0.7]), 2).tolist()
    [1, 0, 0, 1]
    >>> assign_equal_mass(np.array([0.2, 0.8, 0.8, 0.8]), 2).tolist()
    [0, 1, 1, 1]
    """
    order = np.argsort(confidence, kind="stable")
    ordered = confidence[order]
    first = np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1])))
    if weights is None:
        before, until = first.astype(np.float64), np.append(first[1:], len(ordered)).astype(np.float64)
    else:
        cumulative = np.cumsum(weights[order])
        until = np.append(cumulative[first[1:] - 1], cumulative[-1])
        before = np.append(0.0, until[:-1])
    middle = (before + until) / 2.0
    group_bin = np.minimum((middle * bins / until[-1]).astype(np.int64), bins - 1)
    assigned = np.empty(len(ordered), dtype=np.int64)
    assigned[order] = np.repeat(group_bin, np.diff(np.append(first, len(ordered))))
    return assigned


@dataclass(frozen=True, eq=False)
class ReliabilityBins:
    """A reliability diagram as arrays, one entry per bin; NaN where a bin is empty.

    `accuracy_low` and `accuracy_high` are the Clopper-Pearson limits at 95 %.
    """

    lower: Floats
    upper: Floats
    count: Integers
    mean_confidence: Floats
    accuracy: Floats
    accuracy_low: Floats
    accuracy_high: Floats


def reliability_bins(
    confidence: npt.ArrayLike, correct: npt.ArrayLike, bins: int = 15, closed: Closed = "right"
) -> ReliabilityBins:
    """Count, mean confidence and accuracy (with its exact interval) of every equal-width bin.

    >>> diagram = reliability_bins([0.9, 0.8, 0.3], [1, 0, 0], bins=2)
    >>> diagram.count.tolist(), diagram.accuracy.tolist(), diagram.mean_confidence.round(2).tolist()
    ([1, 2], [0.0, 0.5], [0.3, 0.85])
    """
    return reliability_of_sums(equal_width_sums(confidence, correct, bins=bins, closed=closed))


def reliability_of_sums(sums: BinSums) -> ReliabilityBins:
    """The diagram of equal-width sums.

    With weights, the limits are those of the effective number of rows n = (sum w)^2 / sum w^2 and n times the
    weighted accuracy (Korn & Graubard 1998); `count` is the number of rows with a weight.
    """
    borders = bin_edges(len(sums.weight))
    missing = np.full(len(sums.weight), np.nan)
    filled = sums.weight > 0
    accuracy = np.divide(sums.correct, sums.weight, out=missing.copy(), where=filled)
    effective = np.divide(sums.weight**2, sums.weight_square, out=np.zeros_like(missing), where=filled)
    # Rounding must not make a bin whose rows were all right one with a sliver of an error.
    hits = np.where(filled, np.clip(accuracy, 0.0, 1.0), 0.0) * effective
    low, high = clopper_pearson(hits, effective)
    return ReliabilityBins(
        lower=borders[:-1],
        upper=borders[1:],
        count=sums.rows.astype(np.int64),
        mean_confidence=np.divide(sums.confidence, sums.weight, out=missing.copy(), where=filled),
        accuracy=accuracy,
        accuracy_low=np.where(filled, low, np.nan),
        accuracy_high=np.where(filled, high, np.nan),
    )


def clopper_pearson(
    successes: npt.ArrayLike, trials: npt.ArrayLike, level: float = 0.95
) -> tuple[Floats, Floats]:
    """The exact two-sided interval of a binomial share; [0, 1] where there were no trials.

    Numbers that are not whole (effective numbers of weighted rows) are taken as they are.

    >>> low, high = clopper_pearson([0, 5], [10, 10])
    >>> low.round(4).tolist(), high.round(4).tolist()
    ([0.0, 0.1871], [0.3085, 0.8129])
    """
    from scipy.special import betaincinv

    hits, n = np.asarray(successes, dtype=np.float64), np.asarray(trials, dtype=np.float64)
    tail = (1.0 - check_level(level)) / 2.0
    misses = n - hits
    low = np.where(hits > 0, betaincinv(np.where(hits > 0, hits, 1.0), misses + 1, tail), 0.0)
    high = np.where(misses > 0, betaincinv(hits + 1, np.where(misses > 0, misses, 1.0), 1.0 - tail), 1.0)
    return low, high
