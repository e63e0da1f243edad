"""Temperature scaling: one number that all logits are divided by.

    calibrated logits = z / T,   T minimises NLL(T) = mean_i -log softmax(z_i / T)_{y_i}

NLL is convex in beta = 1/T, with

    gradient   mean(E_p[z] - z_y)
    curvature  mean(Var_p[z]),        p = softmax(beta z)

so a safeguarded Newton iteration on beta finds the optimum for any scale of the logits, where a few dozen
gradient steps from a fixed start stop short of it. The search is free of scale: it starts at a tenth of the
widest gap between two logits of a row, and ends at the latest a hundred times above that gap (all
probabilities equal) or a million times below it.

Rows without an error have no optimum: sharper is always better. With fewer than five errors a guard counts
up to a quarter of an error more, spread over the rows, at the runner-up of each:

    NLL'(T) = (1 - e) NLL(T) + e mean_i -log softmax(z_i / T)_{runner-up of i},   e = w / (n + w)
    w = 0.25 (1 - errors / 5)

It keeps confidence near 1 - w/n where no row is wrong, whatever the scale, and is off from five errors on:
then the result is the plain optimum. benchmarks/temperature_guard.py compares it with other guards.

Accuracy never changes. References: Guo, Pleiss, Sun & Weinberger, ICML 2017. `preset="paper"` is the grid
that Park & Caragea (ACL 2022) state, 0.01 to 5.00; the search goes back to Desai & Durrett (EMNLP 2020).
"""

from __future__ import annotations

import copy
import math
import warnings
from collections.abc import Callable
from typing import Any, ClassVar, Literal, NamedTuple, Self

import numpy as np
import numpy.typing as npt
from sklearn.utils.validation import check_is_fitted

from calmix.calibration.calibrators.calibrator import Calibrator
from calmix.calibration.calibrators.folds import count_rows
from calmix.calibration.input_checks import Floats, Integers

# T lies between these two times the widest gap between two logits of a row.
LOWEST_TEMPERATURE = 1e-6
HIGHEST_TEMPERATURE = 100.0
_START = 0.1
PAPER_GRID_POINTS = 500  # T = 0.01, 0.02, ..., 5.00
# From so many errors on the rows speak for themselves; without any, so much of one is assumed.
GUARDED_BELOW = 5.0
ASSUMED_ERRORS = 0.25

# Newton squares the relative error, so a step this small leaves an error near 1e-14.
_CONVERGED_STEP = 1e-7
_MOST_PASSES = 200
# The optimum of a few thousand rows is within a per cent or so: two or three passes over all rows remain.
_WARM_START_ROWS = 4096
# Squares of wider gaps overflow.
_WIDEST_ROW = 1e150
# Numbers of one block: two buffers of this size stay in a core's cache.
_BLOCK_NUMBERS = 40_960


class TemperatureScaling(Calibrator):
    """Divide logits by the temperature that minimises the negative log-likelihood.

    `preset="paper"` returns the best of T = 0.01, 0.02, ..., 5.00, as an exhaustive search would (the first
    of equals); by default the continuous optimum. `guard` assumes a small share of an error where fewer than
    five rows are misclassified (see the module); the paper's grid is never guarded. With sample weights,
    errors are counted as their share of the weight times the number of rows.

    Attributes after `fit`:
        temperature_: the fitted T.
        at_bound_: "lower" or "upper" where the optimum lies outside the range searched, else None. "lower"
            means that no row is wrong and nothing guards the fit, "upper" that the logits say (nearly)
            nothing about the labels: the best 1/T is 0 or less.
        guarded_: True where the guard was at work.
        nll_before_, nll_after_: mean negative log-likelihood at T = 1 and at the fitted T.
        n_iter_: passes over all rows.

    The larger logit is right in 15 rows of 20: p = 3/4 = sigmoid(2 / T), so T = 2 / log 3.

    >>> logits, labels = [[2.0, 0.0]] * 20, [0] * 15 + [1] * 5
    >>> calibrator = TemperatureScaling().fit(logits, labels)
    >>> round(calibrator.temperature_, 6), round(2 / math.log(3), 6)
    (1.820478, 1.820478)
    >>> calibrator.predict_proba([[2.0, 0.0]]).round(6).tolist()
    [[0.75, 0.25]]
    >>> TemperatureScaling(preset="paper").fit(logits, labels).temperature_
    1.82
    """

    kind: ClassVar[str] = "temperature"

    temperature_: float
    at_bound_: str | None
    guarded_: bool
    n_iter_: int

    def __init__(self, preset: str | None = None, guard: bool = True) -> None:
        self.preset = preset
        self.guard = guard

    @classmethod
    def of(cls, temperature: float, classes: int, *, preset: str | None = None) -> Self:
        """The scaling by a temperature that is known.

        >>> TemperatureScaling.of(2.0, 2).transform([[2.0, 0.0]]).tolist()
        [[1.0, 0.0]]
        """
        made = cls(preset=preset)
        made.temperature_, made.at_bound_, made.guarded_ = float(temperature), None, False
        made.n_features_in_, made.classes_ = classes, np.arange(classes)
        return made

    def _fit(
        self,
        logits: npt.NDArray[Any],
        labels: Integers,
        weights: Floats | None,
        row_of_copy: Integers | None,
    ) -> None:
        if self.preset not in (None, "paper"):
            raise ValueError(f"preset must be None or 'paper', got {self.preset!r}")
        loss = TemperatureLoss(logits, labels, weights, rows=count_rows(labels, row_of_copy))
        optimum = best_temperature(loss, guard=self.guard and self.preset is None)
        self.nll_before_ = loss.nll(1.0)
        self.nll_after_ = optimum.nll
        self.temperature_ = 1 / optimum.beta
        self.at_bound_ = optimum.bound
        self.guarded_ = optimum.guarded
        self.n_iter_ = optimum.passes
        if self.preset == "paper":
            self._snap_to_grid(loss)
        self._warn_at_bound()
        warn_without_errors(loss, optimum, stacklevel=4)

    def _snap_to_grid(self, loss: TemperatureLoss) -> None:
        """The better grid neighbour of the continuous optimum: NLL falls before it and rises after it."""
        exact = self.temperature_
        below = min(max(math.floor(exact * 100), 1), PAPER_GRID_POINTS)
        if loss.is_constant:
            below = 1  # all grid points are equal: a search keeps the first
        candidates = [k / 100 for k in (below, below + 1) if k <= PAPER_GRID_POINTS]
        losses = [loss.nll(1 / temperature) for temperature in candidates]
        best = int(np.argmin(losses))
        self.temperature_, self.nll_after_ = candidates[best], losses[best]
        last = PAPER_GRID_POINTS / 100
        self.at_bound_ = "upper" if exact > last else "lower" if exact < 0.01 else None

    def _warn_at_bound(self) -> None:
        if self.at_bound_ == "lower":
            reason = "no row, or nearly none, is misclassified: sharper is always better on these rows"
        elif self.at_bound_ == "upper":
            reason = (
                "the logits say (nearly) nothing about the labels: flatter is always better on these rows"
            )
        else:
            return
        warnings.warn(
            f"the temperature hit its {self.at_bound_} bound {self.temperature_:g}; {reason}", stacklevel=5
        )

    def _transform(self, logits: Floats) -> Floats:
        """logits / T."""
        return logits / self.temperature_

    def folding(self) -> tuple[float, float]:
        """(1/T, 0)."""
        check_is_fitted(self)
        return 1 / self.temperature_, 0.0


class Derivatives(NamedTuple):
    """Mean negative log-likelihood at one beta, and its first two derivatives."""

    nll: float
    gradient: float
    curvature: float


class Optimum(NamedTuple):
    """Where `minimise` ended."""

    beta: float
    nll: float
    bound: str | None
    passes: int
    guarded: bool = False


class TemperatureLoss:
    """NLL as a function of beta.

    Logits are held minus their row maximum: exp(beta s) is in (0, 1] and its row sum at least 1 for any
    beta > 0. With few classes they are held class by class, so that sums over classes run along memory.
    Rows go through in blocks that stay in cache.
    """

    def __init__(
        self,
        logits: npt.NDArray[Any],
        labels: Integers,
        weights: Floats | None,
        *,
        rows: int | None = None,
    ) -> None:
        """`rows`: how many the weights stand for, where some are copies of one (see `count_rows`)."""
        given, classes = logits.shape
        self.weights = weights
        self.counted: float = given if rows is None else rows
        layout: Literal["C", "F"] = "C" if classes <= 64 else "F"
        self.shifted: Floats = np.array(logits.T, dtype=np.float64, order=layout)
        self.shifted -= self.shifted.max(axis=0)
        self.widest = -float(self.shifted.min())
        if self.widest > _WIDEST_ROW:
            raise ValueError(f"logits of one row lie {self.widest:.3g} apart; the limit is {_WIDEST_ROW:g}")
        self._prepare(self.shifted[labels, np.arange(given)])

    def _prepare(self, gold: Floats) -> None:
        self.gold = gold
        self.gold_mean = self._over_rows(self._sum(gold, 0))
        self.rows_per_block = max(_BLOCK_NUMBERS // len(self.shifted), 1)
        self.buffer = np.empty_like(self.shifted[:, : self.rows_per_block])

    @property
    def rows(self) -> int:
        return int(self.shifted.shape[1])

    def every(self, stride: int) -> TemperatureLoss:
        """The loss of every `stride`-th row."""
        part = copy.copy(self)
        part.shifted = np.array(self.shifted[:, ::stride], order="K")
        if self.weights is not None:
            chosen = self.weights[::stride]
            part.weights = chosen / chosen.sum()
        part.counted = self.counted * part.rows / self.rows
        part._prepare(self.gold[::stride])
        return part

    @property
    def is_constant(self) -> bool:
        """True where every row's logits are equal, or as good as equal."""
        return self.widest <= 1 / _WIDEST_ROW

    @property
    def errors(self) -> float:
        """How many rows have another class above their label."""
        wrong = self._sum((self.gold < 0).astype(np.float64), 0)
        return wrong if self.weights is None else wrong * self.counted

    @property
    def is_separable(self) -> bool:
        """True where the label of every row is above all other classes."""
        return self.errors == 0 and bool((np.partition(self.shifted, -2, axis=0)[-2] < 0).all())

    def guarded(self) -> TemperatureLoss:
        """The loss with a share of an error more, if fewer than five rows are wrong (see the module)."""
        errors = self.errors
        if errors >= GUARDED_BELOW:
            return self
        assumed = ASSUMED_ERRORS * (1 - errors / GUARDED_BELOW)
        share = assumed / (self.counted + assumed)
        runner_up = np.partition(self.shifted, -2, axis=0)[-2]
        tilted = copy.copy(self)
        tilted.gold_mean += share * (self._over_rows(self._sum(runner_up, 0)) - self.gold_mean)
        return tilted

    def nll(self, beta: float) -> float:
        """mean(log sum_k exp(beta s_k)) - beta mean(s_y)."""
        total = 0.0
        for begin in range(0, self.rows, self.rows_per_block):
            shifted = self.shifted[:, begin : begin + self.rows_per_block]
            powers = np.multiply(shifted, beta, out=self.buffer[:, : shifted.shape[1]])
            np.exp(powers, out=powers)
            total += self._sum(np.log(powers.sum(axis=0)), begin)
        return self._over_rows(total) - beta * self.gold_mean

    def __call__(self, beta: float) -> Derivatives:
        log_partition = mean = variance = 0.0
        for begin in range(0, self.rows, self.rows_per_block):
            shifted = self.shifted[:, begin : begin + self.rows_per_block]
            powers = np.multiply(shifted, beta, out=self.buffer[:, : shifted.shape[1]])
            np.exp(powers, out=powers)
            partition = powers.sum(axis=0)
            powers *= shifted
            first = powers.sum(axis=0)
            powers *= shifted
            second = powers.sum(axis=0)
            first /= partition
            second /= partition
            # No cancellation: the top logit is 0 and has p >= 1/C, so the variance is >= mean^2 / (C - 1).
            second -= first * first
            log_partition += self._sum(np.log(partition), begin)
            mean += self._sum(first, begin)
            variance += self._sum(second, begin)
        return Derivatives(
            nll=self._over_rows(log_partition) - beta * self.gold_mean,
            gradient=self._over_rows(mean) - self.gold_mean,
            curvature=self._over_rows(variance),
        )

    def _sum(self, values: Floats, begin: int) -> float:
        if self.weights is None:
            return float(values.sum())
        return float(self.weights[begin : begin + len(values)] @ values)

    def _over_rows(self, total: float) -> float:
        return total / self.rows if self.weights is None else total


def best_temperature(loss: TemperatureLoss, *, guard: bool = True) -> Optimum:
    """The optimal beta = 1/T, first on a sample of the rows and then, from there, on all of them."""
    if loss.is_constant:  # every T gives the same probabilities: leave them alone
        return Optimum(beta=1.0, nll=loss.nll(1.0), bound=None, passes=1)
    # T = 1 is always within reach: no fit is worse than none.
    ends = {
        "lowest": 1 / max(HIGHEST_TEMPERATURE * loss.widest, 1.0),
        "highest": 1 / min(LOWEST_TEMPERATURE * loss.widest, 1.0),
    }
    start = 1 / (_START * loss.widest)
    if loss.rows >= 2 * _WARM_START_ROWS:
        sample = loss.every(loss.rows // _WARM_START_ROWS)
        start = minimise(sample.guarded() if guard else sample, start, **ends).beta
    target = loss.guarded() if guard else loss
    optimum = minimise(target, start, **ends)
    # The loss that is reported is that of the rows alone.
    nll = optimum.nll + optimum.beta * (target.gold_mean - loss.gold_mean)
    return optimum._replace(nll=nll, guarded=target is not loss)


def warn_without_errors(loss: TemperatureLoss, optimum: Optimum, *, stacklevel: int) -> None:
    """Say so where nothing but the guard holds the temperature."""
    if optimum.guarded and loss.errors == 0:
        warnings.warn(
            f"none of the {loss.counted} rows is misclassified, so they do not say how overconfident the "
            f"model is: the temperature assumes {ASSUMED_ERRORS:g} errors; fit on more rows",
            stacklevel=stacklevel + 1,
        )


def minimise(
    loss: Callable[[float], Derivatives], start: float = 1.0, *, lowest: float = 0.01, highest: float = 100.0
) -> Optimum:
    """The beta in [lowest, highest] that minimises a convex loss, by Newton steps inside a shrinking bracket.

    A step that leaves the bracket, or that follows a gradient which fell less than fourfold, is replaced:
    by the end of the range if that was not seen yet, else by the bracket's geometric middle.

    >>> optimum = minimise(lambda b: Derivatives(b - 1 - math.log(b), 1 - 1 / b, 1 / b**2), start=0.3)
    >>> round(optimum.beta, 12), optimum.bound
    (1.0, None)
    """
    low, high = lowest, highest
    seen: set[float] = set()
    beta, previous_gradient = start, math.inf
    for passes in range(1, _MOST_PASSES + 1):
        nll, gradient, curvature = loss(beta)
        seen.add(beta)
        # A gradient of exactly 0 without curvature is separable data whose probabilities underflow: go on up.
        rising = gradient > 0
        if beta == lowest and rising:
            return Optimum(beta, nll, "upper", passes)
        if beta == highest and gradient <= 0:
            return Optimum(beta, nll, "lower", passes)
        low, high = (low, beta) if rising else (beta, high)
        step = -gradient / curvature if curvature > 0 else (-math.inf if rising else math.inf)
        if abs(step) <= _CONVERGED_STEP * beta or high - low <= 1e-15 * beta:
            step = step if math.isfinite(step) else 0.0
            # The last step is so small that the second-order expansion is exact to rounding.
            last = min(max(beta + step, lowest), highest)
            return Optimum(last, nll + step * gradient / 2, None, passes)
        slow = abs(gradient) > previous_gradient / 4
        proposal = beta + step
        if not low < proposal < high or slow:
            end = low if rising else high
            proposal = end if end not in seen else math.sqrt(low * high)
        previous_gradient = abs(gradient)
        beta = proposal
    return Optimum(beta, loss(beta).nll, None, _MOST_PASSES + 1)
