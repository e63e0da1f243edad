"""Binned calibration metrics and mean scores of data that come in pieces: batches, shards, machines.

The state is a few float64 sums per bin, whatever the precision of the input. `update` adds rows, `merge`
adds another accumulator's state, `compute` reads the metrics; however the rows are cut, the result is that
of the one-shot functions. Sums are compensated, so that neither the number nor the size of the pieces leaves
a trace; rows of weight 0, as padding, are not counted, and a piece may hold nothing else.
"""

from __future__ import annotations

from typing import Self

import numpy as np
import numpy.typing as npt

from calmix.calibration.input_checks import (
    Floats,
    Integers,
    check_batch_weights,
    check_confidence,
    check_correct,
    check_labels,
    check_probabilities,
    check_weights,
)
from calmix.calibration.metrics.binning import (
    BinSums,
    Closed,
    ReliabilityBins,
    assign_bins,
    assign_equal_mass,
    check_bins,
    reliability_of_sums,
    sum_bins,
)
from calmix.calibration.metrics.class_bins import ClassSums, sum_classes
from calmix.calibration.metrics.compensated_sum import WeightedSum
from calmix.calibration.metrics.errors import (
    debiased_error,
    expected_error,
    maximum_error,
    overconfidence,
    root_mean_square_error,
    total_error,
)
from calmix.calibration.metrics.scores import log_loss_rows, squared_errors
from calmix.calibration.predictions import Notion, Predictions

# Values of one block of rows: its probabilities stay within a few megabytes.
BLOCK_VALUES = 1 << 20


class BinnedCalibration:
    """ECE, MCE, RMSCE, OE and their relatives of confidences that come in pieces.

    Bins are of equal width; with `borders` (rising, from `equal_mass_borders`) they are those, each bin
    holding the confidences from its border up to the next. Equal-mass bins depend on all the data, so that
    a stream must be told them: with the borders of the same rows the result is that of
    `adaptive_calibration_error`.

    >>> metric = BinnedCalibration(bins=10)
    >>> metric.update([0.8], [1]).update([0.8, 0.8], [1, 0]).compute()["ece"].__round__(6)
    0.133333
    """

    def __init__(
        self, *, bins: int = 15, closed: Closed = "right", borders: npt.ArrayLike | None = None
    ) -> None:
        check_bins(bins, closed)
        self.closed: Closed = closed
        self.borders = None if borders is None else np.asarray(borders, dtype=np.float64)
        if self.borders is not None and (self.borders.ndim != 1 or (np.diff(self.borders) <= 0).any()):
            raise ValueError("borders must be rising")
        self.bins = bins if self.borders is None else len(self.borders) + 1
        self._state = WeightedSum((7, self.bins), powers=(0, 1, 2, 1, 1, 2, 2))

    def update(
        self, confidence: npt.ArrayLike, correct: npt.ArrayLike, weights: npt.ArrayLike | None = None
    ) -> Self:
        """Add rows; an empty piece is allowed."""
        if np.size(confidence) == 0 and np.size(correct) == 0:
            return self
        sure = check_confidence(confidence)
        right = check_correct(correct, rows=len(sure))
        weight = self._state.in_units(check_batch_weights(weights, rows=len(sure)), rows=len(sure))
        sums = sum_bins(self._assign(sure), self.bins, sure, right, weight)
        self._state.add(
            np.stack(
                [
                    sums.rows,
                    sums.weight,
                    sums.weight_square,
                    sums.confidence,
                    sums.correct,
                    sums.square,
                    sums.bernoulli,
                ]
            )
        )
        return self

    def merge(self, other: BinnedCalibration) -> Self:
        """Add what another accumulator has seen."""
        same_borders = (
            np.array_equal(self.borders, other.borders)
            if self.borders is not None and other.borders is not None
            else self.borders is other.borders
        )
        if (self.bins, self.closed) != (other.bins, other.closed) or not same_borders:
            raise ValueError("only accumulators with the same bins can be merged")
        self._state.merge(other._state)
        return self

    @property
    def sums(self) -> BinSums:
        return BinSums(*self._state.value)

    def compute(self) -> dict[str, float]:
        sums = self._filled()
        return {
            "n": float(sums.rows.sum()),
            "accuracy": float(sums.correct.sum() / sums.total),
            "mean_confidence": float(sums.confidence.sum() / sums.total),
            "ece": expected_error(sums),
            "mce": maximum_error(sums),
            "rmsce": root_mean_square_error(sums),
            "debiased_rmsce": debiased_error(sums),
            "oe": overconfidence(sums),
            "total_error": total_error(sums),
        }

    def reliability(self) -> ReliabilityBins:
        """The reliability diagram of equal-width bins."""
        if self.borders is not None:
            raise ValueError("a reliability diagram has bins of equal width")
        return reliability_of_sums(self._filled())

    def _assign(self, confidence: Floats) -> Integers:
        if self.borders is None:
            return assign_bins(confidence, self.bins, self.closed)
        return np.searchsorted(self.borders, confidence, side="right").astype(np.int64)

    def _filled(self) -> BinSums:
        sums = self.sums
        if sums.total <= 0:
            raise ValueError("no rows yet")
        return sums


def equal_mass_borders(
    confidence: npt.ArrayLike, bins: int = 15, weights: npt.ArrayLike | None = None
) -> Floats:
    """Where the equal-mass bins of these confidences begin, all but the first.

    >>> equal_mass_borders([0.9, 0.1, 0.5, 0.7], 2).tolist()
    [0.7]
    """
    check_bins(bins, "right")
    sure = check_confidence(confidence)
    weight = check_weights(weights, rows=len(sure))
    if weight is not None:  # rows of weight 0 begin no bin
        sure, weight = sure[weight > 0], weight[weight > 0]
    assigned = assign_equal_mass(sure, bins, weight)
    lowest = np.full(bins, np.inf)
    np.minimum.at(lowest, assigned, sure)
    return np.asarray(lowest[np.isfinite(lowest)][1:])


class ClasswiseCalibration:
    """Classwise ECE and the Brier score's split of probabilities that come in pieces.

    >>> metric = ClasswiseCalibration(2)
    >>> metric.update([[0.75, 0.25]], [0]).update([[0.75, 0.25]], [1]).compute()
    {'classwise_ece': 0.25, 'brier': 0.625, 'brier_calibration': 0.125, 'brier_refinement': 0.5}
    """

    def __init__(self, classes: int, *, bins: int = 15, closed: Closed = "right") -> None:
        check_bins(bins, closed)
        self.classes, self.bins = classes, bins
        self.closed: Closed = closed
        self._cells = WeightedSum((3, classes, bins), powers=(1, 1, 1))
        self._totals = WeightedSum((2,), powers=(1, 1))  # weight, and weighted squared error

    def update(
        self, probabilities: npt.ArrayLike, labels: npt.ArrayLike, weights: npt.ArrayLike | None = None
    ) -> Self:
        """Add rows; an empty piece is allowed."""
        if np.size(labels) == 0 and np.size(probabilities) == 0:
            return self
        values = check_probabilities(probabilities)
        if values.shape[1] != self.classes:
            raise ValueError(f"{values.shape[1]} classes where {self.classes} were announced")
        gold = check_labels(labels, rows=len(values), classes=self.classes)
        checked = check_batch_weights(weights, rows=len(values))
        weight = self._totals.in_units(checked, rows=len(values))
        self._cells.in_units(checked, rows=len(values))  # the same unit
        sums = sum_classes(values, gold, self.bins, self.closed, weight)
        squared = squared_errors(values.astype(np.float64, copy=False), gold)
        self._cells.add(np.stack([sums.weight, sums.confidence, sums.correct]))
        self._totals.add(np.array([sums.total, squared.sum() if weight is None else squared @ weight]))
        return self

    def merge(self, other: ClasswiseCalibration) -> Self:
        """Add what another accumulator has seen."""
        if (self.classes, self.bins, self.closed) != (other.classes, other.bins, other.closed):
            raise ValueError("only accumulators with the same classes and bins can be merged")
        self._cells.merge(other._cells)
        self._totals.merge(other._totals)
        return self

    @property
    def sums(self) -> ClassSums:
        weight, confidence, correct = self._cells.value
        return ClassSums(weight, confidence, correct, total=float(self._totals.value[0]))

    def compute(self) -> dict[str, float]:
        sums = self.sums
        if sums.total <= 0:
            raise ValueError("no rows yet")
        brier, calibration = float(self._totals.value[1] / sums.total), sums.squared_gap()
        return {
            "classwise_ece": sums.expected_error(),
            "brier": brier,
            "brier_calibration": calibration,
            "brier_refinement": brier - calibration,
        }


class PredictionMetrics:
    """Accuracy, NLL, Brier score and all of the above from batches of `Predictions`.

    `notion` is the notion of the binned errors; `classwise` has one of them, the ECE.

    >>> metric = PredictionMetrics(2)
    >>> _ = metric.update(Predictions.from_probabilities([[0.9, 0.1]], [0]))
    >>> _ = metric.update(Predictions.from_probabilities([[0.9, 0.1]], [1]))
    >>> found = metric.compute()
    >>> found["n"], found["accuracy"], round(found["ece"], 6), round(found["oe"], 6)
    (2, 0.5, 0.4, 0.36)
    """

    def __init__(
        self, classes: int, *, bins: int = 15, closed: Closed = "right", notion: Notion = "top_label"
    ) -> None:
        if notion not in ("top_label", "classwise", "positive"):
            raise ValueError(f"notion must be top_label, classwise or positive, not {notion!r}")
        if notion == "positive" and classes != 2:
            raise ValueError(f"notion 'positive' needs two classes, not {classes}; use 'classwise'")
        self.classes, self.notion = classes, notion
        self._means = WeightedSum(
            (4,), powers=(0, 1, 1, 1)
        )  # rows, weight, weighted right answers, weighted log loss
        self._binned = BinnedCalibration(bins=bins, closed=closed)
        self._classwise = ClasswiseCalibration(classes, bins=bins, closed=closed)

    def update(self, predictions: Predictions, weights: npt.ArrayLike | None = None) -> Self:
        """Add rows, with their weights. Rows that have weights or soft labels of their own
        (`Predictions.with_rows`) count by these."""
        if predictions.is_weighted:
            if weights is not None:
                raise ValueError("the predictions have weights or soft labels already; give no others")
            predictions, weights = predictions.weighted_rows()
        if predictions.classes != self.classes:
            raise ValueError(f"{predictions.classes} classes where {self.classes} were announced")
        weight = check_batch_weights(weights, rows=len(predictions))
        step = max(BLOCK_VALUES // self.classes, 1)
        for start in range(0, len(predictions), step):
            block = predictions.rows(start, start + step)
            self._update_block(block, None if weight is None else weight[start : start + step])
        return self

    def _update_block(self, block: Predictions, weights: Floats | None) -> None:
        if weights is not None and not weights.any():
            return  # padding fills the block
        units = self._means.in_units(weights, rows=len(block))
        weight = np.ones(len(block)) if units is None else units
        correct, log_loss = block.correct(), log_loss_rows(block)
        self._means.add(
            np.array([np.count_nonzero(weight), weight.sum(), weight @ correct, weight @ log_loss])
        )
        probabilities = block.probabilities()
        self._classwise.update(probabilities, block.labels, weights)
        if self.notion == "top_label":
            self._binned.update(block.confidence(), correct, weights)
        elif self.notion == "positive":
            self._binned.update(np.minimum(probabilities[:, 1], 1.0), block.labels == 1, weights)

    def merge(self, other: PredictionMetrics) -> Self:
        """Add what another accumulator has seen."""
        if self.notion != other.notion:
            raise ValueError(f"notion {self.notion!r} and {other.notion!r} cannot be merged")
        self._classwise.merge(other._classwise)
        self._binned.merge(other._binned)
        self._means.merge(other._means)
        return self

    def compute(self) -> dict[str, float]:
        found = self._classwise.compute()
        rows, weight, right, log_loss = self._means.value.tolist()
        binned = {"ece": found["classwise_ece"]} if self.notion == "classwise" else self._binned.compute()
        return binned | found | {"n": int(rows), "accuracy": right / weight, "nll": log_loss / weight}
