"""Proper scores and accuracy of `Predictions`, row by row and as (weighted) means.

    NLL   = -mean log p_y
    Brier = mean sum_k (p_k - 1[y = k])^2        between 0 and 2

scikit-learn's binary `brier_score_loss` is half of this Brier score.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from calmix.calibration.input_checks import Floats, Integers, check_weights
from calmix.calibration.metrics.binning import Closed
from calmix.calibration.metrics.class_bins import class_sums
from calmix.calibration.predictions import Predictions


def as_predictions(
    scores: npt.ArrayLike,
    labels: npt.ArrayLike,
    *,
    from_logits: bool,
    class_names: Sequence[Any] | None = None,
) -> Predictions:
    """Say what an array of scores is; nothing looks at the values to find out."""
    make = Predictions.from_logits if from_logits else Predictions.from_probabilities
    return make(scores, labels, class_names=class_names)


def log_loss_rows(predictions: Predictions) -> Floats:
    """-log p_y of every row."""
    return -predictions.gold_log_probability()


def brier_rows(predictions: Predictions) -> Floats:
    """sum_k (p_k - 1[y = k])^2 of every row."""
    return squared_errors(predictions.probabilities(), predictions.labels)


def squared_errors(probabilities: Floats, labels: Integers) -> Floats:
    """sum_k (p_k - 1[y = k])^2 of checked arrays."""
    # sum p^2 - 2 p_y + 1 would cancel where p_y is nearly 1; the label's own term is taken apart instead.
    gold = probabilities[np.arange(len(labels)), labels]
    others = np.einsum("ij,ij->i", probabilities, probabilities) - gold**2
    return np.asarray(np.maximum(others, 0.0) + (1.0 - gold) ** 2)


def weighted_mean(rows: Floats, weights: Floats | None) -> float:
    return float(rows.mean() if weights is None else rows @ weights / weights.sum())


def negative_log_likelihood(
    scores: npt.ArrayLike,
    labels: npt.ArrayLike,
    *,
    from_logits: bool,
    weights: npt.ArrayLike | None = None,
    class_names: Sequence[Any] | None = None,
) -> float:
    """Mean -log p_y, in nats. Labels may be names among `class_names`, scores [n] those of the second class.

    >>> round(negative_log_likelihood([[0.5, 0.5], [0.25, 0.75]], [0, 1], from_logits=False), 6)
    0.490415
    >>> scores, labels, names = [0.5, 0.75], ["no", "yes"], ["no", "yes"]
    >>> round(negative_log_likelihood(scores, labels, from_logits=False, class_names=names), 6)
    0.490415
    """
    predictions = as_predictions(scores, labels, from_logits=from_logits, class_names=class_names)
    return weighted_mean(log_loss_rows(predictions), check_weights(weights, rows=len(predictions)))


def brier_score(
    scores: npt.ArrayLike,
    labels: npt.ArrayLike,
    *,
    from_logits: bool,
    weights: npt.ArrayLike | None = None,
    class_names: Sequence[Any] | None = None,
) -> float:
    """Mean squared distance of the probabilities from the one-hot label, summed over classes.

    >>> brier_score([[0.5, 0.5], [1.0, 0.0]], [0, 0], from_logits=False)
    0.25
    """
    predictions = as_predictions(scores, labels, from_logits=from_logits, class_names=class_names)
    return weighted_mean(brier_rows(predictions), check_weights(weights, rows=len(predictions)))


def balanced_brier_score(
    scores: npt.ArrayLike,
    labels: npt.ArrayLike,
    *,
    from_logits: bool,
    class_names: Sequence[Any] | None = None,
) -> float:
    """The mean over the true classes of their Brier scores: a rare class counts as much as a common one.

    Classes without rows do not count.

    >>> balanced_brier_score([[1.0, 0.0], [1.0, 0.0], [0.5, 0.5]], [0, 0, 1], from_logits=False)
    0.25
    """
    predictions = as_predictions(scores, labels, from_logits=from_logits, class_names=class_names)
    rows = np.bincount(predictions.labels, minlength=predictions.classes)
    sums = np.bincount(predictions.labels, weights=brier_rows(predictions), minlength=predictions.classes)
    return float((sums[rows > 0] / rows[rows > 0]).mean())


@dataclass(frozen=True)
class BrierSplit:
    """Brier = calibration + refinement."""

    brier: float
    calibration: float
    refinement: float


def brier_decomposition(
    scores: npt.ArrayLike,
    labels: npt.ArrayLike,
    *,
    from_logits: bool,
    bins: int = 15,
    closed: Closed = "right",
    weights: npt.ArrayLike | None = None,
    class_names: Sequence[Any] | None = None,
) -> BrierSplit:
    """How much of the Brier score recalibrating each class by bins would win, and what would stay.

        calibration = sum_k sum_m w_km (mean p_k - share of class k)^2,   refinement = Brier - calibration

    >>> split = brier_decomposition([[0.75, 0.25], [0.75, 0.25]], [0, 1], from_logits=False)
    >>> split.brier, split.calibration, split.refinement
    (0.625, 0.125, 0.5)
    """
    predictions = as_predictions(scores, labels, from_logits=from_logits, class_names=class_names)
    checked = check_weights(weights, rows=len(predictions))
    sums = class_sums(
        predictions.probabilities(), predictions.labels, bins=bins, closed=closed, weights=checked
    )
    brier = weighted_mean(brier_rows(predictions), checked)
    calibration = sums.squared_gap()
    return BrierSplit(brier, calibration, brier - calibration)
