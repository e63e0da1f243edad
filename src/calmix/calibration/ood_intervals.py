"""How well a score tells two sets of rows apart, with intervals over the draw of both sets.

Both sets are drawn anew with replacement, each by itself; the limits are percentiles over the draws. Rows are
sorted once: a draw only counts how often each score was drawn, and every metric is a sum over those counts.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from calmix.calibration.input_checks import Floats, Integers, check_fraction
from calmix.calibration.ood import TRUE_POSITIVE_RATE, check_scores

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
    check_fraction(level, name="level")
    inside, outside = check_scores(in_scores, out_scores)
    # Groups of equal scores, the highest first.
    values, group = np.unique(-np.concatenate([inside, outside]), return_inverse=True)
    in_group, out_group = group[: len(inside)], group[len(inside) :]
    groups = len(values)
    found: dict[str, float | list[float]] = dict(
        _metrics(np.bincount(in_group, minlength=groups), np.bincount(out_group, minlength=groups))
    )
    generator = np.random.default_rng(seed)
    draws: dict[str, list[float]] = {metric: [] for metric in METRICS}
    for _ in range(repetitions):
        in_drawn = in_group[generator.integers(0, len(inside), len(inside))]
        out_drawn = out_group[generator.integers(0, len(outside), len(outside))]
        drawn = _metrics(np.bincount(in_drawn, minlength=groups), np.bincount(out_drawn, minlength=groups))
        for metric in METRICS:
            draws[metric].append(drawn[metric])
    tail = 50 * (1 - level)
    for metric in METRICS:
        found[f"{metric}_ci"] = np.percentile(draws[metric], [tail, 100 - tail]).tolist()
    return found


def _metrics(inside: Integers, outside: Integers) -> Mapping[str, float]:
    """From how many rows of either set have each score, the highest score first."""
    in_rows, out_rows = int(inside.sum()), int(outside.sum())
    in_above, out_above = np.cumsum(inside), np.cumsum(outside)
    # A row meets those below it, and half of those at its own score.
    out_below: Floats = out_rows - out_above + 0.5 * outside
    auroc = float(inside @ out_below) / (in_rows * out_rows)
    precision_in = in_above / np.maximum(in_above + out_above, 1)
    in_least, out_least = in_rows - in_above + inside, out_rows - out_above + outside
    precision_out = out_least / np.maximum(in_least + out_least, 1)
    # 0.05 * 20 is 1 but for the last bit, which must not cost a row.
    kept = in_rows - int(np.floor((1.0 - TRUE_POSITIVE_RATE) * in_rows + 1e-9))
    threshold = int(np.searchsorted(in_above, kept))
    return {
        "auroc": auroc,
        "aupr_in": float(inside @ precision_in) / in_rows,
        "aupr_out": float(outside @ precision_out) / out_rows,
        "fpr95": float(out_above[threshold]) / out_rows,
    }
