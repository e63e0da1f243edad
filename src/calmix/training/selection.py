"""What is measured after every epoch. `epoch_rules` says by which of it the epoch is kept."""

from __future__ import annotations

import warnings
from typing import Any, cast

import numpy as np

from calmix.calibration.calibrators.temperature import TemperatureScaling
from calmix.calibration.metrics.agreement import matthews_correlation
from calmix.calibration.metrics.binning import Closed
from calmix.calibration.metrics.errors import expected_calibration_error
from calmix.calibration.predictions import Predictions
from calmix.user_error import UserError, argument

SELECTION_METRIC = "nll_calibrated"


def epoch_metrics(output: Any, *, bins: int = 15, closed: str = "right") -> dict[str, float]:
    """A `compute_metrics` for `transformers.Trainer`; the ECE has the bins of the run."""
    logits = output.predictions[0] if isinstance(output.predictions, tuple) else output.predictions
    if not np.isfinite(logits).all():
        raise UserError(
            "training diverged: the logits are not finite", remedy=f"lower {argument('learning_rate')}"
        )
    predictions = Predictions.from_logits(np.asarray(logits), np.asarray(output.label_ids))
    with warnings.catch_warnings():
        # An early epoch may well sit at a bound; the fit that counts, at the end, does say so.
        warnings.simplefilter("ignore")
        scaling = TemperatureScaling().fit(predictions.values, predictions.labels)
    return {
        "accuracy": float(predictions.correct().mean()),
        "mcc": matthews_correlation(predictions.values.argmax(axis=1), predictions.labels),
        "nll": scaling.nll_before_,
        SELECTION_METRIC: scaling.nll_after_,
        "temperature": scaling.temperature_,
        # Reported, never chosen by.
        "ece": expected_calibration_error(
            predictions.confidence(), predictions.correct(), bins=bins, closed=cast(Closed, closed)
        ),
    }
