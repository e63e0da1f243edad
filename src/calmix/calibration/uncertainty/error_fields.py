"""Calibration errors as norms of the bins' gaps: what `inversion` needs to know of each.

A cell is a bin of one notion, or a bin of one class. Its entry of the field is x = (sum of w r) / W, its
share of the weight v, its mean confidence c.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from calmix.calibration.input_checks import Floats
from calmix.calibration.metrics.binning import BinSums
from calmix.calibration.uncertainty.inversion import ErrorInterval, Functional, invert
from calmix.calibration.uncertainty.mean_gap import MeanGap, even_error
from calmix.calibration.uncertainty.sampling_noise import bin_scale, independent_noise


@dataclass(frozen=True, eq=False)
class Cells:
    """The filled cells of one or several classes (`classes` > 1 averages over them)."""

    field: Floats
    scale: Floats
    share: Floats
    confidence: Floats
    # Sums of the rows' squared shares of the weight; the variances of the entries were the confidences true.
    unit: Floats
    calibrated: Floats
    classes: int = 1

    def scale_at(self, gaps: Floats) -> Floats:
        """The noise of the field if these gaps were true: that of coins with probability c + x / v.

        >>> cells = Cells(*(np.array([x]) for x in (0.0, 0.01, 1.0, 0.9, 0.01, 0.0009)))
        >>> cells.scale_at(np.array([-0.4])).round(4).tolist()  # 100 coins with probability 1/2
        [0.05]
        """
        true = np.minimum(np.maximum(self.confidence + gaps / self.share, 0.0), 1.0)
        variance = self._within + self.unit * (true * (1.0 - true))
        return np.sqrt(np.maximum(variance, 0.0))

    @cached_property
    def _within(self) -> Floats:
        """What the spread of the confidences in a cell takes from the variance of equal coins."""
        return self.calibrated - self.unit * (self.confidence * (1.0 - self.confidence))

    def square_limit(self, level: float) -> float:
        """An upper limit of the sum of squared gaps, sum of x² / v, that takes no more for noise than true
        confidences would make.

        Cells of one or two rows say nothing about their noise; to believe it large would explain gaps away.

        >>> cells = Cells(*(np.array([x]) for x in (-0.1, 0.01, 1.0, 0.9, 0.01, 0.0009)))
        >>> round(cells.square_limit(0.95), 4)
        0.0128
        """
        from scipy.special import ndtri

        squares = np.maximum(self.field**2 - self.calibrated, 0.0)
        total = float(((self.field**2 - self.calibrated) / self.share).sum())
        variance = self.scale**2
        spread = (4.0 * squares * variance + 2.0 * variance**2) / self.share**2
        return max(total, 0.0) + float(ndtri(0.5 + level / 2.0) * np.sqrt(spread.sum()))

    @classmethod
    def of_bins(cls, sums: BinSums) -> Cells:
        filled = sums.weight > 0
        return cls(
            field=sums.residual[filled] / sums.total,
            scale=bin_scale(sums)[filled],
            share=sums.weight[filled] / sums.total,
            confidence=sums.confidence[filled] / sums.weight[filled],
            unit=sums.weight_square[filled] / sums.total**2,
            calibrated=sums.bernoulli[filled] / sums.total**2,
        )


def _expected(cells: Cells) -> Functional:
    return lambda x: np.abs(x).sum(axis=-1) / cells.classes


def _root_mean_square(cells: Cells) -> Functional:
    return lambda x: np.sqrt((x**2 / cells.share).sum(axis=-1) / cells.classes)


def _maximum(cells: Cells) -> Functional:
    return lambda x: np.abs(x / cells.share).max(axis=-1)


def _overconfidence(cells: Cells) -> Functional:
    return lambda x: (cells.confidence * np.maximum(-x, 0.0)).sum(axis=-1) / cells.classes


def _square_sum(cells: Cells) -> Functional:
    """The calibration part of the Brier score, which sums over classes."""
    return lambda x: (x**2 / cells.share).sum(axis=-1)


FUNCTIONALS: dict[str, Callable[[Cells], Functional]] = {
    "ece": _expected,
    "rmsce": _root_mean_square,
    "mce": _maximum,
    "oe": _overconfidence,
    "brier_calibration": _square_sum,
}


# Only overconfident bins count for OE. (All signs are equally likely in the noise of one notion.)
LEAST_VISIBLE: dict[str, Callable[[Floats], Floats]] = {"oe": np.negative}


# A sum over classes of squared gaps may be 2.
MOST: dict[str, float] = {"brier_calibration": 2.0}


def bin_interval(sums: BinSums, metric: str, *, level: float, seed: int) -> ErrorInterval:
    """The interval of one of the errors of a set of bins."""
    cells = Cells.of_bins(sums)
    found = invert(
        cells.field,
        cells.scale,
        independent_noise(cells.scale, seed),
        FUNCTIONALS[metric](cells),
        least_visible=LEAST_VISIBLE[metric](cells.scale) if metric in LEAST_VISIBLE else None,
        scale_at=cells.scale_at,
        level=level,
    )
    return found.widened(even_error(metric, MeanGap.of_bins(sums), level), 1.0)
