"""How many labels are wrong: an estimate with its interval.

With c the network's confidence in its prediction and g(c) = sigmoid(a logit c + b) the probability that it
is right, a share e of labels that were replaced by another of the C classes makes prediction and label agree
with

    P(agree | c) = (1 - e) g(c) + e / (C - 1) (1 - g(c))

Where the network is sure, g is near 1 and the agreement levels off at 1 - e. The share e is fitted by maximum
likelihood together with a and b; its 95 % interval is that of the profile likelihood. Where the network is
never sure, nothing levels off, and the interval is wide: that is the honest answer. It assumes that wrong
labels are as frequent among rows that are easy to classify as among others. It says how many, not which.

The predictions are those of the second recorded epoch: in the first the network is still learning what the
classes are, in later ones it has memorised labels, right and wrong. The confidence follows from the margin M
and the probability p of the label: the strongest other class has p exp(-M).
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from calmix.dynamics.training_dynamics import TrainingDynamics

Floats = npt.NDArray[np.float64]

METHOD = "upper asymptote of the agreement of predictions and labels in the second epoch, profile likelihood"
FEWEST_ROWS = 200
# Shares that are tried; the interval ends on one of them.
SHARES = np.concatenate([np.arange(0, 0.1, 0.0025), np.arange(0.1, 0.5, 0.01)])
# Half of the χ² quantile at 95 %.
LIKELIHOOD_DROP = 1.9207
# Of the confidences, so that more rows cost no more: a fit sees at most this many groups of rows.
MOST_GROUPS = 2000


@dataclass(frozen=True)
class LabelEstimate:
    """The number of wrong labels among `rows`, with a 95 % interval."""

    rows: int
    count: int
    low: int
    high: int
    method: str = METHOD

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def estimate_wrong_labels(dynamics: TrainingDynamics | None) -> LabelEstimate | None:
    """None where predicted classes are not known, or rows are too few."""
    if dynamics is None or dynamics.predicted_label is None or not dynamics.epochs:
        return None
    epoch = min(1, dynamics.epochs - 1)
    predicted = dynamics.predicted_label[:, epoch]
    known = (predicted >= 0) & (dynamics.labels >= 0) & dynamics.seen[:, epoch]
    predicted, labels = predicted[known], dynamics.labels[known]
    if len(labels) < FEWEST_ROWS:
        return None
    confidence = prediction_confidence(dynamics.gold_probability[known, epoch], dynamics.margin[known, epoch])
    classes = max(len(dynamics.class_names), int(max(labels.max(), predicted.max())) + 1, 2)
    shares = wrong_label_share(confidence, predicted == labels, classes)
    count, low, high = (round(share * len(labels)) for share in shares)
    return LabelEstimate(len(labels), count, low, high)


def wrong_label_share(
    confidence: npt.ArrayLike, agrees: npt.ArrayLike, classes: int
) -> tuple[float, float, float]:
    """The share of wrong labels and its 95 % limits, for predictions of known confidence.

    400 predictions of each confidence, calibrated, but for a tenth of the labels, which are wrong: of the
    surest 360 agree.

    >>> confidence = np.repeat([0.6, 0.9, 0.99, 0.999], 400)
    >>> agrees = np.concatenate([np.arange(400) < right for right in (232, 328, 357, 360)])
    >>> [round(share, 3) for share in wrong_label_share(confidence, agrees, 2)]
    [0.1, 0.075, 0.12]
    """
    from scipy.special import logit

    sure = logit(np.clip(np.asarray(confidence, dtype=np.float64), 1e-6, 1 - 1e-6))
    scores, right, rows = _grouped(sure, np.asarray(agrees, dtype=np.float64))
    losses, start = [], np.zeros(2)
    for share in SHARES:
        loss, start = _fit(scores, right, rows, classes, float(share), start)
        losses.append(loss)
    found = np.asarray(losses)
    inside = SHARES[found - found.min() <= LIKELIHOOD_DROP]
    return float(SHARES[found.argmin()]), float(inside.min()), float(inside.max())


def prediction_confidence(gold_probability: Floats, margin: Floats) -> Floats:
    """The probability of the predicted class: of the label, or p exp(-M) of its strongest rival.

    >>> prediction_confidence(np.array([0.25]), np.array([np.log(0.25 / 0.75)])).round(3).tolist()
    [0.75]
    """
    with np.errstate(over="ignore", invalid="ignore"):
        rival = gold_probability * np.exp(-margin)
    # Where the label's probability is 0 in floating point, the rival has all there is.
    rival = np.where(np.isfinite(rival) & (gold_probability > 0), np.minimum(rival, 1.0), 1.0)
    return np.where(margin >= 0, gold_probability, rival)


def _grouped(scores: Floats, right: Floats) -> tuple[Floats, Floats, Floats]:
    """Mean score, number right and number of rows of groups of neighbouring scores."""
    order = np.argsort(scores, kind="stable")
    starts = np.unique(np.linspace(0, len(scores), MOST_GROUPS + 1).astype(np.int64)[:-1])
    rows = np.diff(np.append(starts, len(scores))).astype(np.float64)
    return np.add.reduceat(scores[order], starts) / rows, np.add.reduceat(right[order], starts), rows


def _fit(
    scores: Floats, right: Floats, rows: Floats, classes: int, share: float, start: Floats
) -> tuple[float, Floats]:
    """The least negative log-likelihood over a = exp(first) and b, for a given share of wrong labels."""
    from scipy.optimize import minimize
    from scipy.special import expit

    by_chance = share / (classes - 1)

    def loss(values: Floats) -> tuple[float, Floats]:
        slope = np.exp(values[0])
        is_right = expit(slope * scores + values[1])
        agree = np.clip((1 - share) * is_right + by_chance * (1 - is_right), 1e-9, 1 - 1e-9)
        gradient = (right / agree - (rows - right) / (1 - agree)) * (1 - share - by_chance)
        gradient = gradient * is_right * (1 - is_right)
        value = -(right * np.log(agree) + (rows - right) * np.log1p(-agree)).sum()
        return float(value), -np.array([(gradient * slope * scores).sum(), gradient.sum()])

    found = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=[(-3, 3), (-5, 5)])
    return float(found.fun), found.x
