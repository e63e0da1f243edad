"""Groups of rows: every metric for each value of a column, and the worst one.

A model that is calibrated on average may be overconfident for one region, language or source. Each slice gets
the metrics of `evaluate` with their intervals, and two tests:

    accuracy       Fisher's exact test: are the rows of the slice right less (or more) often than all others?
                   Weighted rows count as their effective number, (Σ v)² / Σ v², of equal weight; a soft
                   label is right with the share of the predicted class
    calibration    the KS calibration test of the rows of the slice, with their weights. A soft label varies
                   less than the hard one that the test expects, so that it finds fewer slices than it
                   could, never more than it should

With many slices some look bad by chance, so both p-values are corrected for the number of slices (Holm).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from scipy.stats import fisher_exact

from calmix.calibration.evaluation import evaluate
from calmix.calibration.metrics.kolmogorov import kolmogorov_of_sorted
from calmix.calibration.predictions import Predictions
from calmix.calibration.uncertainty.multiplicity import holm

if TYPE_CHECKING:
    from calmix.calibration.fit_uncertainty import FitUncertainty

MISSING = "(missing)"
MOST_SLICES = 100
LEVEL = 0.05


@dataclass(frozen=True)
class Slice:
    """The rows that share one value of a column."""

    value: str
    metrics: dict[str, Any]
    accuracy_p: float
    calibration_p: float
    """Both corrected for the number of slices."""

    @property
    def n(self) -> int:
        return int(self.metrics["n"])

    @property
    def confidence_gap(self) -> float:
        """Mean confidence minus accuracy: above 0 the slice is overconfident."""
        return float(self.metrics["confidence_gap"])

    def as_dict(self) -> dict[str, Any]:
        return {
            "value": self.value,
            **self.metrics,
            "accuracy_p_holm": self.accuracy_p,
            "calibration_p_holm": self.calibration_p,
        }


@dataclass(frozen=True)
class Slices:
    """All slices of one column, the largest first."""

    column: str
    slices: tuple[Slice, ...]
    accuracy: float
    """Of all rows."""

    def least_accurate(self) -> Slice | None:
        """The slice with the lowest accuracy among those that are significantly below the other rows."""
        found = [s for s in self.slices if s.accuracy_p < LEVEL and s.metrics["accuracy"] < self.accuracy]
        return min(found, key=lambda s: float(s.metrics["accuracy"]), default=None)

    def least_calibrated(self) -> Slice | None:
        """The slice with the largest gap of confidence and accuracy among those that fail the KS test."""
        found = [s for s in self.slices if s.calibration_p < LEVEL]
        return max(found, key=lambda s: abs(s.confidence_gap), default=None)

    def explain(self) -> list[str]:
        """What stands out, in sentences."""
        count = f"{len(self.slices)} values of {self.column!r}, Holm-corrected"
        lines = []
        if (worst := self.least_accurate()) is not None:
            lines.append(
                f"{worst.value!r} is predicted worst: accuracy {worst.metrics['accuracy']:.1%} against "
                f"{self.accuracy:.1%} overall (n = {worst.n}, p = {worst.accuracy_p:.2g}, {count})"
            )
        if (worst := self.least_calibrated()) is not None:
            what = "overconfident" if worst.confidence_gap > 0 else "underconfident"
            lines.append(
                f"{worst.value!r} is calibrated worst: {what} by {abs(worst.confidence_gap):.1%} "
                f"(n = {worst.n}, p = {worst.calibration_p:.2g}, {count})"
            )
        return lines or [f"no slice differs significantly in accuracy or calibration ({count})"]

    def as_dict(self) -> dict[str, Any]:
        worst = {"accuracy": self.least_accurate(), "calibration": self.least_calibrated()}
        return {
            "column": self.column,
            "slices": [one.as_dict() for one in self.slices],
            "worst": {name: None if found is None else found.value for name, found in worst.items()},
            "sentences": self.explain(),
        }


def evaluate_slices(
    predictions: Predictions,
    values: Sequence[Any] | npt.NDArray[Any],
    *,
    column: str = "slice",
    fit: tuple[FitUncertainty, Predictions] | None = None,
    **settings: Any,
) -> Slices:
    """The metrics of the rows of each value; `settings` are those of `evaluate`.

    `fit`: how uncertain the calibrator of the predictions is, and the rows before it; the intervals then
    include it.

    >>> scores = [[0.9, 0.1], [0.9, 0.1], [0.2, 0.8], [0.2, 0.8]]
    >>> predictions = Predictions.from_probabilities(scores, [0, 1, 1, 1])
    >>> found = evaluate_slices(predictions, ["web", "web", "shop", None], intervals=False)
    >>> [(one.value, one.n, one.metrics["accuracy"]) for one in found.slices]
    [('web', 2, 0.5), ('(missing)', 1, 1.0), ('shop', 1, 1.0)]
    """
    if len(values) != len(predictions):
        raise ValueError(f"{len(values)} values of {column!r} for {len(predictions)} rows")
    names = np.array([value_name(value) for value in values])
    before = None if fit is None or not settings.get("intervals", True) else fit[1]
    asked = {name: value for name, value in settings.items() if name != "intervals"}
    if predictions.weights is not None:  # a row of weight 0 is none, and nor is a slice of such rows
        counted = np.flatnonzero(predictions.weights)
        names, predictions = names[counted], predictions.select(counted)
        before = None if before is None else before.select(counted)
    found, counts = np.unique(names, return_counts=True)
    if len(found) > MOST_SLICES:
        raise ValueError(
            f"{column!r} has {len(found)} values, more than {MOST_SLICES}: too many to test; group them first"
        )
    order = np.argsort(-counts, kind="stable")
    measured, accuracy_p, calibration_p = [], [], []
    for name in found[order]:
        inside = np.flatnonzero(names == name)
        rows, others = predictions.select(inside), predictions.select(np.flatnonzero(names != name))
        metrics = evaluate(rows, **settings)
        if fit is not None and before is not None:
            metrics = fit[0].widened(metrics, before.select(inside), **asked)
        measured.append(metrics)
        accuracy_p.append(_difference_p(rows, others))
        calibration_p.append(_calibration_p(rows))
    corrected = zip(holm(accuracy_p), holm(calibration_p), strict=True)
    slices = tuple(
        Slice(str(name), metrics, *p_values)
        for name, metrics, p_values in zip(found[order], measured, corrected, strict=True)
    )
    return Slices(column, slices, float(np.average(_share_correct(predictions), weights=predictions.weights)))


def value_name(value: Any) -> str:
    """
    >>> value_name(3), value_name(None), value_name(float("nan")), value_name(" ")
    ('3', '(missing)', '(missing)', '(missing)')
    """
    if value is None or value != value:  # NaN is not itself
        return MISSING
    return str(value).strip() or MISSING


def _share_correct(predictions: Predictions) -> npt.NDArray[np.float64]:
    """Of every row, the share of its label that the prediction has: 0 or 1 where labels are hard."""
    shares: npt.NDArray[np.float64] = predictions.soft_targets()[
        np.arange(len(predictions)), predictions.predicted()
    ]
    return shares


def _calibration_p(predictions: Predictions) -> float:
    confidence = predictions.confidence()
    order = np.argsort(confidence, kind="stable")
    weights = None if predictions.weights is None else predictions.weights[order]
    return kolmogorov_of_sorted(confidence[order], _share_correct(predictions)[order], weights).p_value


def _difference_p(inside: Predictions, others: Predictions) -> float:
    if not len(others):
        return 1.0
    return float(fisher_exact([_right_and_wrong(inside), _right_and_wrong(others)]).pvalue)


def _right_and_wrong(predictions: Predictions) -> tuple[int, int]:
    """Among as many rows of equal weight as say as much."""
    weights = np.ones(len(predictions)) if predictions.weights is None else predictions.weights
    effective = float(weights.sum() ** 2 / (weights**2).sum())
    right = round(effective * float(np.average(_share_correct(predictions), weights=weights)))
    return right, round(effective) - right
