"""Isotonic calibration: a free, never falling curve from score to probability.

With two classes, scikit-learn's isotonic regression of the label on the log-odds z_1 - z_0. With more, one
such curve per class against the rest, on the log-odds of that class,

    log p_k / (1 - p_k) = z_k - log sum_{j != k} exp(z_j)

and the curves' values divided by their sum. The renormalised probabilities are no longer each class's own
isotonic fit (Zadrozny & Elkan 2002). It needs some thousand rows, may change the predicted class, and does
not fold into a head.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from calmix.calibration.calibrator import Calibrator
from calmix.calibration.input_checks import Floats, Integers
from calmix.calibration.scores import negative_log_likelihood


class IsotonicCalibration(Calibrator):
    """One isotonic curve per class (two classes share one).

    A curve's flat ends are 0 or 1 on the fitting rows, and a single wrong row later has an infinite loss.
    `floor` keeps the curves in [floor, 1 - floor]; None takes 1 / (n + 2), what n rows without a miss
    support (Laplace). `floor=0` is scikit-learn's result.

    Attributes after `fit`:
        scores_, probabilities_: the curves' corner points, all curves one after the other.
        curve_starts_: where each curve begins in them, and the end.
        floor_: the floor in use.
        nll_before_, nll_after_: mean negative log-likelihood of the fitting rows.

    Of the two rows with the lower score one is of class 1, of the other two both:

    >>> logits = [[0.0, -1.0], [0.0, -1.0], [0.0, 1.0], [0.0, 1.0]]
    >>> calibrator = IsotonicCalibration(floor=0).fit(logits, [0, 1, 1, 1])
    >>> calibrator.predict_proba([[0.0, -1.0], [0.0, 0.0], [0.0, 9.0]]).tolist()
    [[0.5, 0.5], [0.25, 0.75], [0.0, 1.0]]
    """

    kind: ClassVar[str] = "isotonic"

    scores_: Floats
    probabilities_: Floats
    curve_starts_: Integers
    floor_: float

    def __init__(self, floor: float | None = None) -> None:
        self.floor = floor

    @property
    def folds(self) -> bool:
        return False

    def _fit(self, logits: npt.NDArray[Any], labels: Integers, weights: Floats | None) -> None:
        from sklearn.isotonic import IsotonicRegression

        if self.floor is not None and not 0 <= self.floor < 0.5:
            raise ValueError(f"floor must be None or in [0, 0.5), got {self.floor}")
        self.floor_ = 1 / (len(labels) + 2) if self.floor is None else float(self.floor)
        curves = []
        for index, scores in self._curve_scores(logits):
            curve = IsotonicRegression(y_min=self.floor_, y_max=1 - self.floor_, out_of_bounds="clip")
            curve.fit(scores, (labels == index).astype(np.float64), sample_weight=weights)
            curves.append((curve.X_thresholds_, curve.y_thresholds_))
        self.scores_ = np.concatenate([corner for corner, _ in curves])
        self.probabilities_ = np.concatenate([value for _, value in curves])
        self.curve_starts_ = np.cumsum([0] + [len(corner) for corner, _ in curves])
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

    def predict_proba(self, logits: npt.ArrayLike) -> Floats:
        """The curves' values, linear between corners and flat outside, divided by their sum."""
        checked = self._checked(logits)
        raw = np.empty(checked.shape)
        for number, (index, scores) in enumerate(self._curve_scores(checked)):
            part = slice(self.curve_starts_[number], self.curve_starts_[number + 1])
            raw[:, index] = np.interp(scores, self.scores_[part], self.probabilities_[part])
        if checked.shape[1] == 2:
            raw[:, 0] = 1 - raw[:, 1]
            return raw
        total = raw.sum(axis=1, keepdims=True)
        # Where every curve says 0 (only with floor=0) nothing is known: uniform, as in scikit-learn.
        raw[total[:, 0] == 0] = 1.0
        return np.asarray(raw / raw.sum(axis=1, keepdims=True))

    def transform(self, logits: npt.ArrayLike) -> Floats:
        """The logarithm of `predict_proba` (minus infinity where `floor=0` gives probability 0)."""
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(logits))


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
