"""A fitted calibrator applied to predictions: its classes are matched by name, and it is given logits."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from calmix.calibration.calibrators.calibrator import Calibrator
from calmix.calibration.class_names import DifferentClasses
from calmix.calibration.predictions import Predictions
from calmix.user_error import UserError


def finite_logits(predictions: Predictions) -> Predictions:
    """The predictions as finite logits. Logarithms of probabilities are logits; a class that is ruled out
    counts as the smallest probability (`Predictions.log_probabilities`).

    >>> finite_logits(Predictions.from_probabilities([[0.5, 0.5]], [0])).values.round(4).tolist()
    [[-0.6931, -0.6931]]
    """
    if predictions.kind == "logits" and np.isfinite(predictions.values).all():
        return predictions
    return replace(predictions, values=predictions.log_probabilities(), kind="logits")


def remember_classes(calibrator: Calibrator, predictions: Predictions) -> None:
    """Record the classes that a calibrator was fitted on: they are saved with it."""
    calibrator.class_names_ = list(predictions.class_names)


def calibrate_predictions(calibrator: Calibrator, predictions: Predictions) -> Predictions:
    """The calibrated predictions, classes in their own order.

    Where the calibrator knows the names of its classes (`calmix calibrate` records them), they are matched by
    name; other classes are refused with both lists.
    """
    names = tuple(getattr(calibrator, "class_names_", None) or predictions.class_names)
    try:
        ordered = finite_logits(predictions).with_class_order(names)
    except DifferentClasses as different:
        raise UserError(
            f"the calibrator was fitted on other classes: {different}",
            remedy="apply it to predictions of the same model",
        ) from None
    calibrated = replace(ordered, values=calibrator.transform(ordered.values))
    return calibrated.with_class_order(predictions.class_names)
