"""The paired bootstrap: how far a difference between two arms can be trusted.

A repetition resamples the rows of a split, the same rows for every run, and the seeds, the same seeds
for both arms. With m(a, s, w) the metric of arm a under seed s on rows with the counts w:

    difference = mean_s m(a, s) - m(b, s)
    repetition = mean over the drawn seeds of m(a, s, w) - m(b, s, w)

Of the variance V of the repetitions, v_s = variance of the differences over seeds / S is due to the seeds,
the rest to the rows. The limits are

    difference ± sqrt(z² (V - v_s) + t² v_s),        z normal, t with S - 1 degrees of freedom

since a few seeds say less about further seeds than many rows about further rows. S - 1 of S seeds are drawn
in a repetition: S of S would give a variance that is too small by (S - 1)/S.

Quantiles of the repetitions would be too narrow: means of two or three seeds take few values, and none beyond
the seeds there are. They would also carry the bias of a resampled ECE, which is twice that of the ECE.

With one seed only the rows are drawn, and the interval says nothing about other seeds. The temperature of a
calibrated arm is the one it has; it is not fitted again.

Where every seed has validation rows of its own, and few, a repetition may draw no row of a run. V is then
that of the other repetitions.

The ECE of a small sample is biased upwards, and more so for the better calibrated of two: a difference in ECE
is, if anything, shown too small.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from calmix.calibration.metrics.binning import Closed, assign_bins, binned_error
from calmix.calibration.metrics.scores import brier_rows, log_loss_rows
from calmix.calibration.predictions import Predictions
from calmix.runtime.randomness import stream

Floats = npt.NDArray[np.float64]

METRICS = ("accuracy", "nll", "brier", "ece", "oe")
REPETITIONS = 1000
LEVEL = 0.95
# Counts of one block of repetitions, in numbers: they stay in memory, and mostly in the cache.
BLOCK_NUMBERS = 4_000_000
# What two orders of summation may differ by, and a temperature of 1 from none: not a difference.
ROUNDING = 1e-12


@dataclass(frozen=True, eq=False)
class RowScores:
    """What the bootstrap must know of one run on one split, row by row."""

    ids: npt.NDArray[np.str_]
    means: Floats
    """[3, n]: correct, negative log-likelihood and Brier score."""
    bins: npt.NDArray[np.int64]
    confidence: Floats
    residual: Floats
    """correct - confidence."""
    bin_count: int

    @classmethod
    def of(cls, predictions: Predictions, *, bins: int = 15, closed: Closed = "right") -> RowScores:
        if predictions.ids is None:
            raise ValueError("rows are paired by their ids, and these predictions have none")
        confidence = predictions.confidence()
        correct = predictions.correct().astype(np.float64)
        return cls(
            ids=predictions.ids,
            means=np.stack([correct, log_loss_rows(predictions), brier_rows(predictions)]),
            bins=assign_bins(confidence, bins, closed),
            confidence=confidence,
            residual=correct - confidence,
            bin_count=bins,
        )


@dataclass(frozen=True, eq=False)
class Resampled:
    """The metrics of one run, as they are [5] and in every repetition [5, B], in the order of `METRICS`."""

    point: Floats
    repetitions: Floats


@dataclass(frozen=True)
class Difference:
    """A mean difference over `seeds` seeds, with its 95 % limits."""

    difference: float
    low: float
    high: float
    seeds: int


def resample(runs: Sequence[RowScores], *, repetitions: int = REPETITIONS, seed: int = 0) -> list[Resampled]:
    """The metrics of many runs on one split under the same draws of rows.

    Rows are known by their ids. Runs may have different rows (a validation part that depends on the seed):
    counts are drawn for the rows of all runs together.
    """
    from scipy.sparse import csr_matrix

    every_id, places = np.unique(np.concatenate([run.ids for run in runs]), return_inverse=True)
    ends = np.cumsum([len(run.ids) for run in runs])
    positions = np.split(places, ends[:-1])
    count = len(every_id)
    lines = runs[0].bin_count
    which = np.concatenate([run.bins + place * lines for place, run in enumerate(runs)])

    def by_bin(values: Sequence[Floats]) -> csr_matrix:
        """A line per run and bin holds the values of its rows; a product with the counts sums them by bin."""
        return csr_matrix((np.concatenate(values), (which, places)), shape=(lines * len(runs), count))

    residuals = by_bin([run.residual for run in runs])
    confidences = by_bin([run.confidence for run in runs])
    members = by_bin([np.ones_like(run.confidence) for run in runs])
    means = np.zeros((3 * len(runs), count))
    for place, (run, position) in enumerate(zip(runs, positions, strict=True)):
        means[3 * place : 3 * place + 3, position] = run.means
    complete = all(len(run.ids) == count for run in runs)
    present = np.array([np.bincount(position, minlength=count) for position in positions], dtype=np.float64)

    def measure(counts: Floats) -> Floats:
        """[runs, 5, b] for counts [n, b]."""
        rows = counts.sum(axis=0)[None] if complete else present @ counts
        rows = np.where(rows > 0, rows, np.nan)
        averages = (means @ counts).reshape(len(runs), 3, -1) / rows[:, None]
        gap = residuals @ counts
        mean_confidence = (confidences @ counts) / np.maximum(members @ counts, 1.0)
        errors = [gap, mean_confidence * np.maximum(-gap, 0.0)]
        sums = [binned_error(error.reshape(len(runs), lines, -1), rows, axis=1) for error in errors]
        return np.concatenate([averages, np.stack(sums, axis=1)], axis=1)

    point = measure(np.ones((count, 1)))[..., 0]
    block = max(BLOCK_NUMBERS // count, 1)
    drawn = [
        measure(draw_counts(count, min(block, repetitions - start), seed, start))
        for start in range(0, repetitions, block)
    ]
    values = np.concatenate(drawn, axis=2) if drawn else np.empty((len(runs), len(METRICS), 0))
    return [Resampled(point[place], values[place]) for place in range(len(runs))]


def draw_counts(rows: int, repetitions: int, seed: int, start: int) -> Floats:
    """How often each row is drawn in each repetition, [rows, repetitions]; every column sums to `rows`."""
    counts = np.empty((rows, repetitions))
    for column in range(repetitions):
        drawn = stream(seed, "bootstrap rows", start + column).integers(0, rows, rows)
        counts[:, column] = np.bincount(drawn, minlength=rows)
    return counts


def paired_difference(
    ours: Mapping[int, Resampled], theirs: Mapping[int, Resampled], *, seed: int = 0
) -> dict[str, Difference]:
    """Ours minus theirs for every metric, over the seeds that both have."""
    seeds = sorted(ours.keys() & theirs.keys())
    if not seeds:
        raise ValueError("the two arms have no seed in common")
    points = np.stack([without_rounding(ours[key].point - theirs[key].point) for key in seeds])
    repeated = np.stack([without_rounding(ours[key].repetitions - theirs[key].repetitions) for key in seeds])
    repetitions = repeated.shape[2]
    draws = stream(seed, "bootstrap seeds", len(seeds)).integers(
        0, len(seeds), (max(len(seeds) - 1, 1), repetitions)
    )
    # [seeds drawn, metric, repetition] -> mean over the drawn seeds.
    averaged = repeated[draws, :, np.arange(repetitions)].mean(axis=0).T
    return {metric: _interval(points[:, place], averaged[place]) for place, metric in enumerate(METRICS)}


def without_rounding(differences: Floats) -> Floats:
    """
    >>> without_rounding(np.array([1e-17, -0.25])).tolist()
    [0.0, -0.25]
    """
    return np.where(np.abs(differences) < ROUNDING, 0.0, differences)


def _interval(points: Floats, repetitions: Floats) -> Difference:
    known = repetitions[np.isfinite(repetitions)]
    difference, half = float(points.mean()), half_width(points, float(known.var()) if len(known) else 0.0)
    return Difference(difference, difference - half, difference + half, len(points))


def half_width(points: Floats, variance: float) -> float:
    """sqrt(z² (V - v_s) + t² v_s), from the differences of the seeds and the variance V of all repetitions.

    Three seeds with v_s = 1/3 and nothing from the rows: 4.303 / sqrt(3). One seed: z alone.

    >>> round(half_width(np.array([1.0, 2.0, 3.0]), 1 / 3), 3)
    2.484
    >>> round(half_width(np.array([1.0]), 4.0), 3)
    3.92
    """
    count = len(points)
    over_seeds = float(points.var(ddof=1)) / count if count > 1 else 0.0
    return half_width_of(max(variance - over_seeds, 0.0), over_seeds, count)


def half_width_of(rows_variance: float, seeds_variance: float, seeds: int, alpha: float = 1 - LEVEL) -> float:
    """sqrt(z² v_rows + t² v_seeds) with the quantiles at 1 - alpha/2: half the width of an interval.

    >>> round(half_width_of(1.0, 0.0, 3), 3), round(half_width_of(0.0, 1.0, 3), 3)
    (1.96, 4.303)
    """
    from scipy.special import ndtri, stdtrit

    # From the lower tail, which is exact where 1 - alpha/2 would round to 1.
    student = stdtrit(seeds - 1, alpha / 2) if seeds > 1 else 0.0
    return float(np.sqrt(ndtri(alpha / 2) ** 2 * rows_variance + student**2 * seeds_variance))
