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

from calmix.calibration.binning import Edges, assign_bins, bin_edges, check_bins
from calmix.calibration.input_checks import Floats, Integers, check_labels, check_probabilities, check_weights

# Values per block of rows: the block, its mask and its sums stay in the processor's cache.
BLOCK_VALUES = 1 << 17


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

    @property
    def residual(self) -> Floats:
        return self.correct - self.confidence

    def gap(self) -> Floats:
        """Mean p_k minus the share of class k; 0 where a bin is empty."""
        return np.divide(-self.residual, self.weight, out=np.zeros_like(self.weight), where=self.weight > 0)

    def expected_error(self) -> float:
        """The mean over classes of their ECE."""
        return float(np.abs(self.residual).sum() / self.total / len(self.weight))

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
    edges: Edges = "right",
    weights: npt.ArrayLike | None = None,
) -> ClassSums:
    """Sum an [n, C] array of probabilities by class and equal-width bin.

    >>> sums = class_sums([[0.9, 0.1], [0.4, 0.6]], [0, 0], bins=2)
    >>> sums.weight.tolist(), sums.correct.tolist()
    ([[1.0, 1.0], [1.0, 1.0]], [[1.0, 1.0], [0.0, 0.0]])
    """
    check_bins(bins, edges)
    values = check_probabilities(probabilities)
    rows, classes = values.shape
    gold = check_labels(labels, rows=rows, classes=classes)
    weight = check_weights(weights, rows=rows)
    return sum_classes(values, gold, bins, edges, weight)


def sum_classes(
    values: npt.NDArray[np.floating[Any]],
    gold: Integers,
    bins: int,
    edges: Edges,
    weight: Floats | None = None,
) -> ClassSums:
    """`class_sums` of arrays that have been checked."""
    rows, classes = values.shape
    total = ClassSums.empty(classes, bins)
    step = max(BLOCK_VALUES // classes, 1)
    for start in range(0, rows, step):
        part = slice(start, start + step)
        total = total + _block(
            values[part], gold[part], bins, edges, None if weight is None else weight[part]
        )
    return total


def _block(
    values: npt.NDArray[np.floating[Any]], gold: Integers, bins: int, edges: Edges, weights: Floats | None
) -> ClassSums:
    rows, classes = values.shape
    row_weight = np.ones(rows) if weights is None else weights
    mass = float(row_weight.sum())

    def by_cell(cell: Integers, values: Floats) -> Floats:
        # An empty bincount is of integers, whatever its weights.
        return (
            np.bincount(cell, weights=values, minlength=classes * bins)
            .astype(np.float64)
            .reshape(classes, bins)
        )

    row, cell, probability = entries_above_first_bin(values, bins, edges)
    weight = by_cell(cell, row_weight[row])
    confidence = by_cell(cell, row_weight[row] * probability)
    weight[:, 0] += mass - weight.sum(axis=1)
    confidence[:, 0] += row_weight @ values.astype(np.float64, copy=False) - confidence.sum(axis=1)

    gold_cell, _ = gold_cells(values, gold, bins, edges)
    return ClassSums(weight, confidence, by_cell(gold_cell, row_weight), mass)


def entries_above_first_bin(
    values: npt.NDArray[np.floating[Any]], bins: int, edges: Edges
) -> tuple[Integers, Integers, Floats]:
    """Row, cell (class * bins + bin) and probability of every entry that is not in the first bin."""
    # A Python float would be rounded to float32 against float32 values, and a value on the edge could
    # change sides.
    first_edge = np.float64(bin_edges(bins)[1])
    high = np.flatnonzero(values > first_edge if edges == "right" else values >= first_edge)
    row, column = np.divmod(high, values.shape[1])
    probability = values[row, column].astype(np.float64)
    return row, column * bins + assign_bins(np.minimum(probability, 1.0), bins, edges), probability


def gold_cells(
    values: npt.NDArray[np.floating[Any]], gold: Integers, bins: int, edges: Edges
) -> tuple[Integers, Floats]:
    """The cell and the probability of the label of every row."""
    probability = values[np.arange(len(gold)), gold].astype(np.float64)
    return gold * bins + assign_bins(np.minimum(probability, 1.0), bins, edges), probability
