"""What a calibrator does to rows that it was not fitted on.

Metrics of the fitting rows are optimistic; metrics of other rows are not. Where there are no others,
the fit is repeated on four fifths of the rows and measured on the last fifth, five times over.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from sklearn.base import clone

from calmix.calibration.calibrators.calibrator import Calibrator
from calmix.calibration.calibrators.folds import FOLDS, fold_of_row
from calmix.calibration.evaluation import evaluate
from calmix.calibration.fit_uncertainty import FitUncertainty
from calmix.calibration.predictions import Predictions

FEWEST_ROWS = 10

Measured = Literal["held-out", "cross-validated"]


@dataclass(frozen=True)
class HeldOut:
    """The same rows before and after calibration, by a calibrator that has not seen them."""

    measured: Measured
    before: Predictions
    after: Predictions
    before_in_sample: bool = False
    """True where something in `before` was fitted on these rows: a run's own temperature on validation."""
    fit: FitUncertainty | None = None
    """Of the calibrator between the two, where the rows that it was fitted on are others and known."""
    binning: Mapping[str, Any] = field(default_factory=dict)
    """`bins` and `closed` of the metrics."""

    def metrics(self) -> dict[str, Any]:
        """Ready for JSON: `measured`, and all metrics under `before` and `after`."""
        before, after = (evaluate(one, **self.binning) for one in (self.before, self.after))
        if self.fit is not None:
            after = self.fit.widened(after, self.before, **self.binning)
        if self.before_in_sample:
            before["in_sample"] = True
        return {"measured": self.measured, "before": before, "after": after}


def cross_validated(calibrator: Calibrator, predictions: Predictions) -> HeldOut | None:
    """Every row calibrated by a fit on the other folds; None with too few rows to repeat the fit."""
    if len(predictions) < FEWEST_ROWS:
        return None
    fold = fold_of_row(predictions.labels, FOLDS)
    logits = np.empty(predictions.values.shape)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the fit that counts has warned already
        for number in range(FOLDS):
            known, left_out = np.flatnonzero(fold != number), np.flatnonzero(fold == number)
            fitted = clone(calibrator).fit(predictions.select(known))
            logits[left_out] = fitted.transform(predictions.select(left_out))
    after = Predictions.from_logits(
        logits, predictions.labels, ids=predictions.ids, class_names=predictions.class_names
    )
    return HeldOut("cross-validated", predictions, after)


def are_same_rows(one: Predictions, other: Predictions) -> bool:
    """Whether two sets of predictions are about the same rows: equal scores and labels in the same order."""
    return np.array_equal(one.values, other.values) and np.array_equal(one.labels, other.labels)
