"""The noise floor: the error a perfectly calibrated model with these probabilities would show.

Correctness is redrawn as Bernoulli(confidence), or the label from the row's probabilities, and the metric
taken again, many times. An observed ECE below the 95th percentile is no evidence of miscalibration.

Small samples are redrawn row by row. Of larger ones only the bins' sums are drawn, each from the binomial law
with the mean sum p and the variance sum p (1 - p) of its rows; where that variance is large, the normal law.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from calmix.calibration.input_checks import Floats, check_confidence
from calmix.calibration.metrics.binning import (
    BinSums,
    Closed,
    assign_bins,
    binned_error,
    check_bins,
    equal_width_sums,
)
from calmix.calibration.uncertainty.sampling_noise import FEWEST_DRAWS, draw_count

REPETITIONS = 1000
# Rows are redrawn one by one up to this many, and up to this many probabilities of all classes.
MOST_ROWS = 20_000
MOST_VALUES = 1 << 23
BLOCK_VALUES = 1 << 20
# Labels drawn in all, where that still leaves enough draws for a 95th percentile.
DRAWN_LABELS = 4_000_000
# A count with this variance is normal for the purpose; a smaller one is a whole number that matters.
NORMAL_VARIANCE = 9.0


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
    closed: Closed = "right",
    repetitions: int = REPETITIONS,
    seed: int = 0,
) -> NoiseFloor:
    """Mean and 95th percentile of the ECE when every confidence is true.

    One row at 0.5 is off by 0.5 whatever happens:

    >>> noise_floor([0.5])
    NoiseFloor(mean=0.5, p95=0.5)
    """
    check_bins(bins, closed)
    sure = check_confidence(confidence)
    if len(sure) > MOST_ROWS:
        sums = equal_width_sums(sure, np.zeros(len(sure)), bins=bins, closed=closed)
        return noise_floor_of_sums(sums, repetitions=repetitions, seed=seed)
    return NoiseFloor.of_draws(_redrawn(sure, assign_bins(sure, bins, closed), bins, repetitions, seed))


def noise_floor_of_sums(sums: BinSums, *, repetitions: int = REPETITIONS, seed: int = 0) -> NoiseFloor:
    """The same from the sums of unweighted bins: the right answers of each are a binomial number."""
    generator = np.random.default_rng(seed)
    trials, share = matched_binomial(sums.confidence, sums.bernoulli)
    draws = generator.binomial(trials, share, size=(repetitions, len(trials))) - sums.confidence
    return NoiseFloor.of_draws(binned_error(draws, sums.total, axis=1))


def classwise_noise_floor(
    probabilities: Floats,
    *,
    bins: int = 15,
    closed: Closed = "right",
    repetitions: int | None = None,
    seed: int = 0,
) -> NoiseFloor:
    """Mean and 95th percentile of the classwise ECE when every label is drawn from its row's probabilities.

    Both classes of one row at 1/2 are off by 1/2 whatever happens:

    >>> classwise_noise_floor(np.array([[0.5, 0.5]]))
    NoiseFloor(mean=0.5, p95=0.5)
    """
    rows, classes = probabilities.shape
    cells = classes * bins
    draws = repetitions
    if draws is None:
        draws = min(draw_count(cells), max(DRAWN_LABELS // rows, FEWEST_DRAWS))
    generator = np.random.default_rng(seed)
    normalised = probabilities / probabilities.sum(axis=1, keepdims=True)
    cell = (assign_bins(probabilities.ravel(), bins, closed).reshape(rows, classes)).astype(np.int32)
    cell += bins * np.arange(classes, dtype=np.int32)
    expected = np.bincount(cell.ravel(), weights=normalised.ravel(), minlength=cells)
    line = cells * np.arange(draws, dtype=np.int64)
    counts = np.zeros(draws * cells)
    step = max(BLOCK_VALUES // max(draws, classes), 1)
    for start in range(0, rows, step):
        part = slice(start, start + step)
        # How often a row's label is each class among all draws, dealt to the draws in random order: far
        # fewer random decisions than one search among all classes per draw.
        times = generator.multinomial(draws, normalised[part])
        drawn = np.repeat(cell[part].ravel(), times.ravel()).reshape(-1, draws)
        generator.permuted(drawn, axis=1, out=drawn)
        counts += np.bincount((drawn + line).ravel(), minlength=draws * cells)
    gap = np.abs(counts.reshape(draws, cells) - expected).sum(axis=1)
    return NoiseFloor.of_draws(gap / (rows * classes))


def matched_binomial(mean: Floats, variance: Floats) -> tuple[npt.NDArray[np.int64], Floats]:
    """Trials and share of the binomial law with (nearly) these moments: those of a sum of unequal coins.

    Ten coins at 0.3 are a binomial number of ten trials:

    >>> trials, share = matched_binomial(np.array([3.0]), np.array([2.1]))
    >>> trials.tolist(), share.round(6).tolist()
    ([10], [0.3])
    """
    square = np.maximum(mean - variance, 0.0)  # sum p^2
    ratio = np.divide(mean**2, square, out=np.zeros_like(mean), where=square > 0)
    # Trials are whole numbers (up to rounding), and at least the mean; the mean is kept exactly. A million
    # trials for a mean of one are a Poisson number.
    most = 1e6 * np.maximum(mean, 1.0)
    trials = np.ceil(np.where(square > 0, np.minimum(ratio, most), most) - 1e-6)
    trials = np.where(mean > 0, np.maximum(trials, np.ceil(mean - 1e-9)), 0.0)
    share = np.divide(mean, trials, out=np.zeros_like(mean), where=trials > 0)
    return trials.astype(np.int64), np.clip(share, 0.0, 1.0)


def binomial_deviations(normal: Floats, mean: Floats, variance: Floats) -> Floats:
    """Counts less their means, with the ranks of these standard normal numbers [draws, cells].

    The correlations of the normal numbers carry over; small counts are whole numbers as they must be.
    """
    from scipy.special import ndtr

    deviation = normal * np.sqrt(np.maximum(variance, 0.0))
    small = np.flatnonzero((variance < NORMAL_VARIANCE) & (mean > 0))
    if not small.size:
        return deviation
    trials, share = matched_binomial(mean[small], variance[small])
    # Of the two outcomes the rarer is counted: few steps, and no cancellation.
    turned = share > 0.5
    rare = np.where(turned, 1.0 - share, share)
    rank = ndtr(np.where(turned, -normal[:, small], normal[:, small]))
    counted = np.zeros_like(rank)
    odds = rare / (1.0 - rare)
    chance = np.exp(trials * np.log1p(-rare))
    reached, left, k = chance.copy(), np.arange(len(small)), 0
    while left.size:
        above = rank[:, left] > reached[left]
        left = left[above.any(axis=0) & (k < trials[left])]
        counted[:, left] += rank[:, left] > reached[left]
        chance = chance * np.maximum(trials - k, 0) / (k + 1.0) * odds
        reached, k = reached + chance, k + 1
    deviation[:, small] = np.where(turned, -1.0, 1.0) * (counted - trials * rare)
    return deviation


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
        errors[start : start + size] = binned_error(correct - expected, len(ordered), axis=1)
    return errors
