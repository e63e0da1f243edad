"""The bins of every class at once: [C, M] sums of p_k and of "the label is k".

One pass over the array. A row sums to 1, so at most M of its entries lie above the first edge 1/M; only those
are binned one by one, and the first bin receives what is left of the column's total. With many classes nearly
every entry is in the first bin, and the cost is that of reading the array.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from calmix.calibration.input_checks import (
    Floats,
    Integers,
    check_distributions,
    check_labels,
    check_scores,
    check_weights,
)
from calmix.calibration.metrics.binning import Closed, assign_bins, bin_edges, binned_error, check_bins

# Values per block of rows: the block, its mask and its sums stay in the processor's cache.
BLOCK_VALUES = 1 << 19
LONG_ROW = 64


@dataclass(frozen=True, eq=False)
class ClassSums:
    """Per class and bin: `weight` = sum w, `confidence` = sum w p_k, `correct` = sum w 1[y = k].

    `total` is the weight of all rows.
    """

    weight: Floats
    confidence: Floats
    correct: Floats
    total: float

    @classmethod
    def empty(cls, classes: int, bins: int) -> ClassSums:
        return cls(np.zeros((classes, bins)), np.zeros((classes, bins)), np.zeros((classes, bins)), 0.0)

    @classmethod
    def of_entries(cls, found: npt.NDArray[Any], totals: Floats, mass: float) -> ClassSums:
        """From sums [3, classes * bins]: weight and confidence of the entries above the first bins, weight of
        the labels; `totals` are sum w p_k of the classes."""
        share, confidence, correct = found.reshape(3, len(totals), -1).astype(np.float64)
        share[:, 0] += mass - share.sum(axis=1)
        confidence[:, 0] += totals - confidence.sum(axis=1)
        return cls(share, confidence, correct, mass)

    @property
    def residual(self) -> Floats:
        return self.correct - self.confidence

    def gap(self) -> Floats:
        """Mean p_k minus the share of class k; 0 where a bin is empty."""
        return np.divide(-self.residual, self.weight, out=np.zeros_like(self.weight), where=self.weight > 0)

    def expected_error(self) -> float:
        """The mean over classes of their ECE."""
        return float(binned_error(self.residual, self.total) / len(self.weight))

    def squared_gap(self) -> float:
        """sum_k sum_m w_km gap_km^2."""
        return float((self.weight * self.gap() ** 2).sum() / self.total)

    def __add__(self, other: ClassSums) -> ClassSums:
        return ClassSums(
            self.weight + other.weight,
            self.confidence + other.confidence,
            self.correct + other.correct,
            self.total + other.total,
        )


def class_sums(
    probabilities: npt.ArrayLike,
    labels: npt.ArrayLike,
    *,
    bins: int = 15,
    closed: Closed = "right",
    weights: npt.ArrayLike | None = None,
) -> ClassSums:
    """Sum an [n, C] array of probabilities by class and equal-width bin.

    >>> sums = class_sums([[0.9, 0.1], [0.4, 0.6]], [0, 0], bins=2)
    >>> sums.weight.tolist(), sums.correct.tolist()
    ([[1.0, 1.0], [1.0, 1.0]], [[1.0, 1.0], [0.0, 0.0]])
    """
    check_bins(bins, closed)
    values = check_scores(probabilities, name="probabilities")
    rows, classes = values.shape
    gold = check_labels(labels, rows=rows, classes=classes)
    weight = check_weights(weights, rows=rows)
    return sum_classes(values, gold, bins, closed, weight, checked=False)


def sum_classes(
    values: npt.NDArray[np.floating[Any]],
    gold: Integers,
    bins: int,
    closed: Closed,
    weight: Floats | None = None,
    *,
    checked: bool = True,
) -> ClassSums:
    """`class_sums` of arrays that have been checked; unchecked probabilities are looked at on the way."""
    rows, classes = values.shape
    cells = classes * bins
    totals, found = np.zeros(classes), np.zeros((3, cells))
    waiting: list[tuple[Integers, Integers, Floats]] = []
    step = max(BLOCK_VALUES // classes, 1)
    for start in range(0, rows, step):
        block = values[start : start + step]
        if not checked:
            check_distributions(block, start)
        totals += column_sums(block, None if weight is None else weight[start : start + step])
        row, cell, probability = entries_above_first_bin(block, bins, closed)
        waiting.append((row + start, cell, probability))
        # With many classes the cells outnumber a block's entries: they are added up when enough have come.
        if sum(len(one[0]) for one in waiting) >= BLOCK_VALUES:
            _add_entries(found, waiting, weight)
    _add_entries(found, waiting, weight)
    for start in range(0, rows, BLOCK_VALUES):
        part = None if weight is None else weight[start : start + BLOCK_VALUES]
        these = slice(start, start + BLOCK_VALUES)
        cell, _ = gold_cells(values[these], gold[these], bins, closed)
        found[2] += np.bincount(cell, weights=part, minlength=cells)
    return ClassSums.of_entries(found, totals, float(rows if weight is None else weight.sum()))


def column_sums(values: npt.NDArray[np.floating[Any]], weights: Floats | None) -> Floats:
    """sum w p_k of every class in float64; long rows are added without a float64 copy of them."""
    if weights is None and values.shape[1] >= LONG_ROW:
        return np.asarray(values.sum(axis=0, dtype=np.float64))
    row_weight = np.ones(len(values)) if weights is None else weights
    return np.asarray(row_weight @ values.astype(np.float64, copy=False))


def _add_entries(
    found: Floats, waiting: list[tuple[Integers, Integers, Floats]], weights: Floats | None
) -> None:
    """Add weight and confidence of the waiting entries to their cells."""
    if not waiting:
        return
    row, cell, probability = (np.concatenate(part) for part in zip(*waiting, strict=True))
    weight = None if weights is None else weights[row]
    found[0] += np.bincount(cell, weights=weight, minlength=found.shape[1])
    weighted = probability if weight is None else weight * probability
    found[1] += np.bincount(cell, weights=weighted, minlength=found.shape[1])
    waiting.clear()


def neighbour_of_edge(edge: float, dtype: np.dtype[Any], closed: Closed) -> Any:
    """The value of this precision that parts it as the float64 edge does; comparing in float64 costs double.

    v > edge for a float32 v exactly when v is above the largest float32 that is not above the edge.

    >>> float(neighbour_of_edge(0.1, np.dtype(np.float32), "right")) <= 0.1
    True
    """
    border = dtype.type(edge)
    if closed == "right" and float(border) > edge:
        return np.nextafter(border, dtype.type(0))
    if closed == "left" and float(border) < edge:
        return np.nextafter(border, dtype.type(1))
    return border


def entries_above_first_bin(
    values: npt.NDArray[np.floating[Any]], bins: int, closed: Closed
) -> tuple[Integers, Integers, Floats]:
    """Row, cell (class * bins + bin) and probability of every entry that is not in the first bin."""
    border = neighbour_of_edge(float(bin_edges(bins)[1]), values.dtype, closed)
    high = np.flatnonzero(values > border if closed == "right" else values >= border)
    row, column = np.divmod(high, values.shape[1])
    probability = np.take(values, high).astype(np.float64)
    return row, column * bins + assign_bins(np.minimum(probability, 1.0), bins, closed), probability


def gold_cells(
    values: npt.NDArray[np.floating[Any]], gold: Integers, bins: int, closed: Closed
) -> tuple[Integers, Floats]:
    """The cell and the probability of the label of every row."""
    probability = values[np.arange(len(gold)), gold].astype(np.float64)
    return gold * bins + assign_bins(np.minimum(probability, 1.0), bins, closed), probability
