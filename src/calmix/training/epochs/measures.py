"""What is measured after every epoch. `rules` says by which of it the epoch is kept."""

from __future__ import annotations

import warnings
from typing import Any, cast

import numpy as np

from calmix.calibration.calibrators.temperature import TemperatureScaling
from calmix.calibration.metrics.agreement import matthews_correlation
from calmix.calibration.metrics.binning import Closed
from calmix.calibration.metrics.errors import expected_calibration_error
from calmix.calibration.metrics.scores import weighted_mean
from calmix.calibration.multi_label.label_scaling import LabelScaling, Scaling
from calmix.calibration.multi_label.multi_label_predictions import MultiLabelPredictions
from calmix.calibration.predictions import Predictions
from calmix.training.recording import Diverged
from calmix.user_error import argument

SELECTION_METRIC = "nll_calibrated"


def epoch_metrics(
    output: Any,
    *,
    bins: int = 15,
    closed: str = "right",
    prior_shift: Any = None,
    weights: Any = None,
    targets: Any = None,
) -> dict[str, float]:
    """A `compute_metrics` for `transformers.Trainer`; the ECE has the bins of the run. `prior_shift` is what
    class weights add to the logits: an epoch is measured as it would be saved."""
    logits = finite_logits_of(output)
    logits = logits if prior_shift is None else logits - prior_shift
    predictions = Predictions.from_logits(logits, np.asarray(output.label_ids))
    predictions = predictions.with_rows(weights=weights, targets=targets)
    rows, row_weights = predictions.weighted_rows() if predictions.is_weighted else (predictions, None)
    with warnings.catch_warnings():
        # An early epoch may well sit at a bound; the fit that counts, at the end, does say so.
        warnings.simplefilter("ignore")
        scaling = TemperatureScaling().fit(rows.values, rows.labels, sample_weight=row_weights)
    return {
        "accuracy": weighted_mean(rows.correct().astype(np.float64), row_weights),
        "mcc": matthews_correlation(rows.predicted(), rows.labels, row_weights),
        "nll": scaling.nll_before_,
        SELECTION_METRIC: scaling.nll_after_,
        "temperature": scaling.temperature_,
        # Reported, never chosen by.
        "ece": expected_calibration_error(
            rows.confidence(),
            rows.correct(),
            bins=bins,
            closed=cast(Closed, closed),
            weights=row_weights,
        ),
    }


def label_epoch_metrics(
    output: Any, *, bins: int = 15, closed: str = "right", scaling: Scaling = "platt"
) -> dict[str, float]:
    """The same for rows of several labels: means over labels, and the share of rows that are all right."""
    predictions = MultiLabelPredictions.from_logits(finite_logits_of(output), np.asarray(output.label_ids))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted = LabelScaling(scaling).fit(predictions)
    probabilities = predictions.probabilities()
    errors = [
        expected_calibration_error(
            probabilities[:, place], predictions.targets[:, place], bins=bins, closed=cast(Closed, closed)
        )
        for place in range(predictions.labels)
    ]
    return {
        "subset_accuracy": float(((probabilities >= 0.5) == predictions.targets).all(axis=1).mean()),
        "nll": fitted.nll_before_,
        SELECTION_METRIC: fitted.nll_after_,
        "ece": float(np.mean(errors)),
    }


def finite_logits_of(output: Any) -> Any:
    """The logits of a prediction; a `Diverged` where they are no numbers any more."""
    logits = output.predictions[0] if isinstance(output.predictions, tuple) else output.predictions
    if not np.isfinite(logits).all():
        raise Diverged(
            "training diverged: the logits are not finite", remedy=f"lower {argument('learning_rate')}"
        )
    return np.asarray(logits)
