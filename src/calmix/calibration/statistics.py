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
from calmix.calibration.inversion import ErrorInterval, Functional, invert
from calmix.calibration.row_groups import bias_corrected_limits, bootstrap_means, joint_noise
from calmix.calibration.sampling_noise import independent_noise

Limits = tuple[float, float]

# The share of the noise that is added to see how an error responds, and the reach of a normal number at 95 %.
NUDGE, REACH = 0.1, 1.96


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
    # Joint draws by seed; statistics of the same cells may share them.
    drawn: dict[int, Floats] = field(default_factory=dict)
    found: dict[tuple[int, float], ErrorInterval] = field(default_factory=dict)

    def interval(self, seed: int, level: float = 0.95) -> ErrorInterval:
        if (seed, level) not in self.found:
            noise = (
                self.joint_noise(seed)
                if self.shared_rows
                else self._map(independent_noise(self.cell_scale, seed))
            )
            self.found[seed, level] = self._invert(noise, level)
        return self.found[seed, level]

    def limits(self, seed: int, level: float = 0.95) -> Limits:
        found = self.interval(seed, level)
        return found.low, found.high

    def difference_limits(self, other: ErrorStatistic, seed: int, level: float = 0.95) -> Limits:
        """Limits of `self` - `other`, both on the same rows, from the limits of either (MOVER, Zou 2008).

            low = a - b - sqrt((a - a_low)^2 + (b_high - b)^2 - 2 r (a - a_low) (b_high - b)),   high likewise

        with a and b the corrected values (for the low limit b as if its gaps hid, for the high one a) and r
        the correlation of the two errors under a little more of their joint noise, where the data stand: one
        model's gaps may hide the very noise that the other's show. It keeps what the single intervals know:
        that an error is never below 0, and biased near it.
        """
        own, others = self.interval(seed, level), other.interval(seed, level)
        nudged, nudged_too = self._nudged(seed), other._nudged(seed)
        draws = min(len(nudged), len(nudged_too))
        nudged, nudged_too = nudged[:draws], nudged_too[:draws]
        together = _correlation(nudged, nudged_too)
        if min(own.low, others.low) == 0.0:
            # An error that may be 0 goes up whichever way the noise goes: no credit for moving together.
            together = min(together, 0.0)

        def reach(one: float, two: float) -> float:
            return float(np.sqrt(max(one**2 + two**2 - 2.0 * together * one * two, 0.0)))

        low = own.corrected - others.hidden - reach(own.corrected - own.low, others.high - others.hidden)
        high = own.hidden - others.corrected + reach(own.high - own.hidden, others.corrected - others.low)
        # Biases that are alike cancel in the plain difference better than in the corrected one.
        seen, spread = self.value - other.value, REACH * float((nudged - nudged_too).std()) / NUDGE
        return min(low, seen - spread), max(high, seen + spread)

    def _nudged(self, seed: int) -> Floats:
        """The error with a tenth of the noise added once more: how it responds, and to what."""
        return self.functional(self.gaps + NUDGE * self.joint_noise(seed))

    def joint_noise(self, seed: int) -> Floats:
        if seed not in self.drawn:
            noise = joint_noise(self.grouped(), self.group_rows, self.cell_scale, seed)
            self.drawn[seed] = self._map(noise)
        return self.drawn[seed]

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


def _correlation(first: Floats, second: Floats) -> float:
    one, two = first - first.mean(), second - second.mean()
    size = float(np.sqrt((one @ one) * (two @ two)))
    return float(one @ two) / size if size > 0 else 0.0


Statistic = SmoothStatistic | ErrorStatistic


def difference_limits(first: Statistic, second: Statistic, seed: int, level: float = 0.95) -> Limits:
    """Limits of first - second; the two must be the same metric of two models on the same rows."""
    if isinstance(first, SmoothStatistic) and isinstance(second, SmoothStatistic):
        return first.difference_limits(second, seed, level)
    if isinstance(first, ErrorStatistic) and isinstance(second, ErrorStatistic):
        return first.difference_limits(second, seed, level)
    raise TypeError("only statistics of one metric can be compared")
