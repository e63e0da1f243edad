"""What an error adds to the scores of its row, and would add to those of rows that were right.

With confidence c and the label's probability p_y, an error adds

    log c - log p_y    to the negative log-likelihood, beyond the -log c of a right answer
    2 (c - p_y)        to the Brier score, beyond that of a right answer

A row that was right says what it would have cost to be wrong, up to which label it would have been: the other
labels count as the model itself weighs them. Where few errors were seen, that is all that is known of more.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from calmix.calibration.input_checks import Floats, Integers
from calmix.calibration.predictions import SMALLEST_PROBABILITY, Predictions

# Rows of one block that are asked what an error would cost: their mean is all that counts.
ASKED_ROWS = 4096


def costs_of_errors(
    probabilities: Floats, labels: Integers, correct: npt.NDArray[np.bool_], log_loss: Floats
) -> tuple[Floats, Floats]:
    """What the errors added to negative log-likelihood and Brier score, 0 where a row was right.

    `log_loss` is the negative log-likelihood of every row.

    >>> given = np.array([[0.75, 0.25], [0.75, 0.25]])
    >>> loss = -np.log([0.75, 0.25])
    >>> likelihood, brier = costs_of_errors(given, np.array([0, 1]), np.array([True, False]), loss)
    >>> likelihood.round(4).tolist(), brier.tolist()
    ([0.0, 1.0986], [0.0, 1.0])
    """
    added, squared = np.zeros(len(labels)), np.zeros(len(labels))
    wrong = np.flatnonzero(~correct)
    if wrong.size:
        confidence = probabilities[wrong].max(axis=1)
        # Equal probabilities: either label is as good, and rounding must not make the cost negative.
        added[wrong] = np.maximum(log_loss[wrong] + np.log(confidence), 0.0)
        squared[wrong] = np.maximum(2.0 * (confidence - probabilities[wrong, labels[wrong]]), 0.0)
    return added, squared


def square_costs(predictions: Predictions) -> tuple[int, float, float]:
    """Of some of the rows: how many, and the sums of the squared costs that an error would have.

    >>> predictions = Predictions.from_probabilities([[0.75, 0.25]], [0])
    >>> rows, likelihood, brier = square_costs(predictions)
    >>> rows, round(likelihood, 4), brier
    (1, 1.2069, 1.0)
    """
    step = max(-(-len(predictions) // ASKED_ROWS), 1)
    asked = predictions.select(np.arange(0, len(predictions), step))
    rows, best = np.arange(len(asked)), asked.predicted()
    others = asked.probabilities()
    confidence = others[rows, best].copy()
    others[rows, best] = 0.0
    total = others.sum(axis=1)
    share = np.divide(others, total[:, None], out=np.zeros_like(others), where=total[:, None] > 0)
    # A model that leaves nothing for the other labels pays most (a label without any share is not asked).
    logs = np.where(share > 0, asked.log_probabilities(), 0.0)
    mean_log = np.where(total > 0, (share * logs).sum(axis=1), np.log(SMALLEST_PROBABILITY))
    likelihood = np.maximum(asked.log_confidence() - mean_log, 0.0)
    brier = np.maximum(2.0 * (confidence - (share * others).sum(axis=1)), 0.0)
    return len(asked), float(likelihood @ likelihood), float(brier @ brier)
