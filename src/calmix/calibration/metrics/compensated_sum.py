"""Sums in float64 of data that come in pieces, whatever the number, size and weights of the pieces."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

import numpy as np

from calmix.calibration.input_checks import WEIGHT_EXPONENTS, Floats, weight_exponent


class CompensatedSum:
    """An array of float64 sums that remembers what rounding took from them (Neumaier 1974)."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self._sum = np.zeros(shape)
        self._lost = np.zeros(shape)

    def add(self, values: Floats) -> None:
        total = self._sum + values
        larger = np.abs(self._sum) >= np.abs(values)
        self._lost += np.where(larger, (self._sum - total) + values, (values - total) + self._sum)
        self._sum = total

    def merge(self, other: Self) -> None:
        self.add(other._sum)
        self._lost += other._lost

    @property
    def value(self) -> Floats:
        return self._sum + self._lost


class WeightedSum(CompensatedSum):
    """Compensated sums of rows that carry weights, their entries along the first axis powers of the weight.

    Weights of 1e160 have squares beyond float64, so extreme weights are counted in units of a power of two,
    which rounds nothing; larger ones that come later change the unit. Ratios of sums do not depend on it.

    >>> sums = WeightedSum((2,), powers=(1, 2))
    >>> weights = sums.in_units(np.array([1e200, 3e200]), rows=2)
    >>> sums.add(np.array([weights.sum(), (weights**2).sum()]))
    >>> total, squares = sums.value
    >>> round(float(total**2 / squares), 6)
    1.6
    """

    def __init__(self, shape: tuple[int, ...], *, powers: Sequence[int]) -> None:
        super().__init__(shape)
        self._powers = np.asarray(powers).reshape(-1, *[1] * (len(shape) - 1))
        self._exponent: int | None = None

    def in_units(self, weights: Floats | None, *, rows: int) -> Floats | None:
        """The weights of the next piece, as its sums must carry them; None are weights of 1."""
        largest = 1.0 if weights is None else float(weights.max(initial=0.0))
        if largest == 0.0:
            return weights
        exponent = weight_exponent(largest)
        if self._exponent is None:
            self._exponent = exponent if abs(exponent) > WEIGHT_EXPONENTS else 0
        elif exponent - self._exponent > WEIGHT_EXPONENTS:
            self._change_unit(exponent)
        if self._exponent == 0:
            return weights
        return np.ldexp(np.ones(rows) if weights is None else weights, -self._exponent)

    def merge(self, other: Self) -> None:
        if other._exponent is not None:
            if self._exponent is None:
                self._exponent = other._exponent
            elif other._exponent > self._exponent:
                self._change_unit(other._exponent)
            down = self._powers * (other._exponent - self._exponent)
            self.add(np.ldexp(other._sum, down))
            self._lost += np.ldexp(other._lost, down)
        else:
            super().merge(other)

    def _change_unit(self, exponent: int) -> None:
        assert self._exponent is not None
        down = self._powers * (self._exponent - exponent)
        self._sum, self._lost = np.ldexp(self._sum, down), np.ldexp(self._lost, down)
        self._exponent = exponent
