"""Class shares of unlabelled rows by expectation-maximisation, as biases.

    q_ik ∝ p_ik π_k / s_k,    π_k <- mean_i q_ik,    bias_k = log π_k - log s_k

p are the calibrated probabilities on the target, s the class shares of the source, π those of the target.
Right where only the shares differ between domains (label shift) and p is calibrated for the source;
elsewhere it mistakes errors of the model for shares.

Reference: Saerens, Latinne & Decaestecker, Neural Computation 2002.
"""

from __future__ import annotations

import numpy as np
from scipy.special import softmax

from calmix.calibration.calibrators.shrunk import ShrunkScaling
from calmix.calibration.input_checks import Floats, Integers

MOST_STEPS = 1000
CONVERGED = 1e-8
# No class is ruled out by rows that show none of it.
LOWEST_SHARE = 1e-4


def target_shares(probabilities: Floats, source_shares: Floats) -> Floats:
    """The class shares of the target that are most likely.

    Probabilities that say everything: the shares are those of the rows.

    >>> target_shares(np.array([[1.0, 0.0]] * 3 + [[0.0, 1.0]]), np.array([0.5, 0.5])).tolist()
    [0.75, 0.25]
    """
    shares = source_shares.copy()
    for _ in range(MOST_STEPS):
        weighted = probabilities * (shares / source_shares)
        fresh = (weighted / weighted.sum(axis=1, keepdims=True)).mean(axis=0)
        if np.abs(fresh - shares).max() < CONVERGED:
            return np.asarray(fresh)
        shares = fresh
    return shares


def label_shift(source_labels: Integers, target_logits: Floats) -> ShrunkScaling:
    """The biases that turn calibrated source logits into ones for the class shares of the target."""
    classes = target_logits.shape[1]
    # One row more of every class: a class that the source lacks has a share all the same.
    source = (np.bincount(source_labels, minlength=classes) + 1.0) / (len(source_labels) + classes)
    target = np.maximum(target_shares(softmax(target_logits, axis=1), source), LOWEST_SHARE)
    return ShrunkScaling.of(1.0, np.log(target / target.sum()) - np.log(source))
