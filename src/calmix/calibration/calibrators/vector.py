"""Vector scaling: a scale and a bias for every class.

    calibrated logits_k = scale_k z_k + bias_k

Scales and biases minimise the mean negative log-likelihood, which is convex in them. Unlike temperature
scaling it can correct a class that is predicted too often, and it may change the predicted class. With few
rows per class it overfits: `l2` draws it towards temperature scaling, structured scaling does so by itself.
Rows that some scales and biases classify without an error have no optimum, since sharper is always better:
the result is then temperature scaling with its guard, not where a search happened to stop.

Reference: Guo, Pleiss, Sun & Weinberger, ICML 2017.
"""

from __future__ import annotations

import warnings
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from sklearn.utils.validation import check_is_fitted

from calmix.calibration.calibrators.calibrator import Calibrator
from calmix.calibration.calibrators.folds import count_rows
from calmix.calibration.calibrators.newton import Objective, damped_newton, solve_semidefinite
from calmix.calibration.calibrators.temperature import TemperatureLoss, best_temperature
from calmix.calibration.input_checks import Floats, Integers

# A mean loss this small is on its way to 0.
SEPARATED = 1e-6


class VectorScaling(Calibrator):
    """Scale and shift the logits of every class.

    `l2` adds l2 * sum_k [(T scale_k - 1)^2 + bias_k^2] to the mean negative log-likelihood, T being the
    fitted temperature: with a large `l2` the result is temperature scaling.

    Attributes after `fit`:
        scale_, bias_: one number per class; biases sum to 0 (softmax does not see their mean).
        temperature_: the temperature that the search started from.
        nll_before_, nll_after_: mean negative log-likelihood of the fitting rows, without the penalty.
        n_iter_: Newton steps.
        converged_: False where the search stopped before the optimum.
        is_separable_: True where there is no optimum and the result is temperature scaling.

    Logits that say nothing, and three rows in four of class 0: the biases become the log-odds.

    >>> calibrator = VectorScaling().fit([[0.0, 0.0]] * 4, [0, 0, 0, 1])
    >>> calibrator.predict_proba([[0.0, 0.0]]).round(6).tolist()
    [[0.75, 0.25]]
    """

    kind: ClassVar[str] = "vector"

    scale_: Floats
    bias_: Floats
    temperature_: float
    n_iter_: int
    converged_: bool
    is_separable_: bool

    def __init__(self, l2: float = 0.0) -> None:
        self.l2 = l2

    def _fit(
        self,
        logits: npt.NDArray[Any],
        labels: Integers,
        weights: Floats | None,
        row_of_copy: Integers | None,
    ) -> None:
        if not (np.isfinite(self.l2) and self.l2 >= 0):
            raise ValueError(f"l2 must be finite and not negative, got {self.l2}")
        classes = logits.shape[1]
        temperature_loss = TemperatureLoss(logits, labels, weights, rows=count_rows(labels, row_of_copy))
        beta = best_temperature(temperature_loss).beta
        penalty = np.full(2 * classes, self.l2)
        loss = VectorLoss(logits * np.float64(beta), labels, weights, penalty)
        solution = damped_newton(loss, loss.anchor)
        self.is_separable_ = self.l2 == 0 and (temperature_loss.is_separable or solution.value < SEPARATED)
        if self.is_separable_:
            solution = solution._replace(parameters=loss.anchor, converged=True)
        self.temperature_ = 1 / beta
        self.scale_ = solution.parameters[:classes] * beta
        self.bias_ = solution.parameters[classes:] - solution.parameters[classes:].mean()
        self.n_iter_ = solution.steps
        self.converged_ = solution.converged
        self._record_losses(logits, labels, weights)
        if self.l2 == 0:
            self._warn_if_unbounded(labels)

    def _warn_if_unbounded(self, labels: Integers) -> None:
        """Without a penalty some rows have no finite optimum."""
        missing = np.flatnonzero(np.bincount(labels, minlength=self.n_features_in_) == 0)
        if self.is_separable_:
            problem = "the rows are separable, so vector scaling has no optimum: this is temperature scaling"
        elif missing.size:
            problem = f"no row has class {missing[0]}: its probability is driven to 0"
        else:
            return
        warnings.warn(f"{problem}; use l2 > 0 or structured scaling", stacklevel=5)

    def _transform(self, logits: Floats) -> Floats:
        """scale * logits + bias."""
        return logits * self.scale_ + self.bias_

    def folding(self) -> tuple[Floats, Floats]:
        """(scale, bias) per class."""
        check_is_fitted(self)
        return self.scale_.copy(), self.bias_.copy()


class VectorLoss(Objective):
    """Mean negative log-likelihood of softmax(scale * x + bias), plus penalty @ ([scale, bias] - [1, 0])^2.

    With p = softmax and f = [x, 1], for parameters a, b in {scale, bias} of classes k, l:

        gradient  mean((p_k - [k = y]) f_ka)
        Hessian   mean([k = l] p_k f_ka f_kb  -  p_k f_ka p_l f_lb)
    """

    def __init__(self, x: Floats, labels: Integers, weights: Floats | None, penalty: Floats) -> None:
        rows, self.classes = x.shape
        self.x = x
        self.weights = np.full(rows, 1 / rows) if weights is None else weights
        self.penalty = penalty
        self.anchor: Floats = np.repeat([1.0, 0.0], self.classes)
        # The part of the gradient that the labels select does not depend on the parameters.
        gold = self.weights * x[np.arange(rows), labels]
        self.gold_sums: Floats = np.concatenate(
            [np.bincount(labels, values, self.classes) for values in (gold, self.weights)]
        )

    def evaluate(self, parameters: Floats) -> tuple[float, Floats]:
        scores = self.x * parameters[: self.classes] + parameters[self.classes :]
        largest = scores.max(axis=1)
        scores -= largest[:, None]
        np.exp(scores, out=scores)
        partition = scores.sum(axis=1)
        scores /= partition[:, None]
        self.probabilities = scores
        departure = parameters - self.anchor
        value = self.weights @ (np.log(partition) + largest) - parameters @ self.gold_sums
        gradient = self._sums(scores) - self.gold_sums + 2 * self.penalty * departure
        return float(value + self.penalty @ departure**2), gradient

    def _sums(self, values: Floats) -> Floats:
        """[mean(values * x), mean(values)], class by class."""
        return np.concatenate([self.weights @ (values * self.x), self.weights @ values])

    def newton_step(self, gradient: Floats) -> Floats:
        weighted = self.probabilities * np.sqrt(self.weights)[:, None]
        features = np.concatenate([weighted * self.x, weighted], axis=1)
        hessian = np.diag(2 * self.penalty) - features.T @ features
        first = self._sums(self.probabilities)
        second = self.weights @ (self.probabilities * self.x**2)
        scale, bias = np.arange(self.classes), np.arange(self.classes) + self.classes
        hessian[scale, scale] += second
        hessian[scale, bias] += first[: self.classes]
        hessian[bias, scale] += first[: self.classes]
        hessian[bias, bias] += first[self.classes :]
        return solve_semidefinite(hessian, gradient)
