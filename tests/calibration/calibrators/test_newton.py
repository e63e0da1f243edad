"""The damped Newton iteration on functions whose minimum is known."""

from __future__ import annotations

import numpy as np
import pytest

from calmix.calibration.calibrators.newton import (
    Objective,
    conjugate_gradient_step,
    damped_newton,
    solve_semidefinite,
)


class LogCosh(Objective):
    """sum log cosh(x): far from 0 a full Newton step overshoots ever further."""

    def evaluate(self, parameters):
        self.point = parameters
        return float((np.logaddexp(parameters, -parameters) - np.log(2)).sum()), np.tanh(parameters)

    def newton_step(self, gradient):
        return -gradient * np.cosh(self.point) ** 2


class Unbounded(Objective):
    """exp(-x): no minimum, the steps never end."""

    def evaluate(self, parameters):
        self.value = np.exp(-parameters)
        return float(self.value[0]), -self.value

    def newton_step(self, gradient):
        return -gradient / self.value


class NotANumber(Objective):
    def evaluate(self, parameters):
        return (1.0 if not parameters.any() else np.nan), np.ones(1)

    def newton_step(self, gradient):
        return -gradient


def test_damping_converges_where_plain_newton_diverges():
    solution = damped_newton(LogCosh(), np.array([3.0, -5.0]))
    assert solution.converged
    np.testing.assert_allclose(solution.parameters, 0, atol=1e-7)


def test_a_function_without_minimum_stops_where_nothing_is_left_to_gain():
    solution = damped_newton(Unbounded(), np.zeros(1))
    assert solution.value < 1e-13
    assert solution.steps < 40


class Vanishing(Unbounded):
    """As `Unbounded`, but where the curvature has vanished the step is nothing but rounding."""

    def newton_step(self, gradient):
        return super().newton_step(gradient) if self.value[0] > 1e-12 else np.array([-25.0])


def test_a_last_step_of_rounding_alone_is_not_taken():
    solution = damped_newton(Vanishing(), np.zeros(1))
    assert solution.converged
    assert solution.value < 1e-12


def test_a_step_that_never_improves_ends_the_search_unconverged():
    solution = damped_newton(NotANumber(), np.zeros(1))
    assert not solution.converged
    np.testing.assert_array_equal(solution.parameters, 0)


@pytest.mark.parametrize("rank", [6, 5])
def test_both_solvers_solve_definite_and_singular_systems(rank):
    generator = np.random.default_rng(rank)
    root = generator.normal(size=(6, rank))
    matrix = root @ root.T
    gradient = 1e-9 * matrix @ generator.normal(size=6)
    for step in (
        solve_semidefinite(matrix, gradient),
        conjugate_gradient_step(matrix.__matmul__, np.diag(matrix), gradient),
    ):
        np.testing.assert_allclose(matrix @ step, -gradient, atol=1e-4 * np.linalg.norm(gradient))
