"""Isotonic calibration: a free, never falling curve from score to probability.

With two classes, scikit-learn's isotonic regression of the label on the log-odds z_1 - z_0. With more, one
such curve per class against the rest, on the log-odds of that class,

    log p_k / (1 - p_k) = z_k - log sum_{j != k} exp(z_j)

and the curves' values divided by their sum. The renormalised probabilities are no longer each class's own
isotonic fit (Zadrozny & Elkan 2002). It needs some thousand rows, may change the predicted class, and does
not fold into a head.

A curve's flat ends are 0 or 1 on the fitting rows, and a single wrong row later has an infinite loss. So a
share u of the temperature-scaled probabilities is mixed in:

    p = (1 - u) p_isotonic + u softmax(z / T),    u = min(max(C / n, n^(-1/3)), 1/2)

n^(-1/3) is the order of an isotonic fit's own error, and with less than two rows for each class the curves
say hardly anything. A floor below every curve would cap the confidence at 1 / (1 + C floor)
(benchmarks/isotonic_floor.py compares these).
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from scipy.special import log_softmax, softmax

from calmix.calibration.calibrators.calibrator import Calibrator, Scores
from calmix.calibration.calibrators.temperature import TemperatureLoss, best_temperature, warn_without_errors
from calmix.calibration.input_checks import Floats, Integers
from calmix.calibration.metrics.scores import negative_log_likelihood


class IsotonicCalibration(Calibrator):
    """One isotonic curve per class (two classes share one).

    `temperature_share` is u of the module's formula; None takes the rule given there, 0 is scikit-learn's
    result.

    Attributes after `fit`:
        scores_, probabilities_: the curves' corner points, all curves one after the other.
        curve_starts_: where each curve begins in them, and the end.
        share_, temperature_: u and T.
        nll_before_, nll_after_: mean negative log-likelihood of the fitting rows.

    Of the two rows with the lower score one is of class 1, of the other two both:

    >>> logits = [[0.0, -1.0], [0.0, -1.0], [0.0, 1.0], [0.0, 1.0]]
    >>> calibrator = IsotonicCalibration(temperature_share=0).fit(logits, [0, 1, 1, 1])
    >>> calibrator.predict_proba([[0.0, -1.0], [0.0, 0.0], [0.0, 9.0]]).tolist()
    [[0.5, 0.5], [0.25, 0.75], [0.0, 1.0]]
    """

    kind: ClassVar[str] = "isotonic"

    scores_: Floats
    probabilities_: Floats
    curve_starts_: Integers
    share_: float
    temperature_: float

    def __init__(self, temperature_share: float | None = None) -> None:
        self.temperature_share = temperature_share

    @property
    def folds(self) -> bool:
        return False

    def _fit(self, logits: npt.NDArray[Any], labels: Integers, weights: Floats | None) -> None:
        from sklearn.isotonic import IsotonicRegression

        if self.temperature_share is not None and not 0 <= self.temperature_share <= 1:
            raise ValueError(f"temperature_share must be None or in [0, 1], got {self.temperature_share}")
        given = self.temperature_share
        self.share_ = default_share(*logits.shape) if given is None else float(given)
        loss = TemperatureLoss(logits, labels, weights)
        optimum = best_temperature(loss)
        warn_without_errors(loss, optimum, stacklevel=3)
        self.temperature_ = 1 / optimum.beta
        curves = []
        for index, scores in self._curve_scores(logits):
            curve = IsotonicRegression(y_min=0.0, y_max=1.0, out_of_bounds="clip")
            curve.fit(scores, (labels == index).astype(np.float64), sample_weight=weights)
            curves.append((curve.X_thresholds_, curve.y_thresholds_))
        self.scores_ = np.concatenate([corner for corner, _ in curves])
        self.probabilities_ = np.concatenate([value for _, value in curves])
        self.curve_starts_ = np.cumsum([0] + [len(corner) for corner, _ in curves])
        # Of the probabilities: with a share of 0, logarithms may be minus infinity.
        self.nll_before_ = negative_log_likelihood(logits, labels, from_logits=True, weights=weights)
        after = self.predict_proba(logits)
        self.nll_after_ = negative_log_likelihood(after, labels, from_logits=False, weights=weights)

    @staticmethod
    def _curve_scores(logits: npt.NDArray[Any]) -> list[tuple[int, Floats]]:
        """(class, its log-odds) for every curve."""
        wide = logits.astype(np.float64)
        if wide.shape[1] == 2:
            return [(1, wide[:, 1] - wide[:, 0])]
        odds = log_odds(wide)
        return [(index, odds[:, index]) for index in range(wide.shape[1])]

    def _curve_values(self, logits: Floats) -> Floats:
        """The curves' values, linear between corners and flat outside, divided by their sum."""
        raw = np.empty(logits.shape)
        for number, (index, scores) in enumerate(self._curve_scores(logits)):
            part = slice(self.curve_starts_[number], self.curve_starts_[number + 1])
            raw[:, index] = np.interp(scores, self.scores_[part], self.probabilities_[part])
        if logits.shape[1] == 2:
            raw[:, 0] = 1 - raw[:, 1]
            return raw
        # Where every curve says 0 nothing is known: uniform, as in scikit-learn.
        raw[raw.sum(axis=1) == 0] = 1.0
        return np.asarray(raw / raw.sum(axis=1, keepdims=True))

    def predict_proba(self, X: Scores) -> Floats:
        """The mixture of the module's formula."""
        checked = self._checked(X)
        scaled = softmax(checked / self.temperature_, axis=1)
        return np.asarray((1 - self.share_) * self._curve_values(checked) + self.share_ * scaled)

    def _transform(self, logits: Floats) -> Floats:
        """The logarithm of `predict_proba`, finite where a probability rounds to 0 (minus infinity only where
        `temperature_share=0` gives probability 0)."""
        with np.errstate(divide="ignore"):
            curves = np.log1p(-self.share_) + np.log(self._curve_values(logits))
            scaled = np.log(self.share_) + log_softmax(logits / self.temperature_, axis=1)
        return np.asarray(np.logaddexp(curves, scaled))


def default_share(rows: int, classes: int) -> float:
    """min(max(C / n, n^(-1/3)), 1/2): what is mixed in of the temperature-scaled probabilities.

    >>> default_share(1000, 2), default_share(200, 100)
    (0.1, 0.5)
    """
    return float(np.round(min(max(classes / rows, rows ** (-1 / 3)), 0.5), 12))


def log_odds(logits: Floats) -> Floats:
    """z_k - log sum_{j != k} exp(z_j) for every class; finite and exact where p_k rounds to 0 or 1.

    >>> log_odds(np.array([[100.0, 0.0, 0.0]])).round(6).tolist()  # -log 2 below 100; and about -100
    [[99.306853, -100.0, -100.0]]
    """
    shifted = logits - logits.max(axis=1, keepdims=True)
    powers = np.exp(shifted)
    partition = powers.sum(axis=1, keepdims=True)
    top = np.argmax(logits, axis=1)[:, None]
    with np.errstate(divide="ignore"):
        odds = shifted - np.log(partition - powers)
    # For the largest class the difference cancels: sum the others instead.
    others = shifted.copy()
    np.put_along_axis(others, top, -np.inf, axis=1)
    largest = others.max(axis=1, keepdims=True)
    rest = largest + np.log(np.exp(others - largest).sum(axis=1, keepdims=True))
    np.put_along_axis(odds, top, -rest, axis=1)
    return np.asarray(odds)
