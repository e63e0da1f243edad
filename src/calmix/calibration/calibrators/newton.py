"""Damped Newton for smooth convex objectives of several parameters.

Scale and bias problems of calibration are convex; Newton reaches their optimum to rounding in a few passes
over the rows, where first-order methods stop at some tolerance.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.sparse.linalg import LinearOperator, cg

from calmix.calibration.input_checks import Floats

_MOST_STEPS = 100
# Half the decrement is what is left to gain. From here the next step ends below the value's rounding.
_LAST_DECREMENT = 1e-13
# Of the values of a mean loss, with room to spare.
_ROUNDING = 1e-10


class Objective(ABC):
    """A convex function; `newton_step` belongs to the point that was evaluated last."""

    @abstractmethod
    def evaluate(self, parameters: Floats) -> tuple[float, Floats]:
        """Value and gradient."""

    @abstractmethod
    def newton_step(self, gradient: Floats) -> Floats:
        """A solution of Hessian @ step = -gradient."""


class Solution(NamedTuple):
    """Where `damped_newton` ended."""

    parameters: Floats
    value: float
    steps: int
    converged: bool


def damped_newton(objective: Objective, start: Floats) -> Solution:
    """Newton steps, halved until the value falls by at least a ten-thousandth of what the slope promises.

    (x - 3)^2 from 0 takes one step, and one that confirms it:

    >>> class Parabola(Objective):
    ...     def evaluate(self, x):
    ...         return float((x[0] - 3) ** 2), 2 * (x - 3)
    ...     def newton_step(self, gradient):
    ...         return -gradient / 2
    >>> damped_newton(Parabola(), np.array([0.0]))
    Solution(parameters=array([3.]), value=0.0, steps=2, converged=True)
    """
    parameters = start
    value, gradient = objective.evaluate(parameters)
    for steps in range(_MOST_STEPS):
        step = objective.newton_step(gradient)
        decrement = -float(gradient @ step)
        if decrement <= _LAST_DECREMENT:
            last = parameters + step
            reached = objective.evaluate(last)[0]
            # Where the Hessian has all but vanished, as on separable rows, the step may be rounding alone.
            if reached > value + _ROUNDING:
                return Solution(parameters, value, steps, True)
            return Solution(last, reached, steps + 1, True)
        length = 1.0
        while True:
            trial = parameters + length * step
            trial_value, trial_gradient = objective.evaluate(trial)
            # Close to the optimum the promised fall is below the rounding of the value: allow for that.
            if trial_value <= value - 1e-4 * length * decrement + 1e-14 * abs(value):
                break
            length /= 2
            if length < 1e-10:
                return Solution(parameters, value, steps, False)
        parameters, value, gradient = trial, trial_value, trial_gradient
    return Solution(parameters, value, _MOST_STEPS, False)


def solve_semidefinite(hessian: Floats, gradient: Floats) -> Floats:
    """-hessian^-1 gradient for a positive semi-definite matrix.

    Softmax does not see a shift of all biases: the Hessian is singular along it, and the gradient is zero
    but for rounding. A small ridge keeps that rounding small, and slows the steps by as little.

    >>> solve_semidefinite(np.array([[1.0, -1.0], [-1.0, 1.0]]), np.array([2.0, -2.0])).round(6).tolist()
    [-1.0, 1.0]
    """
    ridge = 1e-10 * np.diag(hessian).max() + np.finfo(np.float64).tiny
    return np.asarray(-np.linalg.solve(hessian + ridge * np.eye(len(hessian)), gradient))


def conjugate_gradient_step(
    product: Callable[[Floats], Floats], diagonal: Floats, gradient: Floats
) -> Floats:
    """-Hessian^-1 gradient from `product` (Hessian @ direction) alone, scaled by the Hessian's diagonal.

    A singular Hessian does no harm as long as the gradient has no part along the singular direction.

    >>> matrix = np.array([[2.0, 1.0], [1.0, 2.0]])
    >>> conjugate_gradient_step(matrix.__matmul__, np.diag(matrix), np.array([0.03, 0.0])).round(6).tolist()
    [-0.02, 0.01]
    """
    size = len(gradient)
    inverse = 1 / np.maximum(diagonal, 1e-12 * diagonal.max() + np.finfo(np.float64).tiny)
    step, _ = cg(
        LinearOperator((size, size), matvec=product, dtype=np.float64),
        -gradient,
        # Loose far from the optimum, tight close to it: the Newton steps then converge faster than linearly.
        rtol=min(0.1, float(np.linalg.norm(gradient)) ** 0.5),
        maxiter=200,
        M=LinearOperator((size, size), matvec=lambda direction: inverse * direction, dtype=np.float64),
    )
    return np.asarray(step)
