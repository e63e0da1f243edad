"""Structured scaling: a full matrix and a bias, held close to temperature scaling.

    calibrated logits = W x + b,    x = the temperature-scaled logits

W and b minimise, with n rows and C classes,

    mean NLL + (C/n) [intercept |b|^2 + diagonal |diag(W) - 1|^2 + (C - 1) off_diagonal |off-diag(W)|^2]

so that few rows stay close to temperature scaling, and many rows give as much of matrix scaling as they
support. The penalty is the default of the authors' package. `structure="vector"` drops the off-diagonal part.
With fewer than 200 rows the result is temperature scaling itself.

Reference: Berta, Holzmüller, Jordan & Bach, Structured Matrix Scaling for Multi-Class Calibration, AISTATS
2026 (SMS is `structure="matrix"`, SVS `structure="vector"`).
"""

from __future__ import annotations

import warnings
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array
from scipy.special import log_softmax
from sklearn.utils.validation import check_is_fitted

from calmix.calibration.calibrators.calibrator import Calibrator
from calmix.calibration.calibrators.folds import count_rows
from calmix.calibration.calibrators.newton import (
    Objective,
    conjugate_gradient_step,
    damped_newton,
    solve_semidefinite,
)
from calmix.calibration.calibrators.temperature import TemperatureLoss, best_temperature, warn_without_errors
from calmix.calibration.calibrators.vector import VectorLoss
from calmix.calibration.input_checks import Floats, Integers

# Up to here the full Hessian costs less than the products that conjugate gradients would need.
_MOST_PARAMETERS_DENSE = 400
# With fewer rows temperature scaling is better as often as not (benchmarks/structured_defaults.py).
MINIMUM_ROWS = 200
# Numbers of one block of rows in the Hessian's sums.
_BLOCK_NUMBERS = 200_000


class StructuredScaling(Calibrator):
    """Matrix (or vector) scaling with a penalty that grows with the classes and fades with the rows.

    `coordinates` says what x is. Softmax does not see a shift of a row's logits but a penalised W does, so
    the shift must be fixed:

        "log-probabilities"  x = log of softmax(z/T) mixed with 1/(n + 1) of the uniform distribution,
                             as in the authors' package. Not affine in z: it does not fold.
        "centred"            x = z/T minus its mean over the classes.
                             Affine in z: it folds into a linear head.

    benchmarks/structured_defaults.py, 24 classifiers: log-probabilities have the lower NLL on average at
    every number of rows from 20 to 2,000, and from 200 rows on both beat temperature scaling on three in
    four or more. `minimum_rows` is that number; below it, W = I and b = 0 in centred coordinates.

    Attributes after `fit`:
        is_temperature_: True where there were too few rows for more than temperature scaling.
        matrix_: W, [C, C].
        bias_: b, [C].
        temperature_: T; rows_: n.
        nll_before_, nll_after_: mean negative log-likelihood of the fitting rows, without the penalty.
        n_iter_, converged_: Newton steps, and whether they reached the optimum.

    >>> calibrator = StructuredScaling(intercept_penalty=0).fit([[0.0, 0.0]] * 400, [0, 0, 0, 1] * 100)
    >>> calibrator.predict_proba([[0.0, 0.0]]).round(6).tolist()  # the share of each class
    [[0.75, 0.25]]
    >>> abs(calibrator.matrix_ - np.eye(2)).max() < 1e-9  # nothing to learn from constant logits
    np.True_
    """

    kind: ClassVar[str] = "structured"

    is_temperature_: bool
    matrix_: Floats
    bias_: Floats
    temperature_: float
    rows_: int
    n_iter_: int
    converged_: bool

    def __init__(
        self,
        structure: str = "matrix",
        coordinates: str = "log-probabilities",
        intercept_penalty: float = 1.0,
        diagonal_penalty: float = 1.0,
        off_diagonal_penalty: float = 1.0,
        minimum_rows: int = MINIMUM_ROWS,
    ) -> None:
        self.structure = structure
        self.coordinates = coordinates
        self.intercept_penalty = intercept_penalty
        self.diagonal_penalty = diagonal_penalty
        self.off_diagonal_penalty = off_diagonal_penalty
        self.minimum_rows = minimum_rows

    @property
    def folds(self) -> bool:
        return self._is_centred

    @property
    def _is_centred(self) -> bool:
        return self.coordinates == "centred" or getattr(self, "is_temperature_", False)

    def _fit(
        self,
        logits: npt.NDArray[Any],
        labels: Integers,
        weights: Floats | None,
        row_of_copy: Integers | None,
    ) -> None:
        self._check_parameters()
        self.rows_, classes = count_rows(labels, row_of_copy), logits.shape[1]
        temperature_loss = TemperatureLoss(logits, labels, weights, rows=count_rows(labels, row_of_copy))
        optimum = best_temperature(temperature_loss)
        warn_without_errors(temperature_loss, optimum, stacklevel=4)
        self.temperature_ = 1 / optimum.beta
        self.is_temperature_ = self.rows_ < self.minimum_rows
        if self.is_temperature_:
            self.matrix_, self.bias_ = np.eye(classes), np.zeros(classes)
            self.n_iter_, self.converged_ = 0, True
            self._record_losses(logits, labels, weights)
            warnings.warn(
                f"{self.rows_} rows are too few for structured scaling: below {self.minimum_rows} it is "
                "temperature scaling",
                stacklevel=4,
            )
            return
        x = self._features(logits)
        strength = classes / self.rows_
        if self.structure == "vector":
            penalty = strength * np.repeat([self.diagonal_penalty, self.intercept_penalty], classes)
            vector_loss = VectorLoss(x, labels, weights, penalty)
            solution = damped_newton(vector_loss, vector_loss.anchor)
            self.matrix_ = np.diag(solution.parameters[:classes])
            self.bias_ = solution.parameters[classes:]
        else:
            penalties = np.full((classes, classes + 1), (classes - 1) * self.off_diagonal_penalty)
            np.fill_diagonal(penalties, self.diagonal_penalty)
            penalties[:, -1] = self.intercept_penalty
            matrix_loss = MatrixLoss(x, labels, weights, strength * penalties)
            solution = damped_newton(matrix_loss, matrix_loss.anchor.ravel())
            both = solution.parameters.reshape(classes, classes + 1)
            self.matrix_, self.bias_ = both[:, :-1].copy(), both[:, -1].copy()
        self.n_iter_ = solution.steps
        self.converged_ = solution.converged
        self._record_losses(logits, labels, weights)

    def _check_parameters(self) -> None:
        if self.structure not in ("matrix", "vector"):
            raise ValueError(f"structure must be 'matrix' or 'vector', got {self.structure!r}")
        if self.coordinates not in ("centred", "log-probabilities"):
            raise ValueError(
                f"coordinates must be 'centred' or 'log-probabilities', got {self.coordinates!r}"
            )
        for name in ("intercept_penalty", "diagonal_penalty", "off_diagonal_penalty"):
            value = getattr(self, name)
            if not (np.isfinite(value) and value >= 0):
                raise ValueError(f"{name} must be finite and not negative, got {value}")
        if self.minimum_rows < 0:
            raise ValueError(f"minimum_rows must not be negative, got {self.minimum_rows}")

    def _features(self, logits: npt.NDArray[Any]) -> Floats:
        scaled = logits.astype(np.float64) / self.temperature_
        if self._is_centred:
            return np.asarray(scaled - scaled.mean(axis=1, keepdims=True))
        uniform = 1 / (self.rows_ + 1)
        # log((1 - u) p + u / C) without leaving the logarithm, where p may underflow.
        kept = log_softmax(scaled, axis=1) + np.log1p(-uniform)
        return np.asarray(np.logaddexp(kept, np.log(uniform / self.n_features_in_)))

    def _transform(self, logits: Floats) -> Floats:
        """W x + b."""
        scaled: Floats = self._features(logits) @ self.matrix_.T + self.bias_
        return scaled

    def affine(self) -> tuple[Floats, Floats]:
        """(W (I - 11'/C) / T, b): the centring and the temperature are in the matrix."""
        check_is_fitted(self)
        if not self.folds:
            raise ValueError(
                "structured scaling of log-probabilities is not affine in the logits: no folding"
            )
        centred = self.matrix_ - self.matrix_.mean(axis=1, keepdims=True)
        return centred / self.temperature_, self.bias_.copy()


class MatrixLoss(Objective):
    """Mean negative log-likelihood of softmax(V [x, 1]), plus sum(penalty * (V - [I, 0])^2); V is [C, C + 1].

    With p = softmax, f = [x, 1] and D a direction:

        gradient     mean((p - onehot(y)) f')
        Hessian D    mean(p * (D f - p'D f) f')
    """

    def __init__(self, x: Floats, labels: Integers, weights: Floats | None, penalty: Floats) -> None:
        rows, self.classes = x.shape
        self.features: Floats = np.concatenate([x, np.ones((rows, 1))], axis=1)
        self.weights = np.full(rows, 1 / rows) if weights is None else weights
        self.penalty = penalty
        self.anchor: Floats = np.eye(self.classes, self.classes + 1)
        # The part of the gradient that the labels select does not depend on the parameters.
        gold = csr_array((self.weights, (labels, np.arange(rows))), shape=(self.classes, rows))
        self.gold_sums: Floats = gold @ self.features

    def evaluate(self, parameters: Floats) -> tuple[float, Floats]:
        matrix = parameters.reshape(self.anchor.shape)
        scores = self.features @ matrix.T
        largest = scores.max(axis=1)
        scores -= largest[:, None]
        np.exp(scores, out=scores)
        partition = scores.sum(axis=1)
        scores /= partition[:, None]
        self.probabilities = scores
        departure = matrix - self.anchor
        value = self.weights @ (np.log(partition) + largest) - np.vdot(matrix, self.gold_sums)
        gradient = self._sums(scores) - self.gold_sums + 2 * self.penalty * departure
        return float(value + np.vdot(self.penalty, departure**2)), gradient.ravel()

    def _sums(self, values: Floats) -> Floats:
        """mean(values f'), [C, C + 1]."""
        sums: Floats = (values * self.weights[:, None]).T @ self.features
        return sums

    def hessian_product(self, direction: Floats) -> Floats:
        moves = direction.reshape(self.anchor.shape)
        change = self.features @ moves.T
        change -= np.einsum("nk,nk->n", self.probabilities, change)[:, None]
        change *= self.probabilities
        return (self._sums(change) + 2 * self.penalty * moves).ravel()

    def hessian_diagonal(self) -> Floats:
        spread = self.probabilities * (1 - self.probabilities) * self.weights[:, None]
        return (spread.T @ self.features**2 + 2 * self.penalty).ravel()

    def hessian(self) -> Floats:
        """The full matrix, parameters in the order of V's rows."""
        classes, width = self.anchor.shape
        rows_per_block = max(_BLOCK_NUMBERS // self.anchor.size, 1)
        hessian = np.zeros((classes * width, classes * width))
        blocks = np.zeros((width, classes * width))
        for begin in range(0, len(self.features), rows_per_block):
            part = slice(begin, begin + rows_per_block)
            features, root = self.features[part], np.sqrt(self.weights[part, None])
            outer = (self.probabilities[part] * root)[:, :, None] * features[:, None, :]
            outer = outer.reshape(len(features), -1)
            hessian -= outer.T @ outer
            blocks += (features * root).T @ outer
        for k in range(classes):
            own = slice(k * width, (k + 1) * width)
            hessian[own, own] += blocks[:, own]
        hessian[np.diag_indices_from(hessian)] += 2 * self.penalty.ravel()
        return hessian

    def newton_step(self, gradient: Floats) -> Floats:
        if self.anchor.size <= _MOST_PARAMETERS_DENSE:
            return solve_semidefinite(self.hessian(), gradient)
        return conjugate_gradient_step(self.hessian_product, self.hessian_diagonal(), gradient)
