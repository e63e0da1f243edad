"""Agreement of predicted and true classes beyond accuracy: Matthews correlation and top-k.

With P_k and T_k the shares of class k among the predicted and the true classes, and a the accuracy:

    MCC = (a - sum_k P_k T_k) / sqrt((1 - sum_k P_k^2) (1 - sum_k T_k^2))

0 where all predictions, or all labels, are one class. For two classes it is the phi coefficient.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from calmix.calibration.input_checks import Floats, Integers, check_labels, check_weights
from calmix.calibration.metrics.scores import weighted_mean
from calmix.calibration.predictions import Predictions

MOST_CLASSES = 1_000_000


def matthews_correlation(
    predicted: npt.ArrayLike, labels: npt.ArrayLike, weights: npt.ArrayLike | None = None
) -> float:
    """Matthews correlation coefficient of predicted and true classes, both from 0.

    >>> round(matthews_correlation([0, 0, 1, 1], [0, 1, 1, 1]), 4)
    0.5774
    >>> matthews_correlation([0, 0, 1, 1], [0, 1, 1, 1], weights=[1.0, 0.0, 1.0, 1.0])
    1.0
    """
    shapes = np.shape(predicted), np.shape(labels)
    if len(shapes[0]) != 1 or shapes[0] != shapes[1] or not shapes[0][0]:
        raise ValueError(f"predicted classes {shapes[0]} and labels {shapes[1]} must have one length")
    guessed, true = (
        check_labels(classes, rows=shapes[0][0], classes=MOST_CLASSES) for classes in (predicted, labels)
    )
    given = check_weights(weights, rows=len(true))
    classes = int(max(guessed.max(), true.max())) + 1
    counts = (np.bincount(of, weights=given, minlength=classes) for of in (guessed, true))
    # By their own sum, so that the share of a single class is exactly 1.
    shares = (count / count.sum() for count in counts)
    return matthews_of_shares(weighted_mean((guessed == true).astype(np.float64), given), *shares)


def matthews_of_shares(accuracy: float, predicted: Floats, labels: Floats) -> float:
    """The MCC by accuracy and the shares of the classes.

    >>> matthews_of_shares(1.0, np.array([0.5, 0.5]), np.array([0.5, 0.5]))
    1.0
    """
    spread = _spread(predicted, labels)
    return float((accuracy - predicted @ labels) / spread) if spread > 0 else 0.0


def matthews_influence(accuracy: float, predicted: Floats, labels: Floats) -> tuple[Floats, Floats, float]:
    """(u, v, w): a row of class k that is predicted as j changes the MCC by (u_j + v_k + w [j = k]) / n.

    The derivative of the MCC in the shares: what a jackknife finds, without leaving rows out. Its mean is 0.
    """
    spread, value = _spread(predicted, labels), matthews_of_shares(accuracy, predicted, labels)
    if spread == 0:
        return np.zeros_like(predicted), np.zeros_like(labels), 0.0
    met = float(predicted @ labels)
    squares, label_squares = predicted @ predicted, labels @ labels
    guessed = (met - labels) / spread + value * (predicted - squares) / (1 - squares)
    true = (met - predicted) / spread + value * (labels - label_squares) / (1 - label_squares)
    return guessed - accuracy / spread, true, 1.0 / spread


def in_top(predictions: Predictions, count: int) -> npt.NDArray[np.bool_]:
    """Whether the label of every row is among its `count` most probable classes; of ties, the first classes.

    >>> scores = Predictions.from_logits([[3.0, 2.0, 1.0], [1.0, 1.0, 1.0]], [1, 2])
    >>> in_top(scores, 2).tolist()
    [True, False]
    """
    scores, labels = predictions.values, predictions.labels
    gold = scores[np.arange(len(labels)), labels][:, None]
    earlier = np.arange(scores.shape[1]) < labels[:, None]
    ahead = (scores > gold) | ((scores == gold) & earlier)
    return np.asarray(ahead.sum(axis=1) < count)


def top_k_accuracy(predictions: Predictions, count: int = 5) -> float:
    """The share of rows whose label is among the `count` most probable classes.

    >>> top_k_accuracy(Predictions.from_logits([[3.0, 2.0, 1.0], [1.0, 2.0, 3.0]], [1, 0]), 2)
    0.5
    """
    if count < 1:
        raise ValueError(f"count must be 1 or more, not {count}")
    rows, weights = predictions.weighted_rows()
    return weighted_mean(in_top(rows, count).astype(np.float64), weights)


def class_counts(classes: Integers, dealt: Integers, number: int, groups: int) -> Floats:
    """[groups, number]: how often each class came in each group of rows."""
    counted = np.bincount(dealt * number + classes, minlength=groups * number)
    return np.asarray(counted, dtype=np.float64).reshape(groups, number)


def _spread(predicted: Floats, labels: Floats) -> float:
    # Not below 0: the shares of one class are 1 up to rounding.
    product = (1.0 - predicted @ predicted) * (1.0 - labels @ labels)
    return float(np.sqrt(product)) if product > 1e-24 else 0.0
