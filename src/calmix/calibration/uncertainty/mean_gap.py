"""How far mean confidence and accuracy may differ: a lower limit of any calibration error.

Every calibration error is at least |mean confidence - accuracy|. Few errors say little about the accuracy,
but how little is known exactly (Clopper-Pearson), so an upper limit of a calibration error is never below
what those limits allow. In bins with few errors the noise of gaps, judged by what was seen, is too small.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from calmix.calibration.metrics.binning import BinSums, clopper_pearson
from calmix.calibration.uncertainty.confidence_sample import ConfidenceSample
from calmix.calibration.uncertainty.paired_accuracy import outcome_difference_limits

# Confidences this close in all rows are the same, rounded to four digits.
ROUNDED = 1e-4


@dataclass(frozen=True)
class MeanGap:
    """Mean confidence and accuracy over (an effective number of) rows."""

    confidence: float
    accuracy: float
    rows: float

    @classmethod
    def of_bins(cls, sums: BinSums) -> MeanGap:
        total = sums.total
        return cls(
            float(sums.confidence.sum()) / total,
            float(sums.correct.sum()) / total,
            total**2 / float(sums.weight_square.sum()),
        )

    def reach(self, level: float) -> tuple[float, float]:
        """By how much the mean confidence may be above the true accuracy, and below it; at least 0.

        No error in 100 rows at 0.99: the accuracy may be as low as 0.9638.

        >>> over, under = MeanGap(0.99, 1.0, 100).reach(0.95)
        >>> round(over, 4), round(under, 4)
        (0.0262, 0.01)
        """
        low, high = clopper_pearson(min(self.accuracy, 1.0) * self.rows, self.rows, level)
        return max(self.confidence - float(low), 0.0), max(float(high) - self.confidence, 0.0)


@dataclass(frozen=True, eq=False)
class GapRows:
    """The mean gap of a model with its rows, for the difference of two; `weight` is the calibration error
    that a mean gap of 1 makes when it is spread evenly over the rows."""

    gap: MeanGap
    sample: ConfidenceSample
    weight: float = 1.0
    only_over: bool = False

    def difference_reach(self, other: GapRows, level: float) -> tuple[float, float]:
        """The least and the largest difference of the errors that both mean gaps allow; inf and -inf where
        they say nothing.

        Where both models are overconfident it is (c1 - c2) - (a1 - a2), with the paired limits of a1 - a2;
        where both are underconfident, the opposite. One model written with fewer digits is not another model.
        """
        if self._is_rounded(other):
            return np.inf, -np.inf
        low, high = outcome_difference_limits(self.sample, other.sample, level)
        apart = self.gap.confidence - other.gap.confidence
        (over, under), (other_over, other_under) = self.gap.reach(level), other.gap.reach(level)
        least, most = np.inf, -np.inf
        if over > 0 and other_over > 0:
            least, most = min(least, apart - high), max(most, apart - low)
        if under > 0 and other_under > 0 and not self.only_over:
            least, most = min(least, low - apart), max(most, high - apart)
        return self.weight * least, self.weight * most

    def _is_rounded(self, other: GapRows) -> bool:
        if ((self.sample.codes ^ other.sample.codes) & np.uint64(1)).any():
            return False
        apart = np.abs(self.sample.confidence() - other.sample.confidence())
        return bool(apart.max() <= ROUNDED)


def even_error(metric: str, gap: MeanGap, level: float, classes: int = 1) -> float:
    """The largest value of a calibration error that the mean gap alone allows, spread evenly over the rows.

    Of several classes, an error of the predicted one is as much an error of the others.

    >>> round(even_error("oe", MeanGap(0.99, 1.0, 100), 0.95), 4)
    0.026
    """
    over, under = gap.reach(level)
    largest = max(over, under)
    if metric == "oe":
        return gap.confidence * over / classes
    if classes == 1 or metric == "mce":
        return largest
    square = largest**2 * classes / max(classes - 1, 1)
    return {
        "ece": 2.0 * largest / classes,
        "rmsce": float(np.sqrt(square / classes)),
        "brier_calibration": square,
    }[metric]
