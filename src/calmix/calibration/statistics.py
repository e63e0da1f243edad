"""A measured value with what its interval, and its difference from another model's, can be made of.

Averages and rank areas are smooth in the sample: they carry the sums of their rows' influences over
random groups of rows, and are bootstrapped over the groups. Calibration errors are norms of noisy gaps:
they carry the gaps and their noise, and are inverted (see `inversion`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from calmix.calibration.input_checks import Floats
from calmix.calibration.inversion import ErrorInterval, Functional, garrote, invert
from calmix.calibration.row_groups import bias_corrected_limits, bootstrap_means, joint_noise
from calmix.calibration.sampling_noise import independent_noise

Limits = tuple[float, float]


@dataclass(frozen=True, eq=False)
class SmoothStatistic:
    """A value whose rows' influences, summed by group, are `grouped`; `bias` is what the plug-in adds on
    average.

    `low` and `high` bound what the value can be at all; `exact` is an interval from theory where there is
    one.
    """

    value: float
    grouped: Floats
    group_rows: Floats
    bias: float = 0.0
    low: float = 0.0
    high: float = np.inf
    exact: Limits | None = None

    def limits(self, seed: int, level: float = 0.95) -> Limits:
        if self.exact is not None:
            return self.exact
        repeated = self.value + self._repeated(seed)
        low, high = bias_corrected_limits(repeated, self.value, level)
        return (
            float(np.clip(low - self.bias, self.low, self.high)),
            float(np.clip(high - self.bias, self.low, self.high)),
        )

    def difference_limits(self, other: SmoothStatistic, seed: int, level: float = 0.95) -> Limits:
        """Limits of `self` - `other`, both on the same rows."""
        paired = SmoothStatistic(
            self.value - other.value,
            _centred(self.grouped, self.group_rows) - _centred(other.grouped, other.group_rows),
            self.group_rows,
            bias=self.bias - other.bias,
            low=-np.inf,
        )
        return paired.limits(seed, level)

    def _repeated(self, seed: int) -> Floats:
        centred = _centred(self.grouped, self.group_rows)
        return np.asarray(bootstrap_means(centred[:, None], self.group_rows, seed)[:, 0])


def _centred(grouped: Floats, group_rows: Floats) -> Floats:
    return np.asarray(grouped - group_rows * (grouped.sum() / group_rows.sum()))


@dataclass(frozen=True, eq=False)
class ErrorStatistic:
    """A norm of gaps. The noise lives in cells; `spread_out` maps cells to the gaps that the norm is
    taken of.

    `grouped` gives the cells' residuals by group of rows, [groups, cells]; `shared_rows` says that cells
    of this very statistic share rows, so that their noise must be drawn jointly even when nothing is
    compared; `least_visible` makes, from the noise of the gaps, those that show least (see `inversion`).
    """

    value: float
    gaps: Floats
    cell_scale: Floats
    functional: Functional
    grouped: Callable[[], Floats]
    group_rows: Floats
    spread_out: Callable[[Floats], Floats] | None = None
    least_visible: Callable[[Floats], Floats] | None = None
    shared_rows: bool = False
    cache: dict[tuple[int, float], ErrorInterval] = field(default_factory=dict)

    def interval(self, seed: int, level: float = 0.95) -> ErrorInterval:
        if (seed, level) not in self.cache:
            noise = (
                self.joint_noise(seed)
                if self.shared_rows
                else self._map(independent_noise(self.cell_scale, seed))
            )
            self.cache[seed, level] = self._invert(noise, level)
        return self.cache[seed, level]

    def limits(self, seed: int, level: float = 0.95) -> Limits:
        found = self.interval(seed, level)
        return found.low, found.high

    def difference_limits(self, other: ErrorStatistic, seed: int, level: float = 0.95) -> Limits:
        """Limits of `self` - `other`, both on the same rows.

        Either side's gaps are shrunk to its corrected value and given the joint noise again; what the
        difference of the plug-ins then does around the difference of the truths is turned around the
        observed one.
        """
        first, second = self.joint_noise(seed), other.joint_noise(seed)
        draws = min(len(first), len(second))
        own, others = self.shrunk(seed), other.shrunk(seed)
        truth = float(self.functional(own)) - float(other.functional(others))
        shown = self.functional(own + first[:draws]) - other.functional(others + second[:draws])
        tail = (1.0 - level) / 2.0
        low, high = np.quantile(shown - truth, [tail, 1.0 - tail])
        seen = self.value - other.value
        return seen - float(high), seen - float(low)

    def joint_noise(self, seed: int) -> Floats:
        return self._map(joint_noise(self.grouped(), self.group_rows, self.cell_scale, seed))

    def shrunk(self, seed: int) -> Floats:
        """The gaps whose norm is the corrected value."""
        scale = self._gap_scale(self._map(independent_noise(self.cell_scale, seed)))
        target = self.interval(seed).corrected
        kept, gone = 0.0, float(np.max(np.abs(self.gaps) / np.where(scale > 0, scale, np.inf), initial=0.0))
        for _ in range(30):
            middle = (kept + gone) / 2.0
            if float(self.functional(garrote(self.gaps, scale, middle))) >= target:
                kept = middle
            else:
                gone = middle
        return garrote(self.gaps, scale, gone)

    def _map(self, noise: Floats) -> Floats:
        return noise if self.spread_out is None else self.spread_out(noise)

    def _gap_scale(self, noise: Floats) -> Floats:
        return self.cell_scale if self.spread_out is None else noise.std(axis=0)

    def _invert(self, noise: Floats, level: float) -> ErrorInterval:
        scale = self._gap_scale(noise)
        hidden = None if self.least_visible is None else self.least_visible(scale)
        return invert(
            self.gaps, scale, noise, self.functional, observed=self.value, least_visible=hidden, level=level
        )


Statistic = SmoothStatistic | ErrorStatistic


def difference_limits(first: Statistic, second: Statistic, seed: int, level: float = 0.95) -> Limits:
    """Limits of first - second; the two must be the same metric of two models on the same rows."""
    if isinstance(first, SmoothStatistic) and isinstance(second, SmoothStatistic):
        return first.difference_limits(second, seed, level)
    if isinstance(first, ErrorStatistic) and isinstance(second, ErrorStatistic):
        return first.difference_limits(second, seed, level)
    raise TypeError("only statistics of one metric can be compared")
