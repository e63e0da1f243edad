"""The noise floor: the error a perfectly calibrated model with these confidences would show.

Correctness is redrawn as Bernoulli(confidence) and the metric taken again, many times. An observed ECE
below the 95th percentile is no evidence of miscalibration.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from calmix.calibration.binning import BinSums, Edges, assign_bins, check_bins, equal_width_sums
from calmix.calibration.input_checks import Floats, check_confidence

REPETITIONS = 1000
# Rows are redrawn one by one up to this many; beyond it the bins hold enough rows for the normal law.
MOST_ROWS = 20_000
BLOCK_VALUES = 1 << 20


@dataclass(frozen=True)
class NoiseFloor:
    mean: float
    p95: float

    @classmethod
    def of_draws(cls, errors: Floats) -> NoiseFloor:
        return cls(float(errors.mean()), float(np.quantile(errors, 0.95)))


def noise_floor(
    confidence: npt.ArrayLike,
    *,
    bins: int = 15,
    edges: Edges = "right",
    repetitions: int = REPETITIONS,
    seed: int = 0,
) -> NoiseFloor:
    """Mean and 95th percentile of the ECE when every confidence is true.

    One row at 0.5 is off by 0.5 whatever happens:

    >>> noise_floor([0.5])
    NoiseFloor(mean=0.5, p95=0.5)
    """
    check_bins(bins, edges)
    sure = check_confidence(confidence)
    if len(sure) > MOST_ROWS:
        sums = equal_width_sums(sure, np.zeros(len(sure)), bins=bins, edges=edges)
        return noise_floor_of_sums(sums, repetitions=repetitions, seed=seed)
    return NoiseFloor.of_draws(_redrawn(sure, assign_bins(sure, bins, edges), bins, repetitions, seed))


def noise_floor_of_sums(sums: BinSums, *, repetitions: int = REPETITIONS, seed: int = 0) -> NoiseFloor:
    """The same from the bins' sums: a bin's residuals add up to a normal number, variance sum c (1 - c)."""
    generator = np.random.default_rng(seed)
    draws = generator.standard_normal((repetitions, len(sums.weight))) * np.sqrt(sums.bernoulli)
    return NoiseFloor.of_draws(np.abs(draws).sum(axis=1) / sums.total)


def _redrawn(
    confidence: Floats, assigned: npt.NDArray[np.int64], bins: int, repetitions: int, seed: int
) -> Floats:
    generator = np.random.default_rng(seed)
    order = np.argsort(assigned, kind="stable")
    ordered = confidence[order]
    held, first = np.unique(assigned[order], return_index=True)
    expected = np.bincount(assigned, weights=confidence, minlength=bins)[held]
    threshold = ordered.astype(np.float32)
    errors = np.empty(repetitions)
    together = max(BLOCK_VALUES // len(ordered), 1)
    for start in range(0, repetitions, together):
        size = min(together, repetitions - start)
        hits = generator.random((size, len(ordered)), dtype=np.float32) < threshold
        correct = np.add.reduceat(hits, first, axis=1, dtype=np.float64)
        errors[start : start + size] = np.abs(correct - expected).sum(axis=1) / len(ordered)
    return errors
