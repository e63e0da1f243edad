"""The measured effect of a claim: paired differences over rows and seeds.

Metrics that are means over rows or bins come from the paired bootstrap (`experiments.bootstrap`), MCC from
the influence of every row (`metrics.agreement`). AUROC and mean confidence of data out of distribution have
closed forms: with the placement values a_i = P(out < in_i) and b_j = P(out_j < in), half credit for ties,

    variance over rows = var(mean_s Δa) / n_in + var(mean_s Δb) / n_out          (DeLong et al. 1988)

since both arms are asked about the same rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from calmix.calibration.files.run_predictions import predictions_of_run
from calmix.calibration.metrics.agreement import in_top, matthews_influence, matthews_of_shares
from calmix.calibration.metrics.binning import Closed
from calmix.calibration.predictions import Predictions
from calmix.experiments.bootstrap import METRICS as BOOTSTRAPPED
from calmix.experiments.bootstrap import RowScores, paired_difference, resample
from calmix.experiments.significance import Spread, split_interval
from calmix.io.run_directory import RunDirectory
from calmix.reproduction.preset import CALIBRATED

Floats = npt.NDArray[np.float64]
Runs = Mapping[int, RunDirectory]
"""By seed."""


def spread_of_points(points: Sequence[float], rows_variance: float) -> Spread:
    """From the differences of the seeds, and the variance that the rows add to their mean."""
    over_seeds = float(np.var(points, ddof=1)) / len(points) if len(points) > 1 else 0.0
    return Spread(float(np.mean(points)), rows_variance, over_seeds, len(points))


def metric_effect(
    ours: tuple[Runs, str],
    theirs: tuple[Runs, str],
    split: str,
    metric: str,
    *,
    bins: int,
    closed: Closed,
    repetitions: int,
) -> Spread:
    """Ours minus theirs on a split; each is runs and a stage."""
    seeds = sorted(ours[0].keys() & theirs[0].keys())
    sides = [[_predictions(runs[seed], split, stage) for seed in seeds] for runs, stage in (ours, theirs)]
    if metric in BOOTSTRAPPED:
        scores = [RowScores.of(one, bins=bins, closed=closed) for side in sides for one in side]
        samples = resample(scores, repetitions=repetitions)
        first = dict(zip(seeds, samples[: len(seeds)], strict=True))
        second = dict(zip(seeds, samples[len(seeds) :], strict=True))
        place = BOOTSTRAPPED.index(metric)
        points = [float(first[seed].point[place] - second[seed].point[place]) for seed in seeds]
        return split_interval(paired_difference(first, second)[metric], points)
    if metric == "mcc":
        return mcc_effect(sides[0], sides[1])
    if metric == "top5_accuracy":
        hits = [[in_top(one, 5).astype(np.float64) for one in side] for side in sides]
        return mean_effect(hits[0], hits[1])
    raise ValueError(f"no effect of {metric!r}")


def _predictions(run: RunDirectory, split: str, stage: str) -> Predictions:
    return predictions_of_run(run, split, calibrated=stage == CALIBRATED)


def mcc_effect(ours: Sequence[Predictions], theirs: Sequence[Predictions]) -> Spread:
    """The difference in MCC, seed by seed; the rows add the variance of the influences' difference."""
    points, influences = [], []
    for one, other in zip(ours, theirs, strict=True):
        (first, of_first), (second, of_second) = _mcc_rows(one), _mcc_rows(other)
        points.append(first - second)
        influences.append(of_first - of_second)
    return spread_of_points(points, _variance(influences))


def _mcc_rows(predictions: Predictions) -> tuple[float, Floats]:
    """MCC, and how much every row moves it."""
    classes = predictions.values.shape[1]
    said, true = predictions.values.argmax(axis=1), predictions.labels
    shares = [np.bincount(of, minlength=classes) / len(true) for of in (said, true)]
    accuracy = float((said == true).mean())
    by_said, by_true, by_hit = matthews_influence(accuracy, shares[0], shares[1])
    influence: Floats = by_said[said] + by_true[true] + by_hit * (said == true)
    return matthews_of_shares(accuracy, shares[0], shares[1]), influence


def placements(inside: Floats, outside: Floats) -> tuple[Floats, Floats]:
    """P(out < in_i) of every row inside and P(out_j < in) of every row outside, half credit for ties.

    >>> [part.tolist() for part in placements(np.array([2.0, 3.0]), np.array([1.0, 2.0]))]
    [[0.75, 1.0], [1.0, 0.75]]
    """

    def share_below(values: Floats, others: Floats) -> Floats:
        ordered = np.sort(others)
        left, right = np.searchsorted(ordered, values, "left"), np.searchsorted(ordered, values, "right")
        shares: Floats = (left + right) / (2 * len(others))
        return shares

    return share_below(inside, outside), 1.0 - share_below(outside, inside)


def auroc_effect(ours: Sequence[tuple[Floats, Floats]], theirs: Sequence[tuple[Floats, Floats]]) -> Spread:
    """Of scores inside and outside, seed by seed."""
    points, inside, outside = [], [], []
    for one, other in zip(ours, theirs, strict=True):
        (a, b), (c, d) = placements(*one), placements(*other)
        points.append(float(a.mean() - c.mean()))
        inside.append(a - c)
        outside.append(b - d)
    return spread_of_points(points, _variance(inside) + _variance(outside))


def mean_effect(ours: Sequence[Floats], theirs: Sequence[Floats]) -> Spread:
    """Of the mean of a value per row, seed by seed."""
    differences = [one - other for one, other in zip(ours, theirs, strict=True)]
    return spread_of_points([float(one.mean()) for one in differences], _variance(differences))


def _variance(differences: Sequence[Floats]) -> float:
    """Of the mean over rows of the mean over seeds."""
    mean = np.mean(differences, axis=0)
    return float(mean.var(ddof=1)) / len(mean) if len(mean) > 1 else 0.0
