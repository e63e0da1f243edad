"""One label as a problem of two classes: log loss, Brier score and ECE, with intervals.

The numbers are those of `evaluate` with the notion `positive`, of which only these are measured: there may be
hundreds of labels. The noise floor is that of the bins' sums.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from calmix.calibration.input_checks import Floats
from calmix.calibration.metrics.binning import Closed
from calmix.calibration.metrics.errors import expected_error
from calmix.calibration.metrics.scores import squared_errors
from calmix.calibration.predictions import Predictions
from calmix.calibration.uncertainty.confidence_sample import ConfidenceSample
from calmix.calibration.uncertainty.error_costs import costs_of_errors, square_costs
from calmix.calibration.uncertainty.measured_value import SmoothStatistic
from calmix.calibration.uncertainty.noise_floor import noise_floor_of_sums
from calmix.calibration.uncertainty.random_groups import GROUPS, add_rows, deal_rows
from calmix.calibration.uncertainty.views.binary import BinaryView


def measure_label(
    predictions: Predictions, *, bins: tuple[int, ...], closed: Closed, intervals: bool, seed: int
) -> dict[str, Any]:
    """Of predictions of two classes, the second of which is to have the label.

    >>> given = Predictions.from_probabilities([0.8, 0.4], [1, 0])
    >>> found = measure_label(given, bins=(1,), closed="right", intervals=False, seed=0)
    >>> round(found["brier"], 4), round(found["ece"], 4)
    (0.1, 0.1)
    """
    probabilities = np.minimum(predictions.probabilities(), 1.0)
    log_loss = -predictions.gold_log_probability()
    # Of two classes both terms of the Brier score are the same square.
    squared = squared_errors(probabilities, predictions.labels) / 2
    found: dict[str, Any] = {"nll": float(log_loss.mean()), "brier": float(squared.mean())}
    if intervals:
        found |= _score_limits(predictions, probabilities, log_loss, squared, seed)
    sample = ConfidenceSample.pack(probabilities[:, 1].copy(), predictions.labels == 1)
    for place, count in enumerate(bins):
        name = f"ece_{count}_bins" if place else "ece"
        view = BinaryView(sample, bins=count, closed=closed)
        found[name] = expected_error(view.width_sums)
        if intervals:
            interval = view.statistic("ece").interval(seed)
            found[f"{name}_ci"] = [interval.low, interval.high]
            floor = noise_floor_of_sums(view.width_sums, seed=seed)
            found |= {f"{name}_noise_floor": floor.mean, f"{name}_noise_floor_p95": floor.p95}
            if not place:
                found["ece_corrected"] = interval.corrected
    return found


def _score_limits(
    predictions: Predictions, probabilities: Floats, log_loss: Floats, squared: Floats, seed: int
) -> dict[str, list[float]]:
    dealt = deal_rows(0, len(predictions))
    correct = predictions.correct()
    log_added, squared_added = costs_of_errors(probabilities, predictions.labels, correct, log_loss)
    asked, log_costs, squared_costs = square_costs(predictions)
    rows = np.bincount(dealt, minlength=GROUPS).astype(np.float64)

    def limits(per_row: Floats, added: Floats, jump: float, high: float) -> list[float]:
        grouped, errors = add_rows(dealt, np.column_stack([per_row, added])).T
        made = SmoothStatistic(float(per_row.mean()), grouped, rows, added=errors, jump=jump, high=high)
        return list(made.limits(seed))

    return {
        "nll_ci": limits(log_loss, log_added, float(np.sqrt(log_costs / asked)), np.inf),
        "brier_ci": limits(squared, squared_added / 2, float(np.sqrt(squared_costs / asked)) / 2, 1.0),
    }
