"""How well a score separates two sets of rows, with intervals over the draw of both sets.

1 - AUROC is the mean share of the other set that a row is on the wrong side of. Few rows may be on the wrong
side of any; the limits are those of a sum of rare events (see `gamma_limits`), with the variance of DeLong et
al. (1988) and one more row at a random place of the other set as the event not seen. So the interval of two
sets that a score separates is not [1, 1]. AUPR likewise, with the variance of a bootstrap.

FPR@95 is a share of one set at a threshold from the other: percentiles of the bootstrap, and at least the
Clopper-Pearson interval of that share.

A set of one row does not say how its rows vary: nothing that depends on it has limits within [0, 1].

In the bootstrap both sets are resampled with replacement, each by itself. Rows are sorted once: a draw only
counts how often each score was drawn, and every metric is a sum over those counts.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from calmix.calibration.input_checks import Integers, check_level
from calmix.calibration.metrics.binning import clopper_pearson
from calmix.calibration.metrics.ood import group_scores, metrics_of_counts
from calmix.calibration.uncertainty.gamma_limits import gamma_limits

METRICS = ("auroc", "aupr_in", "aupr_out", "fpr95")
REPETITIONS = 400


def detection_metrics(
    in_scores: npt.ArrayLike,
    out_scores: npt.ArrayLike,
    *,
    level: float = 0.95,
    repetitions: int = REPETITIONS,
    seed: int = 0,
) -> dict[str, float | list[float]]:
    """Every metric of `ood`, each with `<metric>_ci`, its [low, high].

    >>> found = detection_metrics([3.0, 2.0, 1.0], [2.0, 0.5])
    >>> found["auroc"], found["fpr95"]
    (0.75, 0.5)
    """
    check_level(level)
    in_group, out_group, groups = group_scores(in_scores, out_scores)

    def count(group: Integers) -> Integers:
        return np.bincount(group, minlength=groups)

    inside, outside = count(in_group), count(out_group)
    metrics = metrics_of_counts(inside, outside)
    generator = np.random.default_rng(seed)
    draws: dict[str, list[float]] = {metric: [] for metric in METRICS}
    for _ in range(repetitions):
        drawn = metrics_of_counts(
            count(in_group[generator.integers(0, len(in_group), len(in_group))]),
            count(out_group[generator.integers(0, len(out_group), len(out_group))]),
        )
        for metric in METRICS:
            draws[metric].append(drawn[metric])
    tail = 50 * (1 - level)
    in_rows, out_rows = len(in_group), len(out_group)
    low, high = np.percentile(draws["fpr95"], [tail, 100 - tail])
    least, most = clopper_pearson(metrics["fpr95"] * out_rows, out_rows, level)
    # A row at a random place u of the other set meets a share 1 - u of it, and lowers the precision of what
    # follows by -log u rows in all: as root mean squares,
    jumps = {
        "auroc": 3.0**-0.5 / min(in_rows, out_rows),
        "aupr_in": 2.0**0.5 / in_rows,
        "aupr_out": 2.0**0.5 / out_rows,
    }
    variances = {metric: float(np.var(draws[metric])) for metric in jumps}
    variances["auroc"] = auroc_variance(inside, outside)
    limits = {
        metric: share_limits(metrics[metric], variances[metric], jump, level)
        for metric, jump in jumps.items()
    }
    if min(in_rows, out_rows) == 1:
        limits = {metric: [0.0, 1.0] for metric in jumps}
    # The threshold is of the in-domain rows.
    limits["fpr95"] = [0.0, 1.0] if in_rows == 1 else [float(min(low, least)), float(max(high, most))]
    found: dict[str, float | list[float]] = dict(metrics)
    return found | {f"{metric}_ci": limits[metric] for metric in METRICS}


def share_limits(value: float, variance: float, jump: float, level: float = 0.95) -> list[float]:
    """Limits of a value in [0, 1], from what it lacks to the nearer end.

    >>> [round(limit, 4) for limit in share_limits(1.0, 0.0, 0.5 / 100)]
    [0.9816, 1.0]
    """
    low, high = gamma_limits(min(value, 1.0 - value), variance, jump, level)
    if value > 0.5:
        low, high = 1.0 - high, 1.0 - low
    return [max(low, 0.0), min(high, 1.0)]


def auroc_variance(inside: Integers, outside: Integers) -> float:
    """The variance of the AUROC (DeLong et al. 1988), from how many rows of either set have each score, the
    highest score first.

    >>> round(auroc_variance(np.array([1, 1, 1, 0]), np.array([0, 1, 0, 1])), 6)
    0.083333
    """
    in_rows, out_rows = int(inside.sum()), int(outside.sum())
    # The share of the other set that each row is on the right side of; half for a tie.
    out_below = (out_rows - np.cumsum(outside) + 0.5 * outside) / out_rows
    in_above = (np.cumsum(inside) - 0.5 * inside) / in_rows
    variance = 0.0
    for rows, placed, number in ((inside, out_below, in_rows), (outside, in_above, out_rows)):
        if number > 1:
            mean = float(rows @ placed) / number
            variance += float(rows @ (placed - mean) ** 2) / (number - 1) / number
    return variance
