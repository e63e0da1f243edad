"""Groups of rows: every metric for each value of a column, and the worst one.

A model that is calibrated on average may be overconfident for one region, language or source. Each slice gets
the metrics of `evaluate` with their intervals, and two tests:

    accuracy       Fisher's exact test: are the rows of the slice right less (or more) often than all others?
    calibration    the KS calibration test of the slice's own rows

With many slices some look bad by chance, so both p-values are corrected for the number of slices (Holm).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.stats import fisher_exact

from calmix.calibration.evaluation import evaluate
from calmix.calibration.metrics.kolmogorov import ks_calibration_test
from calmix.calibration.predictions import Predictions
from calmix.calibration.uncertainty.multiplicity import holm

MISSING = "(missing)"
MOST_SLICES = 100
LEVEL = 0.05


@dataclass(frozen=True)
class Slice:
    """The rows that share one value of a column."""

    value: str
    metrics: dict[str, Any]
    confidence_gap: float
    """Mean confidence minus accuracy: above 0 the slice is overconfident."""
    accuracy_p: float
    calibration_p: float
    """Both corrected for the number of slices."""

    @property
    def n(self) -> int:
        return int(self.metrics["n"])

    def as_dict(self) -> dict[str, Any]:
        return {
            "value": self.value,
            **self.metrics,
            "confidence_gap": self.confidence_gap,
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
    **settings: Any,
) -> Slices:
    """The metrics of the rows of each value; `settings` are those of `evaluate`.

    >>> scores = [[0.9, 0.1], [0.9, 0.1], [0.2, 0.8], [0.2, 0.8]]
    >>> predictions = Predictions.from_probabilities(scores, [0, 1, 1, 1])
    >>> found = evaluate_slices(predictions, ["web", "web", "shop", None], intervals=False)
    >>> [(one.value, one.n, one.metrics["accuracy"]) for one in found.slices]
    [('web', 2, 0.5), ('(missing)', 1, 1.0), ('shop', 1, 1.0)]
    """
    if len(values) != len(predictions):
        raise ValueError(f"{len(values)} values of {column!r} for {len(predictions)} rows")
    names = np.array([value_name(value) for value in values])
    found, counts = np.unique(names, return_counts=True)
    if len(found) > MOST_SLICES:
        raise ValueError(
            f"{column!r} has {len(found)} values, more than {MOST_SLICES}: too many to test; group them first"
        )
    order = np.argsort(-counts, kind="stable")
    correct, confidence = predictions.correct(), predictions.confidence()
    measured, gaps, accuracy_p, calibration_p = [], [], [], []
    for name in found[order]:
        inside = names == name
        measured.append(evaluate(predictions.select(np.flatnonzero(inside)), **settings))
        gaps.append(float(confidence[inside].mean() - correct[inside].mean()))
        accuracy_p.append(_difference_p(correct[inside], correct[~inside]))
        calibration_p.append(ks_calibration_test(confidence[inside], correct[inside]).p_value)
    corrected = zip(holm(accuracy_p), holm(calibration_p), strict=True)
    slices = tuple(
        Slice(str(name), metrics, gap, *p_values)
        for name, metrics, gap, p_values in zip(found[order], measured, gaps, corrected, strict=True)
    )
    return Slices(column, slices, float(correct.mean()))


def value_name(value: Any) -> str:
    """
    >>> value_name(3), value_name(None), value_name(float("nan")), value_name(" ")
    ('3', '(missing)', '(missing)', '(missing)')
    """
    if value is None or value != value:  # NaN is not itself
        return MISSING
    return str(value).strip() or MISSING


def _difference_p(inside: npt.NDArray[np.bool_], others: npt.NDArray[np.bool_]) -> float:
    if not len(others):
        return 1.0
    table = [[part.sum(), len(part) - part.sum()] for part in (inside, others)]
    return float(fisher_exact(table).pvalue)
