"""What a calibrator does to rows that it was not fitted on.

Metrics of the fitting rows are optimistic; metrics of other rows are not. Where there are no others,
the fit is repeated on four fifths of the rows and measured on the last fifth, five times over.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
from sklearn.base import clone

from calmix.calibration.calibrators.calibrator import Calibrator
from calmix.calibration.calibrators.folds import FOLDS, fold_of_row
from calmix.calibration.differences import paired_differences
from calmix.calibration.evaluation import evaluate
from calmix.calibration.fit_uncertainty import FitUncertainty
from calmix.calibration.predictions import Predictions
from calmix.calibration.weighted_evaluation import nll_difference

FEWEST_ROWS = 10
SAME_SCORE = 1e-4

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
        """Ready for JSON: `measured`, all metrics under `before` and `after`, and how the NLL changed."""
        before, after = (evaluate(one, **self.binning) for one in (self.before, self.after))
        if self.fit is not None:
            after = self.fit.widened(after, self.before, **self.binning)
        if self.before_in_sample:
            before["in_sample"] = True
        if self.before.is_weighted:
            difference = nll_difference(self.after, self.before)
        else:
            difference = paired_differences(self.after, self.before, **self.binning)["nll"]
        return {"measured": self.measured, "before": before, "after": after, "nll_difference": difference}


def cross_validated(calibrator: Calibrator, predictions: Predictions) -> HeldOut | None:
    """Every row calibrated by a fit on the other folds; None with too few rows to repeat the fit."""
    if predictions.weights is not None:
        predictions = predictions.select(predictions.weights > 0)  # a row of weight 0 is no row
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
    return HeldOut("cross-validated", predictions, replace(predictions, values=logits, kind="logits"))


def are_same_rows(one: Predictions, other: Predictions) -> bool:
    """Whether two sets of predictions are about the same rows, in any order: equal labels and scores, up to
    what another precision or another batch makes of the same inputs."""
    if one.values.shape != other.values.shape:
        return False
    first, second = (rows.select(np.lexsort((*rows.values.T, rows.labels))) for rows in (one, other))
    are_close = np.allclose(first.values, second.values, rtol=SAME_SCORE, atol=SAME_SCORE)
    return are_close and np.array_equal(first.labels, second.labels)
