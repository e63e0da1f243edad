"""How well a score tells two sets of rows apart, with intervals over the draw of both sets.

Both sets are drawn anew with replacement, each by itself; the limits are percentiles over the draws. Rows are
sorted once: a draw only counts how often each score was drawn, and every metric is a sum over those counts.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from calmix.calibration.input_checks import Integers, check_level
from calmix.calibration.ood import group_scores, metrics_of_counts

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

    def measure(inside: Integers, outside: Integers) -> dict[str, float]:
        return metrics_of_counts(
            np.bincount(inside, minlength=groups), np.bincount(outside, minlength=groups)
        )

    found: dict[str, float | list[float]] = dict(measure(in_group, out_group))
    generator = np.random.default_rng(seed)
    draws: dict[str, list[float]] = {metric: [] for metric in METRICS}
    for _ in range(repetitions):
        in_drawn = in_group[generator.integers(0, len(in_group), len(in_group))]
        out_drawn = out_group[generator.integers(0, len(out_group), len(out_group))]
        drawn = measure(in_drawn, out_drawn)
        for metric in METRICS:
            draws[metric].append(drawn[metric])
    tail = 50 * (1 - level)
    for metric in METRICS:
        found[f"{metric}_ci"] = np.percentile(draws[metric], [tail, 100 - tail]).tolist()
    return found
