"""From which probability on a label is predicted: the threshold with the highest F1 on held-out rows.

    F1(t) = 2 TP(t) / (rows with p ≥ t + rows with the label)

A threshold lies half-way between two neighbouring probabilities, so that rounding does not move a row over
it; of thresholds of equal F1 the highest. A label that no row has, or every row, says nothing about its
threshold: it stays at 0.5.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from calmix.calibration.input_checks import Floats
from calmix.calibration.multi_label.average_precision import distinct_cuts
from calmix.calibration.multi_label.multi_label_predictions import MultiLabelPredictions

DEFAULT_THRESHOLD = 0.5


def best_threshold(probabilities: npt.ArrayLike, positive: npt.ArrayLike) -> float | None:
    """The threshold of the highest F1; None where no row has the label, or every row.

    >>> best_threshold([0.9, 0.4, 0.3, 0.1], [1, 1, 0, 0])
    0.35
    """
    scores, has_it = np.asarray(probabilities, dtype=np.float64), np.asarray(positive).astype(np.bool_)
    if has_it.all() or not has_it.any():
        return None
    cuts, found, taken = distinct_cuts(scores, has_it)
    best = int((2 * found / (taken + has_it.sum())).argmax())
    below = cuts[best + 1] if best + 1 < len(cuts) else 0.0
    return float((cuts[best] + below) / 2)


def best_thresholds(predictions: MultiLabelPredictions) -> dict[str, float]:
    """Of every label, by its name."""
    probabilities = predictions.probabilities()
    found = [
        best_threshold(probabilities[:, place], predictions.targets[:, place])
        for place in range(predictions.labels)
    ]
    return {
        name: DEFAULT_THRESHOLD if one is None else one
        for name, one in zip(predictions.label_names, found, strict=True)
    }


def threshold_array(thresholds: Mapping[str, float] | None, label_names: tuple[str, ...]) -> Floats:
    """[K], in the order of the labels; those that are not named have 0.5.

    >>> threshold_array({"b": 0.2}, ("a", "b")).tolist()
    [0.5, 0.2]
    """
    known = thresholds or {}
    return np.array([float(known.get(name, DEFAULT_THRESHOLD)) for name in label_names])
