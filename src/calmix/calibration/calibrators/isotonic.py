"""Isotonic calibration: a monotone curve from score to probability.

With two classes, scikit-learn's isotonic regression of the label on the log-odds z_1 - z_0. With more, one
such curve per class against the rest, on the log-odds of that class,

    log p_k / (1 - p_k) = z_k - log sum_{j != k} exp(z_j)

and the curves' values divided by their sum. The renormalised probabilities are no longer each class's own
isotonic fit (Zadrozny & Elkan 2002). It needs some thousand rows, may change the predicted class, and does
not fold into a head.

A curve's flat ends are 0 or 1 on the fitting rows, and a single wrong row later has an infinite loss; with
many classes the curves follow the noise of their few rows. So a share u of the temperature-scaled
probabilities is mixed in:

    p = (1 - u) p_isotonic + u softmax(z / T),    u = the best in [least, 1] for rows left out of the curves
                                                  least = min(max(C / n, n^(-1/3)), 1/2)

The best is that of the highest log-likelihood in five-fold cross-validation: where temperature scaling says
as much as the curves do, u is nearly 1. n^(-1/3) is the order of an isotonic fit's own error, and with less
than two rows for each class the curves say hardly anything. A floor below every curve would cap the
confidence at 1 / (1 + C floor) (benchmarks/isotonic_floor.py compares these).
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.special import log_softmax, softmax

from calmix.calibration.calibrators.calibrator import Calibrator, Scores
from calmix.calibration.calibrators.folds import count_rows, heaviest_copies
from calmix.calibration.calibrators.temperature import TemperatureLoss, best_temperature, warn_without_errors
from calmix.calibration.input_checks import Floats, Integers
from calmix.calibration.metrics.scores import negative_log_likelihood

FOLDS = 5
# Above so many rows one fold is left out, not each in turn: the share is known well enough.
ROWS_FOR_ALL_FOLDS = 20_000


class Curves(NamedTuple):
    """Corner points of all curves one after the other, and where each begins; the last number is the end."""

    scores: Floats
    probabilities: Floats
    starts: Integers


class IsotonicCalibration(Calibrator):
    """One isotonic curve per class (two classes share one).

    `temperature_share` is u of the module's formula; None chooses it as said there, 0 is scikit-learn's
    result. A warning says so where more than half of the result is temperature scaling.

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

    def _fit(
        self,
        logits: npt.NDArray[Any],
        labels: Integers,
        weights: Floats | None,
        row_of_copy: Integers | None,
    ) -> None:
        if self.temperature_share is not None and not 0 <= self.temperature_share <= 1:
            raise ValueError(f"temperature_share must be None or in [0, 1], got {self.temperature_share}")
        rows = count_rows(labels, row_of_copy)
        loss = TemperatureLoss(logits, labels, weights, rows=rows)
        optimum = best_temperature(loss)
        warn_without_errors(loss, optimum, stacklevel=4)
        self.temperature_ = 1 / optimum.beta
        odds = curve_odds(logits)
        self.scores_, self.probabilities_, self.curve_starts_ = fit_curves(odds, labels, weights)
        if self.temperature_share is None:
            scaled = softmax(logits.astype(np.float64) / self.temperature_, axis=1)
            gold = scaled[np.arange(len(labels)), labels]
            self.share_ = cross_validated_share(odds, labels, gold, weights, row_of_copy)
            self._warn_little_learned(rows)
        else:
            self.share_ = float(self.temperature_share)
        # Of the probabilities: with a share of 0, logarithms may be minus infinity.
        self.nll_before_ = negative_log_likelihood(logits, labels, from_logits=True, weights=weights)
        after = self.predict_proba(logits)
        self.nll_after_ = negative_log_likelihood(after, labels, from_logits=False, weights=weights)

    def _warn_little_learned(self, rows: int) -> None:
        if self.share_ > 0.5:
            warnings.warn(
                f"{rows} rows say little about the isotonic curves: {self.share_:.0%} of the result is "
                "temperature scaling, which is simpler",
                stacklevel=5,
            )

    def _curve_values(self, logits: Floats) -> Floats:
        return curve_values(Curves(self.scores_, self.probabilities_, self.curve_starts_), curve_odds(logits))

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


def curve_odds(logits: npt.NDArray[Any]) -> Floats:
    """[n, curves]: the log-odds of every class against the rest; two classes share one curve."""
    wide = logits.astype(np.float64)
    return wide[:, 1:] - wide[:, :1] if wide.shape[1] == 2 else log_odds(wide)


def fit_curves(odds: Floats, labels: Integers, weights: Floats | None) -> Curves:
    """scikit-learn's isotonic regression of every class."""
    from sklearn.isotonic import IsotonicRegression

    first = 1 if odds.shape[1] == 1 else 0
    corners: list[Sequence[Floats]] = []
    for index in range(odds.shape[1]):
        curve = IsotonicRegression(y_min=0.0, y_max=1.0, out_of_bounds="clip")
        curve.fit(odds[:, index], (labels == first + index).astype(np.float64), sample_weight=weights)
        corners.append((curve.X_thresholds_, curve.y_thresholds_))
    return Curves(
        np.concatenate([scores for scores, _ in corners]),
        np.concatenate([values for _, values in corners]),
        np.cumsum([0] + [len(scores) for scores, _ in corners]),
    )


def curve_values(curves: Curves, odds: Floats) -> Floats:
    """The curves' values, linear between corners and flat outside, divided by their sum."""
    raw = np.empty(odds.shape)
    for index in range(odds.shape[1]):
        part = slice(curves.starts[index], curves.starts[index + 1])
        raw[:, index] = np.interp(odds[:, index], curves.scores[part], curves.probabilities[part])
    if odds.shape[1] == 1:
        return np.concatenate([1 - raw, raw], axis=1)
    # Where every curve says 0 nothing is known: uniform, as in scikit-learn.
    raw[raw.sum(axis=1) == 0] = 1.0
    return np.asarray(raw / raw.sum(axis=1, keepdims=True))


def cross_validated_share(
    odds: Floats,
    labels: Integers,
    scaled: Floats,
    weights: Floats | None,
    row_of_copy: Integers | None = None,
) -> float:
    """u of the module's formula. `scaled` are the temperature-scaled probabilities of the true classes."""
    rows, classes = len(labels), max(odds.shape[1], 2)
    if weights is None or row_of_copy is None:
        least, folds = least_share(rows, classes), fold_of_rows(odds, labels)
    else:
        heaviest, row = heaviest_copies(labels, weights, row_of_copy)
        least = least_share(len(heaviest), classes)
        folds = fold_of_rows(odds[heaviest], labels[heaviest])[row]
    curves = np.full(rows, np.nan)
    for fold in range(FOLDS if rows <= ROWS_FOR_ALL_FOLDS else 1):
        out = folds == fold
        if out.all() or not out.any():
            return least  # fewer different rows than folds
        kept = None if weights is None else weights[~out]
        if kept is not None and not kept.sum() > 0:
            return least
        values = curve_values(fit_curves(odds[~out], labels[~out], kept), odds[out])
        curves[out] = values[np.arange(len(values)), labels[out]]
    seen = ~np.isnan(curves)
    every = np.ones(rows) if weights is None else weights
    return best_share(curves[seen], scaled[seen], every[seen], least)


def fold_of_rows(odds: Floats, labels: Integers) -> Integers:
    """0..FOLDS-1 at random, the same whatever the order of the rows; copies of a row are in one fold.

    In turn along the scores would not do: between the neighbours of its class a row is too easily predicted.
    """
    first = 1 if odds.shape[1] == 1 else 0
    own = odds[np.arange(len(labels)), np.maximum(labels - first, 0)]
    order = np.lexsort((own, labels))
    is_new = np.ones(len(order), dtype=bool)
    is_new[1:] = (np.diff(own[order]) != 0) | (np.diff(labels[order]) != 0)
    folds = np.empty(len(order), dtype=np.int64)
    drawn = np.random.default_rng(0).permutation(int(is_new.sum())) % FOLDS
    folds[order] = drawn[np.cumsum(is_new) - 1]
    return folds


def best_share(curves: Floats, scaled: Floats, weights: Floats, least: float) -> float:
    """The u in [least, 1] of the highest sum of w log((1 - u) p + u q): the sum is concave in u.

    >>> one = np.ones(2)
    >>> best_share(np.array([0.9, 0.1]), np.array([0.5, 0.5]), one, 0.1)  # mean log(p) is lower than log(q)
    1.0
    >>> round(best_share(np.array([0.9, 0.9, 0.1]), np.array([0.5, 0.5, 0.5]), np.ones(3), 0.1), 6)
    0.583333
    """

    def slope(share: float) -> float:
        mixed = np.maximum((1 - share) * curves + share * scaled, np.finfo(np.float64).tiny)
        return float((weights * ((scaled - curves) / mixed)).sum())

    low, high = least, 1.0
    if slope(low) <= 0:
        return least
    if slope(high) >= 0:
        return 1.0
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if slope(middle) > 0 else (low, middle)
    return float(np.round(low, 12))


def least_share(rows: int, classes: int) -> float:
    """min(max(C / n, n^(-1/3)), 1/2): the least that is mixed in of the temperature-scaled probabilities.

    >>> least_share(1000, 2), least_share(200, 100)
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
