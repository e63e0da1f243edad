"""Intervals of calibration errors for arrays of confidence and correctness.

`evaluate` reports all of them at once; these functions are for one metric at a time.
"""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

from calmix.calibration.input_checks import Floats, check_confidence, check_correct, check_level
from calmix.calibration.metrics.binning import (
    BLOCK_ROWS,
    Closed,
    assign_bins,
    binned_error,
    check_bins,
    equal_mass_sums,
    equal_width_sums,
)
from calmix.calibration.uncertainty.error_fields import bin_interval
from calmix.calibration.uncertainty.inversion import ErrorInterval
from calmix.calibration.uncertainty.views.binary import EQUAL_MASS

BinnedMetric = Literal["ece", "mce", "rmsce", "oe", "adaptive_ece", "debiased_rmsce"]


def calibration_error_interval(
    confidence: npt.ArrayLike,
    correct: npt.ArrayLike,
    metric: BinnedMetric = "ece",
    *,
    bins: int = 15,
    closed: Closed = "right",
    weights: npt.ArrayLike | None = None,
    level: float = 0.95,
    seed: int = 0,
) -> ErrorInterval:
    """Limits of the true binned error; unlike a percentile bootstrap they hold 0 where the truth is 0.

    The plug-in error may lie above its own interval: it contains the noise, which the interval leaves out.

    >>> generator = np.random.default_rng(1)
    >>> confidence = generator.uniform(0.5, 1.0, 500)
    >>> correct = generator.random(500) < confidence
    >>> calibration_error_interval(confidence, correct).low
    0.0
    """
    if metric not in get_args(BinnedMetric):
        raise ValueError(f"metric must be one of {', '.join(get_args(BinnedMetric))}, not {metric!r}")
    check_level(level)
    if metric in EQUAL_MASS:
        sums = equal_mass_sums(confidence, correct, bins=bins, weights=weights)
    else:
        sums = equal_width_sums(confidence, correct, bins=bins, closed=closed, weights=weights)
    norm = EQUAL_MASS.get(metric, metric)
    return bin_interval(sums, norm, level=level, seed=seed)


def bootstrap_calibration_error(
    confidence: npt.ArrayLike,
    correct: npt.ArrayLike,
    *,
    repetitions: int = 1000,
    bins: int = 15,
    closed: Closed = "right",
    seed: int = 0,
) -> Floats:
    """The ECE of `repetitions` resamples of the rows, with replacement.

    For looking at the bootstrap itself: its percentiles are no interval of the ECE, because resampled
    gaps carry the noise twice. Rows are binned once; a repetition draws rows and adds their residuals up
    by bin.

    >>> bootstrap_calibration_error([0.8] * 10, [1] * 10, repetitions=3).round(6).tolist()
    [0.2, 0.2, 0.2]
    """
    check_bins(bins, closed)
    sure = check_confidence(confidence)
    residual = check_correct(correct, rows=len(sure)) - sure
    assigned = assign_bins(sure, bins, closed)
    rows = len(sure)
    generator = np.random.default_rng(seed)
    errors = np.empty(repetitions)
    together = max(BLOCK_ROWS // rows, 1)
    for start in range(0, repetitions, together):
        size = min(together, repetitions - start)
        drawn = generator.integers(0, rows, size=(size, rows), dtype=np.int32 if rows < 2**31 else np.int64)
        cell = assigned[drawn] + bins * np.arange(size)[:, None]
        sums = np.bincount(cell.ravel(), weights=residual[drawn].ravel(), minlength=size * bins)
        errors[start : start + size] = binned_error(sums.reshape(size, bins), rows, axis=1)
    return errors
