"""The calibrator that the rows support: the simplest one within the noise of the best.

From simple to complex: temperature, temperature + bias, vector, structured. Each is fitted on four fifths of
the rows and its negative log-likelihood measured on the last fifth, five times over. The simplest one is
taken whose loss exceeds that of the best by no more than one standard error of the difference, row by row:

    mean(d) <= sd(d) / √n,     d_i = loss_i(candidate) − loss_i(best)

and which is no worse than anything simpler.
The difference of two calibrators on the same rows varies far less than the loss of either, so that the rule
compares them, not the rows. What is chosen is fitted on all rows. All candidates are affine in the logits:
the result folds into a linear head.

Reference of the rule: Breiman et al. 1984; Hastie, Tibshirani & Friedman 2009, section 7.10.
"""

from __future__ import annotations

import warnings
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from sklearn.utils.validation import check_is_fitted

from calmix.calibration.calibrators.calibrator import Calibrator, get_calibrator
from calmix.calibration.calibrators.folds import FOLDS, count_rows, fold_of_row, heaviest_copies
from calmix.calibration.input_checks import Floats, Integers
from calmix.calibration.predictions import Predictions

CANDIDATES = ("temperature", "temperature-bias", "vector", "structured")
"""From simple to complex."""
FEWEST_ROWS_PER_CLASS = 10
"""With fewer rows of some class, on average, nothing but a temperature is tried."""


class AutoScaling(Calibrator):
    """Choose among calibrators by cross-validated negative log-likelihood.

    `candidates` are names, the simplest first; "structured" is in centred coordinates, which fold.

    Attributes after `fit`:
        chosen_: the name of the calibrator that was chosen.
        best_: that of the lowest cross-validated loss.
        scores_: for every candidate the cross-validated loss, and how much it is above the best with the
            standard error of that.
        temperature_: of the chosen calibrator.
        matrix_, bias_: calibrated logits = matrix_ @ logits + bias_.

    >>> calibrator = AutoScaling().fit([[0.0, 0.0]] * 400, [0, 0, 0, 1] * 100)
    >>> calibrator.chosen_  # no temperature makes 3:1 of equal logits
    'temperature-bias'
    """

    kind: ClassVar[str] = "auto"

    chosen_: str
    best_: str
    scores_: dict[str, dict[str, float]]
    temperature_: float
    matrix_: Floats
    bias_: Floats

    def __init__(self, candidates: tuple[str, ...] = CANDIDATES) -> None:
        self.candidates = candidates

    def _fit(
        self,
        logits: npt.NDArray[Any],
        labels: Integers,
        weights: Floats | None,
        row_of_copy: Integers | None,
    ) -> None:
        names = list(self.candidates)
        if count_rows(labels, row_of_copy) < FEWEST_ROWS_PER_CLASS * logits.shape[1]:
            names = names[:1]
        self.scores_, self.best_, self.chosen_ = {}, names[0], names[0]
        if len(names) > 1:
            arrays = (logits, labels, weights, row_of_copy)
            losses = {name: cross_validated_losses(name, *arrays) for name in names}
            self._choose(*joined_copies(losses, weights, row_of_copy))
        chosen = _make(self.chosen_).fit_copies(logits, labels, weights, row_of_copy)
        self.temperature_ = float(chosen.temperature_)
        self.matrix_, self.bias_ = chosen.affine()
        self._record_losses(logits, labels, weights)

    def _choose(self, losses: dict[str, Floats], weights: Floats | None) -> None:
        rows = len(next(iter(losses.values())))
        shares = np.full(rows, 1 / rows) if weights is None else weights
        means = {name: float(shares @ values) for name, values in losses.items()}
        self.best_ = min(means, key=means.__getitem__)
        for name, values in losses.items():
            excess = values - losses[self.best_]
            error = float(np.sqrt((shares**2) @ (excess - shares @ excess) ** 2))
            self.scores_[name] = {"nll": means[name], "above_best": float(shares @ excess), "error": error}
        lowest = np.inf
        for name, found in self.scores_.items():
            # A fit that fails on a few rows has a loss that is large and a standard error to match: what is
            # worse than something simpler is not taken, whatever its error.
            if found["nll"] <= lowest and found["above_best"] <= found["error"]:
                self.chosen_ = name
                break
            lowest = min(lowest, found["nll"])

    def _transform(self, logits: Floats) -> Floats:
        """matrix @ logits + bias."""
        return logits @ self.matrix_.T + self.bias_

    def folding(self) -> tuple[float | Floats, float | Floats]:
        """One scale where a temperature was chosen: a head of choices can hold it."""
        check_is_fitted(self)
        if self.chosen_ == "temperature":
            return 1 / self.temperature_, 0.0
        return super().folding()

    def affine(self) -> tuple[Floats, Floats]:
        check_is_fitted(self)
        return self.matrix_.copy(), self.bias_.copy()


def _make(name: str) -> Calibrator:
    return get_calibrator(name, **({"coordinates": "centred"} if name == "structured" else {}))


def joined_copies(
    losses: dict[str, Floats], weights: Floats | None, row_of_copy: Integers | None
) -> tuple[dict[str, Floats], Floats | None]:
    """The loss of every row, the mean of its copies, and its weight: the copies of a row are one observation,
    and the standard error is that of rows.

    >>> joined_copies({"a": np.array([1.0, 3.0, 5.0])}, np.array([0.25, 0.25, 0.5]), np.array([0, 0, 1]))
    ({'a': array([2., 5.])}, array([0.5, 0.5]))
    """
    if weights is None or row_of_copy is None:
        return losses, weights
    _, row = np.unique(row_of_copy, return_inverse=True)
    of_rows = np.bincount(row, weights=weights).astype(np.float64)
    joined = {
        name: np.asarray(np.bincount(row, weights=weights * values) / of_rows)
        for name, values in losses.items()
    }
    return joined, of_rows


def cross_validated_losses(
    name: str,
    logits: npt.NDArray[Any],
    labels: Integers,
    weights: Floats | None = None,
    row_of_copy: Integers | None = None,
) -> Floats:
    """The negative log-likelihood of every row by a calibrator that was fitted on the other folds."""
    losses = np.empty(len(labels))
    if weights is None or row_of_copy is None:
        fold = fold_of_row(labels, FOLDS)
    else:
        heaviest, row = heaviest_copies(labels, weights, row_of_copy)
        fold = fold_of_row(labels[heaviest], FOLDS)[row]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the fit that counts says it again
        for number in range(FOLDS):
            known, left_out = fold != number, fold == number
            of_known = None if weights is None else weights[known] / weights[known].sum()
            copies = None if row_of_copy is None else row_of_copy[known]
            fitted = _make(name).fit_copies(logits[known], labels[known], of_known, copies)
            answers = Predictions.from_logits(fitted.transform(logits[left_out]), labels[left_out])
            losses[left_out] = -answers.gold_log_probability()
    return losses
