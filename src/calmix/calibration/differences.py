"""Two models on the same rows: the difference of every metric, with its paired interval."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from calmix.calibration.class_names import DifferentClasses, are_numbered
from calmix.calibration.evaluation import Measured, RunningEvaluation
from calmix.calibration.input_checks import check_confidence, check_correct, check_level
from calmix.calibration.metrics.binning import Closed, check_bins
from calmix.calibration.predictions import Notion, Predictions
from calmix.calibration.uncertainty.confidence_sample import ConfidenceSample
from calmix.calibration.uncertainty.measured_value import difference_limits
from calmix.calibration.uncertainty.views.binary import NOTION_ERRORS, BinaryView

# Neither is a quality that one model has more of than another.
NOT_COMPARED = ("ks_p_value", "mean_confidence")

MatchedBy = Literal["row_id", "position"]


class DifferentRows(ValueError):
    """The two sets of predictions are not about the same rows; the message says how they differ."""


def match_rows(first: Predictions, second: Predictions) -> tuple[Predictions, MatchedBy]:
    """`second` in the order of `first`: its classes by name, its rows by row id where both have ids, else by
    position.

    >>> first = Predictions.from_logits([[1, 0], [0, 1]], [0, 1], ids=["a", "b"])
    >>> second = Predictions.from_logits([[0, 2], [2, 0]], [1, 0], ids=["b", "a"])
    >>> matched, how = match_rows(first, second)
    >>> matched.ids.tolist(), matched.values.tolist(), how
    (['a', 'b'], [[2.0, 0.0], [0.0, 2.0]], 'row_id')
    """
    second = match_classes(second, first.class_names)
    if len(first) != len(second):
        raise DifferentRows(f"{len(first)} and {len(second)} rows")
    how: MatchedBy = "position"
    if first.ids is not None and second.ids is not None:
        how = "row_id"
        if not np.array_equal(first.ids, second.ids):
            second = second.select(_order_of(first.ids, second.ids))
    differing = np.flatnonzero(first.labels != second.labels)
    if differing.size:
        row = int(differing[0])
        name = f"row {row + 1}" if first.ids is None else f"row {str(first.ids[row])!r}"
        raise DifferentRows(
            f"the labels differ in {differing.size} rows, first in {name}: "
            f"{first.labels[row]} and {second.labels[row]}"
        )
    return second, how


def match_classes(predictions: Predictions, class_names: tuple[str, ...]) -> Predictions:
    """The predictions with their classes in this order. Classes that are numbered on one side only are taken
    as they stand: the labels of the rows still have to agree.

    >>> given = Predictions.from_logits([[1.0, 2.0]], [0], class_names=["dog", "cat"])
    >>> match_classes(given, ("cat", "dog")).values.tolist()
    [[2.0, 1.0]]
    """
    if len(class_names) != predictions.classes:
        raise DifferentRows(f"{len(class_names)} and {predictions.classes} classes")
    try:
        return predictions.with_class_order(class_names)
    except DifferentClasses as different:
        if are_numbered(class_names) or are_numbered(predictions.class_names):
            return predictions
        raise DifferentRows(str(different)) from None


def _order_of(wanted: npt.NDArray[np.str_], given: npt.NDArray[np.str_]) -> npt.NDArray[np.intp]:
    """The places in `given` of the ids `wanted`."""
    order = np.argsort(given, kind="stable")
    ordered = given[order]
    if (ordered[1:] == ordered[:-1]).any():
        raise DifferentRows("row ids occur more than once, and are in different orders")
    place = np.minimum(np.searchsorted(ordered, wanted), len(ordered) - 1)
    missing = np.flatnonzero(ordered[place] != wanted)
    if missing.size:
        raise DifferentRows(
            f"{missing.size} row ids of the first are not in the second, as {str(wanted[missing[0]])!r}"
        )
    return order[place]


def paired_differences(
    first: Predictions,
    second: Predictions,
    *,
    bins: int | Sequence[int] = 15,
    closed: Closed = "right",
    notion: Notion = "top_label",
    seed: int = 0,
) -> dict[str, dict[str, Any]]:
    """First minus second, of every metric: `{"ece": {"difference": x, "ci": [low, high]}, ...}`.

    The interval is that of the true difference, from what the two models do on the same rows, so that
    what is hard for both drops out; one that leaves out 0 says that they differ. Like those of a single
    model, intervals of calibration errors are freed of the plug-ins' bias, and need not lie around the
    plain difference.

    >>> first = Predictions.from_probabilities([[0.9, 0.1], [0.8, 0.2]], [0, 0])
    >>> found = paired_differences(first, first)
    >>> found["brier"]
    {'difference': 0.0, 'ci': [0.0, 0.0]}
    """
    matched, _ = match_rows(first, second)
    measured = []
    for predictions in (first, matched):
        evaluation = RunningEvaluation(bins=bins, closed=closed, notion=notion)
        evaluation.update(predictions)
        measured.append(evaluation.measure(seed, noise_floor=False))
    return measured_differences(measured[0], measured[1], seed=seed)


def calibration_error_difference(
    first: tuple[npt.ArrayLike, npt.ArrayLike],
    second: tuple[npt.ArrayLike, npt.ArrayLike],
    metric: str = "ece",
    *,
    bins: int = 15,
    closed: Closed = "right",
    level: float = 0.95,
    seed: int = 0,
) -> tuple[float, float]:
    """Limits of one calibration error of (confidence, correct) minus that of another pair on the same rows.

    >>> correct = [1] * 60 + [0] * 40
    >>> low, high = calibration_error_difference(([0.9] * 100, correct), ([0.6] * 100, correct))
    >>> low < 0.3 < high
    True
    """
    check_bins(bins, closed)
    check_level(level)
    if metric not in NOTION_ERRORS:
        raise ValueError(f"metric must be one of {', '.join(NOTION_ERRORS)}, not {metric!r}")
    found = []
    for confidence, correct in (first, second):
        sure = check_confidence(confidence)
        sample = ConfidenceSample.pack(sure, check_correct(correct, rows=len(sure)))
        found.append(BinaryView(sample, bins=bins, closed=closed))
    if len(found[0].sample) != len(found[1].sample):
        raise DifferentRows(f"{len(found[0].sample)} and {len(found[1].sample)} rows")
    return difference_limits(found[0].statistic(metric), found[1].statistic(metric), seed, level)


def measured_differences(first: Measured, second: Measured, *, seed: int) -> dict[str, dict[str, Any]]:
    """First minus second of two evaluations that took the same rows in the same order."""
    values, statistics, _ = first
    other_values, other_statistics, _ = second
    found: dict[str, dict[str, Any]] = {}
    for name, value in values.items():
        if name in NOT_COMPARED:
            continue
        found[name] = {"difference": value - other_values[name]}
        if name in statistics and name in other_statistics:
            found[name]["ci"] = list(difference_limits(statistics[name], other_statistics[name], seed))
    return found
