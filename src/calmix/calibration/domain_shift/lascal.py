"""LaSCal: the temperature with the least calibration error on the target, estimated without its labels.

Where only the class shares differ, the target rows of class k that score p are those of the source, times
the ratio of its shares ω_k. So the source says how often class k is true among the target rows of a bin B:

    E_B = ω_k (m - 1) / n · #{source rows of class k in B} / (#{target rows in B} - 1)
    error = mean over classes and target rows of (p_ik - E_B(i))²

n source rows, m target rows, 15 bins with equally many target rows for every class. T minimises the error.
The ratios come from hard predictions (RLLS), which no temperature changes: θ >= -1 minimises
|C θ - (q - C 1)| + Δ |θ| and ω = 1 + θ, C being the shares of (predicted, true) class of the source, q the
shares of predicted classes of the target, Δ a bound of the noise of C times 0.01, as in the authors' code.

References: Popordanoska, Radevski, Tuytelaars & Blaschko, NeurIPS 2024. Ratios: Azizzadenesheli, Liu, Yang &
Anandkumar, ICLR 2019. The authors search 100 temperatures from 0.1 to 20 in equal steps; here the steps are
equal in log T, because the logits are calibrated for the source.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize
from scipy.special import softmax

from calmix.calibration.calibrators.shrunk import ShrunkScaling
from calmix.calibration.input_checks import Floats, Integers

BINS = 15
TEMPERATURES = np.geomspace(0.1, 20.0, 100)
REGULARISATION, CONFIDENCE = 0.01, 0.05


def share_ratios(
    source_predicted: Integers, source_labels: Integers, target_predicted: Integers, classes: int
) -> Floats:
    """Target over source share of every class, from predicted classes.

    Predictions without an error: the ratio is that of the counts, but for the regularisation.

    >>> source, target = np.repeat([0, 1], 500), np.repeat([0, 1], [800, 200])
    >>> share_ratios(source, source, target, 2).round(1).tolist()
    [1.6, 0.4]
    """
    rows = len(source_labels)
    joint = np.zeros((classes, classes))
    np.add.at(joint, (source_predicted, source_labels), 1 / rows)
    apart = np.bincount(target_predicted, minlength=classes) / len(target_predicted) - joint.sum(axis=1)
    noise = np.log(2 * classes / CONFIDENCE) / rows
    penalty = REGULARISATION * 3 * (2 * noise / 3 + np.sqrt(2 * noise))

    def loss(theta: Floats) -> float:
        return float(np.linalg.norm(joint @ theta - apart) + penalty * np.linalg.norm(theta))

    # The norm has a kink where everything fits: the search may stop beside it.
    exact = np.maximum(np.linalg.lstsq(joint, apart, rcond=None)[0], -1.0)
    found = minimize(loss, exact, method="SLSQP", bounds=[(-1.0, None)] * classes).x
    best = min((np.maximum(found, -1.0), exact, np.zeros(classes)), key=loss)
    return np.asarray(1 + best)


def shifted_error(source: Floats, labels: Integers, target: Floats, ratios: Floats) -> float:
    """The calibration error of target probabilities, by the labels of the source.

    >>> source, target = np.array([[0.8, 0.2]] * 10), np.array([[0.8, 0.2]] * 20)
    >>> labels = np.repeat([0, 1], [8, 2])
    >>> round(shifted_error(source, labels, target, np.ones(2)), 6)
    0.0
    """
    rows, classes = target.shape
    total = 0.0
    for place in range(classes):
        scores = target[:, place]
        # Rows of equal score stay together: borders are scores, as ranks would part them.
        borders = np.unique(np.quantile(scores, np.arange(1, BINS) / BINS))
        of_target = np.searchsorted(borders, scores)
        of_source = np.searchsorted(borders, source[labels == place, place])
        held = np.bincount(of_target, minlength=len(borders) + 1)
        true = np.bincount(of_source, minlength=len(borders) + 1)
        expected = ratios[place] * (rows - 1) / len(source) * true / np.maximum(held - 1, 1)
        counted = (held > 1)[of_target]  # one row says nothing about its bin
        total += float(((scores - expected[of_target]) ** 2)[counted].sum())
    return float(total / (rows * classes))


def lascal(source_logits: Floats, source_labels: Integers, target_logits: Floats) -> ShrunkScaling:
    """The temperature for the target; source logits are calibrated on the source."""
    classes = target_logits.shape[1]
    source_predicted, target_predicted = (one.argmax(axis=1) for one in (source_logits, target_logits))
    ratios = share_ratios(source_predicted, source_labels, target_predicted, classes)

    def error(temperature: float) -> float:
        source, target = (softmax(one / temperature, axis=1) for one in (source_logits, target_logits))
        return shifted_error(source, source_labels, target, ratios)

    best = min(TEMPERATURES.tolist(), key=error)
    return ShrunkScaling.of(best, np.zeros(classes))
