"""Calibration metrics as scikit-learn scorers, for `cross_validate`, `GridSearchCV` and the like.

    cross_validate(model, X, y, scoring=calibration_scorers())
    GridSearchCV(model, grid, scoring=CalibrationScorer("nll"))

As everywhere in scikit-learn greater is better, so a scorer gives the negative of its metric and its name
begins with `neg_`. The calibration errors are those of the predicted label. Choose models by `neg_nll` or
`neg_brier`: a calibration error alone is least for a model that says nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from calmix.calibration.input_checks import Floats, Integers, check_weights
from calmix.calibration.metrics.binning import BinSums, Closed, check_bins, equal_mass_sums, equal_width_sums
from calmix.calibration.metrics.errors import (
    classwise_calibration_error,
    expected_error,
    maximum_error,
    overconfidence,
)
from calmix.calibration.metrics.risk_coverage import (
    area_under_generalised_risk_coverage,
    area_under_risk_coverage,
)
from calmix.calibration.metrics.scores import brier_rows, log_loss_rows, weighted_mean
from calmix.calibration.metrics.smooth import smooth_calibration_error
from calmix.calibration.predictions import Predictions

# A measure takes predictions, bins, closed and weights.
Measure = Callable[[Predictions, int, Closed, Floats | None], float]


def _equal_width(metric: Callable[[BinSums], float]) -> Measure:
    def measure(predictions: Predictions, bins: int, closed: Closed, weights: Floats | None) -> float:
        confidence, correct = predictions.confidence(), predictions.correct()
        return metric(equal_width_sums(confidence, correct, bins=bins, closed=closed, weights=weights))

    return measure


def _adaptive(predictions: Predictions, bins: int, closed: Closed, weights: Floats | None) -> float:
    confidence, correct = predictions.confidence(), predictions.correct()
    return expected_error(equal_mass_sums(confidence, correct, bins=bins, weights=weights))


def _classwise(predictions: Predictions, bins: int, closed: Closed, weights: Floats | None) -> float:
    probabilities, labels = predictions.probabilities(), predictions.labels
    return classwise_calibration_error(probabilities, labels, bins=bins, closed=closed, weights=weights)


def _smooth(predictions: Predictions, bins: int, closed: Closed, weights: Floats | None) -> float:
    return smooth_calibration_error(predictions.confidence(), predictions.correct(), weights=weights)


def _row_mean(rows: Callable[[Predictions], Floats]) -> Measure:
    return lambda predictions, bins, closed, weights: weighted_mean(rows(predictions), weights)


def _ranked(area: Callable[[npt.ArrayLike, npt.ArrayLike], float]) -> Measure:
    def measure(predictions: Predictions, bins: int, closed: Closed, weights: Floats | None) -> float:
        if weights is not None:
            raise ValueError("metrics that rank rows take no sample weights")
        return area(predictions.confidence(), predictions.correct())

    return measure


MEASURES: dict[str, Measure] = {
    "ece": _equal_width(expected_error),
    "mce": _equal_width(maximum_error),
    "oe": _equal_width(overconfidence),
    "adaptive_ece": _adaptive,
    "classwise_ece": _classwise,
    "smooth_ece": _smooth,
    "nll": _row_mean(log_loss_rows),
    "brier": _row_mean(brier_rows),
    "aurc": _ranked(area_under_risk_coverage),
    "augrc": _ranked(area_under_generalised_risk_coverage),
}


@dataclass(frozen=True)
class CalibrationScorer:
    """A scorer `(estimator, X, y) -> -metric` for any classifier with `predict_proba`.

    >>> from sklearn.dummy import DummyClassifier
    >>> model = DummyClassifier(strategy="prior").fit([[0], [0], [0], [0]], ["yes", "yes", "yes", "no"])
    >>> CalibrationScorer("ece")(model, [[0], [0]], ["yes", "no"])
    -0.25
    """

    metric: str
    bins: int = 15
    closed: Closed = "right"

    def __post_init__(self) -> None:
        if self.metric not in MEASURES:
            raise ValueError(f"metric must be one of {', '.join(MEASURES)}, not {self.metric!r}")
        check_bins(self.bins, self.closed)

    def __call__(
        self, estimator: Any, X: Any, y: npt.ArrayLike, sample_weight: npt.ArrayLike | None = None
    ) -> float:
        probabilities = np.asarray(estimator.predict_proba(X))
        labels = class_indices(y, np.asarray(estimator.classes_))
        predictions = Predictions.from_probabilities(probabilities, labels)
        weights = check_weights(sample_weight, rows=len(predictions))
        return -MEASURES[self.metric](predictions, self.bins, self.closed, weights)


def calibration_scorers(*, bins: int = 15, closed: Closed = "right") -> dict[str, CalibrationScorer]:
    """All scorers by name, `neg_` before each, for `scoring=`.

    >>> list(calibration_scorers())[:2]
    ['neg_ece', 'neg_mce']
    """
    return {f"neg_{metric}": CalibrationScorer(metric, bins, closed) for metric in MEASURES}


def class_indices(labels: npt.ArrayLike, classes: npt.NDArray[Any]) -> Integers:
    """The column of each label in `classes`, which scikit-learn keeps sorted.

    >>> class_indices(["b", "a", "b"], np.array(["a", "b"])).tolist()
    [1, 0, 1]
    """
    gold = np.asarray(labels)
    found = np.minimum(np.searchsorted(classes, gold), len(classes) - 1)
    unknown = classes[found] != gold
    if unknown.any():
        # A class that was missing when the model was fitted has no probability, and none is made up.
        raise ValueError(f"label '{gold[unknown][0]}' is not among the classes the estimator was fitted on")
    return found.astype(np.int64)
