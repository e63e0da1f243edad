"""Shrunk scaling: one temperature and a bias of every class, held close to no change.

    calibrated logits = z / T + b,   β = 1/T
    minimise  mean NLL  +  penalty / 2 [(β - 1)^2 + sum_k b_k^2]

The logits z are those of a model that is calibrated for its own domain, so β = 1 and b = 0 keep it as it is.
A penalty of 0 is maximum likelihood, an infinite one leaves the logits alone. The problem is convex; β stays
above 0.01, so that labels which contradict the logits cannot turn them round.

A temperature answers for a domain in which the model is wrong more often, a bias for classes that are more or
less common there. `penalty` is chosen by cross-validation in `calibration.adaptation`.
"""

from __future__ import annotations

import math
import warnings
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import numpy.typing as npt
from sklearn.utils.validation import check_is_fitted

from calmix.calibration.calibrators.calibrator import Calibrator
from calmix.calibration.input_checks import Floats, Integers

LOWEST_SCALE = 0.01
_MOST_STEPS = 100
_LAST_DECREMENT = 1e-13


class ShrunkScaling(Calibrator):
    """Divide logits by a temperature and add a bias to every class, both held close to no change.

    A `penalty` of None is an infinite one; one of λ / n is a prior of variance 1 / λ on β and every bias.
    `biases=False` fits the temperature alone: the choices of a question have no classes.

    Attributes after `fit`:
        temperature_, bias_: biases sum to 0 (softmax does not see their mean).
        at_bound_: True where the labels contradict the logits and only the bound holds the temperature.
        nll_before_, nll_after_: mean negative log-likelihood of the fitting rows, without the penalty.
        converged_: False where there is no finite optimum (without a penalty: separable or missing classes).

    Logits that say nothing, and three rows in four of class 0: without a penalty the log-odds, with an
    infinite one no change.

    >>> rows, labels = [[0.0, 0.0]] * 4, [0, 0, 0, 1]
    >>> ShrunkScaling(penalty=0.0).fit(rows, labels).predict_proba(rows[:1]).round(6).tolist()
    [[0.75, 0.25]]
    >>> ShrunkScaling(penalty=None).fit(rows, labels).predict_proba(rows[:1]).tolist()
    [[0.5, 0.5]]
    """

    kind: ClassVar[str] = "shrunk"

    temperature_: float
    bias_: Floats
    at_bound_: bool
    converged_: bool

    def __init__(self, penalty: float | None = 0.1, biases: bool = True) -> None:
        self.penalty = penalty
        self.biases = biases

    @classmethod
    def of(cls, temperature: float, bias: npt.ArrayLike, *, penalty: float = 0.0) -> Self:
        """The scaling with these numbers, found in another way than by `fit`.

        >>> ShrunkScaling.of(2.0, [0.0, 1.0]).transform([[2.0, 0.0]]).tolist()
        [[0.5, 0.5]]
        """
        made = cls(penalty=penalty)
        shifts = np.asarray(bias, dtype=np.float64)
        made.temperature_, made.bias_ = float(temperature), shifts - shifts.mean()
        made.at_bound_, made.converged_ = False, True
        made.n_features_in_, made.classes_ = len(shifts), np.arange(len(shifts))
        return made

    def _fit(
        self,
        logits: npt.NDArray[Any],
        labels: Integers,
        weights: Floats | None,
        row_of_copy: Integers | None,
    ) -> None:
        penalty = math.inf if self.penalty is None else float(self.penalty)
        if math.isnan(penalty) or penalty < 0:
            raise ValueError(f"penalty must not be negative, got {self.penalty}")
        rows, classes = logits.shape
        parameters, self.converged_ = np.repeat([1.0, 0.0], [1, classes]), True
        if penalty < math.inf:
            shares = np.full(rows, 1 / rows) if weights is None else weights
            penalties = np.array([penalty])
            found = shrunk_optima(logits, labels, shares[None], penalties, biases=self.biases)
            parameters, self.converged_ = found.parameters[0], bool(found.converged[0])
        self.at_bound_ = bool(parameters[0] == LOWEST_SCALE)
        self.temperature_ = float(1 / parameters[0])
        self.bias_ = parameters[1:] - parameters[1:].mean()
        self._record_losses(logits, labels, weights)
        if not self.converged_:
            warnings.warn(
                "these rows have no finite optimum without a penalty: use penalty > 0", stacklevel=4
            )

    def _transform(self, logits: Floats) -> Floats:
        """logits / T + b."""
        return logits / self.temperature_ + self.bias_

    def folding(self) -> tuple[float, Floats | float]:
        """(1/T, b); the bias is 0 where there is none, so that it folds into heads without one."""
        check_is_fitted(self)
        return 1 / self.temperature_, self.bias_.copy() if self.bias_.any() else 0.0


class Optima(NamedTuple):
    """Where `shrunk_optima` ended, problem by problem."""

    parameters: Floats
    """[problems, 1 + C]: β, then the biases."""
    converged: npt.NDArray[np.bool_]


def shrunk_optima(
    logits: npt.NDArray[Any],
    labels: npt.NDArray[Any],
    weights: Floats,
    penalties: Floats,
    *,
    biases: bool = True,
) -> Optima:
    """The optima of several problems about the same rows, solved side by side.

    `labels` are class indices [rows] or soft labels [rows, C]. `weights` [problems, rows] sum to one in every
    problem; there is one of `penalties` for each. Cross-validation is such a set of problems: a row that is
    left out has no weight.
    """
    loss = ScaleBiasLosses(logits, labels, weights, penalties, biases=biases)
    parameters = np.repeat(loss.anchor[None], len(weights), axis=0)
    found = minimised(loss, parameters)
    # Convex: where β would end below its bound, the best allowed β is the bound.
    below = np.flatnonzero(found.parameters[:, 0] < LOWEST_SCALE)
    if len(below):
        bounded = ScaleBiasLosses(logits, labels, weights[below], penalties[below], biases=biases)
        bounded.free[0] = False
        parameters = parameters[below]
        parameters[:, 0] = LOWEST_SCALE
        again = minimised(bounded, parameters)
        found.parameters[below], found.converged[below] = again
    return found


def minimised(loss: ScaleBiasLosses, parameters: Floats) -> Optima:
    """Newton steps, halved problem by problem until the value falls as the slope promises (`newton`)."""
    value, gradient = loss.evaluate(parameters)
    converged = np.zeros(len(parameters), dtype=np.bool_)
    for _ in range(_MOST_STEPS):
        step = loss.newton_step(gradient)
        decrement = -(gradient * step).sum(axis=1)
        converged |= decrement <= _LAST_DECREMENT
        length = np.where(converged, 0.0, 1.0)
        while True:
            trial = parameters + length[:, None] * step
            trial_value, trial_gradient = loss.evaluate(trial)
            failed = trial_value > value - 1e-4 * length * decrement + 1e-14 * np.abs(value)
            if not failed.any():
                break
            length = np.where(failed, length / 2, length)
            length[length < 1e-10] = 0.0
        parameters, value, gradient = trial, trial_value, trial_gradient
        if not length.any():
            break
    return Optima(parameters, converged)


class ScaleBiasLosses:
    """Mean negative log-likelihoods of softmax(β z + b) with the penalty.

    With p = softmax, for β and the biases of classes k, l:

        gradient  mean(E_p[z] - z_y),  mean(p_k - [k = y])
        Hessian   mean(Var_p[z]),  mean(p_k (z_k - E_p[z])),  mean([k = l] p_k - p_k p_l)

    Only the parameters that are `free` move.
    """

    def __init__(
        self,
        logits: npt.NDArray[Any],
        labels: npt.NDArray[Any],
        weights: Floats,
        penalties: Floats,
        *,
        biases: bool,
    ) -> None:
        classes = logits.shape[1]
        self.z: Floats = logits - logits.max(axis=1, keepdims=True).astype(np.float64)
        self.weights = weights
        self.penalty = penalties
        targets = np.eye(classes)[labels] if labels.ndim == 1 else labels
        gold = weights @ (targets * self.z).sum(axis=1)
        self.gold: Floats = np.concatenate([gold[:, None], weights @ targets], axis=1)
        self.anchor: Floats = np.concatenate([[1.0], np.zeros(classes)])
        self.free = np.concatenate([[True], np.full(classes, biases)])

    def evaluate(self, parameters: Floats) -> tuple[Floats, Floats]:
        """Values [problems] and gradients [problems, 1 + C]."""
        scores = parameters[:, :1, None] * self.z + parameters[:, None, 1:]
        largest = scores.max(axis=2, keepdims=True)
        np.exp(np.subtract(scores, largest, out=scores), out=scores)
        partition = scores.sum(axis=2, keepdims=True)
        scores /= partition
        self.probabilities: Floats = scores
        self.mean: Floats = (scores * self.z).sum(axis=2)
        departure = parameters - self.anchor
        normaliser = (np.log(partition) + largest)[..., 0]
        value = (
            (self.weights * normaliser).sum(axis=1)
            - (parameters * self.gold).sum(axis=1)
            + self.penalty / 2 * (departure**2).sum(axis=1)
        )
        slope = (self.weights * self.mean).sum(axis=1)
        shares = np.einsum("pr,prc->pc", self.weights, scores)
        expected = np.concatenate([slope[:, None], shares], axis=1)
        return value, (expected - self.gold + self.penalty[:, None] * departure) * self.free

    def newton_step(self, gradient: Floats) -> Floats:
        """A solution of Hessian @ step = -gradient, problem by problem, at the point evaluated last."""
        weighted = self.probabilities * self.weights[..., None]
        centred = self.z - self.mean[..., None]
        problems, size = gradient.shape
        hessian = np.empty((problems, size, size))
        hessian[:, 0, 0] = (weighted * centred**2).sum(axis=(1, 2))
        hessian[:, 0, 1:] = hessian[:, 1:, 0] = (weighted * centred).sum(axis=1)
        hessian[:, 1:, 1:] = -weighted.transpose(0, 2, 1) @ self.probabilities
        diagonal = np.arange(1, size)
        hessian[:, diagonal, diagonal] += weighted.sum(axis=1)
        places = np.flatnonzero(self.free)
        if not len(places):
            return np.zeros_like(gradient)
        inner = hessian[:, places[:, None], places]
        # Softmax does not see a shift of all biases: a small ridge where there is no penalty.
        largest = np.diagonal(inner, axis1=1, axis2=2).max(axis=1)
        ridge = self.penalty + 1e-10 * largest + np.finfo(np.float64).tiny
        inner = inner + ridge[:, None, None] * np.eye(len(places))
        step = np.zeros_like(gradient)
        step[:, places] = -np.linalg.solve(inner, gradient[:, places, None])[..., 0]
        return step
