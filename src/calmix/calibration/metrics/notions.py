"""The three notions of calibration, named in the call and never guessed.

top_label   the confidence of the predicted label, against whether it is right
positive    the probability of the second of two classes, against whether the label is that class
classwise   every class's probability against whether the label is that class, averaged over classes
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from calmix.calibration.input_checks import Floats, Integers, check_weights
from calmix.calibration.metrics.binning import Closed, assign_bins, binned_error, check_bins
from calmix.calibration.metrics.class_bins import sum_classes
from calmix.calibration.metrics.scores import as_predictions
from calmix.calibration.predictions import Notion, Predictions

# Rows taken at a time: their scores stay in the processor's cache between the passes over them.
BLOCK_VALUES = 1 << 16
FEW_CLASSES = 64


def calibration_error(
    scores: npt.ArrayLike,
    labels: npt.ArrayLike,
    *,
    from_logits: bool,
    notion: Notion = "top_label",
    bins: int = 15,
    closed: Closed = "right",
    weights: npt.ArrayLike | None = None,
    class_names: Sequence[Any] | None = None,
) -> float:
    """The ECE of one notion from an [n, C] array of logits or probabilities.

    >>> scores, labels = [[0.75, 0.25], [0.25, 0.75]], [0, 0]
    >>> [calibration_error(scores, labels, from_logits=False, notion=notion, bins=1)
    ...  for notion in ("top_label", "positive", "classwise")]
    [0.25, 0.5, 0.5]
    """
    check_bins(bins, closed)
    predictions = as_predictions(scores, labels, from_logits=from_logits, class_names=class_names)
    weight = check_weights(weights, rows=len(predictions))
    total = float(len(predictions) if weight is None else weight.sum())
    if notion == "classwise":
        sums = sum_classes(predictions.probabilities(), predictions.labels, bins, closed, weight)
        return sums.expected_error()
    residual = np.zeros(bins)
    step = max(BLOCK_VALUES // predictions.classes, 1)
    for start in range(0, len(predictions), step):
        block = predictions.rows(start, start + step)
        confidence, came_true = confidence_and_outcome(block, notion)
        difference = came_true - confidence
        if weight is not None:
            difference *= weight[start : start + step]
        residual += np.bincount(assign_bins(confidence, bins, closed), weights=difference, minlength=bins)
    return float(binned_error(residual, total))


def confidence_and_outcome(predictions: Predictions, notion: Notion) -> tuple[Floats, npt.NDArray[np.bool_]]:
    """The confidence that a notion speaks of, and whether it came true, row by row."""
    if notion == "top_label":
        if predictions.kind == "probabilities":
            return top_label(predictions.values, predictions.labels)
        return predictions.confidence(), predictions.correct()
    if notion == "positive":
        if predictions.classes != 2:
            raise ValueError(f"notion 'positive' needs two classes, not {predictions.classes}")
        return np.minimum(predictions.probabilities()[:, 1], 1.0), predictions.labels == 1
    raise ValueError(f"notion must be 'top_label' or 'positive' here, not {notion!r}")


def top_label(
    probabilities: npt.NDArray[np.floating[Any]], labels: Integers
) -> tuple[Floats, npt.NDArray[np.bool_]]:
    """The largest probability of every row, and whether it is the label's (on ties the lowest class has it).

    >>> confidence, correct = top_label(np.array([[0.25, 0.75], [0.5, 0.5]]), np.array([1, 1]))
    >>> confidence.tolist(), correct.tolist()
    ([0.75, 0.5], [True, False])
    """
    rows = np.arange(len(labels))
    if probabilities.shape[1] > FEW_CLASSES:
        largest, correct = probabilities.max(axis=1), probabilities.argmax(axis=1) == labels
    else:
        # Along short rows numpy's argmax is slow; the maximum over columns is not. The label is predicted if
        # it has the largest probability, except where a lower class has it too.
        columns = np.ascontiguousarray(probabilities.T)
        largest = columns.max(axis=0)
        correct = probabilities[rows, labels] == largest
        if np.count_nonzero(columns == largest) > len(labels):
            correct = probabilities.argmax(axis=1) == labels
    return np.asarray(np.minimum(largest, 1.0), dtype=np.float64), correct
