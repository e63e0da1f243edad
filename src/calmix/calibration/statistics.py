"""A measured value with what its interval, and its difference from another model's, can be made of.

Averages and rank areas are smooth in the sample: they carry the sums of their rows' influences over
random groups of rows, and are bootstrapped over the groups. Calibration errors are norms of noisy gaps:
they carry the gaps and their noise, and are inverted (see `inversion`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from calmix.calibration.binning import clopper_pearson
from calmix.calibration.confidence_sample import ConfidenceSample
from calmix.calibration.error_differences import NoisyError, difference_interval
from calmix.calibration.input_checks import Floats, Integers
from calmix.calibration.inversion import ErrorInterval, Functional, invert
from calmix.calibration.paired_accuracy import accuracy_difference_limits
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


@dataclass(frozen=True, eq=False)
class AccuracyStatistic(SmoothStatistic):
    """The accuracy, with the outcome of every row: its limits are exact, and a difference is one of the rows
    on which just one of two models is right."""

    outcomes: ConfidenceSample = field(default_factory=lambda: ConfidenceSample(np.zeros(0, np.uint64)))

    def limits(self, seed: int, level: float = 0.95) -> Limits:
        rows = len(self.outcomes)
        low, high = clopper_pearson(round(self.value * rows), rows, level)
        return float(low), float(high)

    def difference_limits(self, other: SmoothStatistic, seed: int, level: float = 0.95) -> Limits:
        assert isinstance(other, AccuracyStatistic)
        first, second = self.outcomes.codes, other.outcomes.codes
        if np.array_equal(first, second):
            return 0.0, 0.0  # one model, not two that agree
        one = np.uint64(1)
        first_only = int(np.count_nonzero(first & ~second & one))
        second_only = int(np.count_nonzero(second & ~first & one))
        return accuracy_difference_limits(first_only, second_only, len(first), level)


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
    # Names of the cells of a norm that is the same function of any model's gaps, to compare them by.
    cells: Integers | None = None
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
        """Limits of `self` - `other`, both on the same rows (see `error_differences`)."""
        if self._is_same(other):
            return 0.0, 0.0
        low, high = difference_interval(self._noisy(seed, level), other._noisy(seed, level), level)
        if self.cells is not None and other.cells is not None:
            most = self._distance(other, seed)
            low, high = max(low, -most), min(high, most)
        return low, high

    def _is_same(self, other: ErrorStatistic) -> bool:
        """Whether the two are one error of one model: no noise tells them apart."""
        return (
            self.value == other.value
            and np.array_equal(self.gaps, other.gaps)
            and np.array_equal(self.grouped(), other.grouped())
        )

    def _noisy(self, seed: int, level: float) -> NoisyError:
        noise = self.joint_noise(seed)
        scale = self._gap_scale(noise)
        hidden = np.where(self.gaps < 0, -scale, scale)
        if self.least_visible is not None:
            hidden = self.least_visible(scale)
        # Beyond the limit at 95 %, for the pairs that only a difference at that level leaves out.
        highest = 1.5 * self.interval(seed, level).high
        return NoisyError(self.value, self.gaps, scale, noise, self.functional, hidden, highest)

    def _distance(self, other: ErrorStatistic, seed: int) -> float:
        """An upper limit (99.5 %) of the norm of the difference of the two models' gaps."""
        assert self.cells is not None
        assert other.cells is not None
        cells = np.union1d(self.cells, other.cells)
        mine, others = np.searchsorted(cells, self.cells), np.searchsorted(cells, other.cells)
        first, second = self.joint_noise(seed), other.joint_noise(seed)
        draws = min(len(first), len(second))
        gaps, noise = np.zeros(len(cells)), np.zeros((draws, len(cells)))
        gaps[mine] += self.gaps
        gaps[others] -= other.gaps
        noise[:, mine] += first[:draws]
        noise[:, others] -= second[:draws]
        return invert(gaps, noise.std(axis=0), noise, self.functional, level=0.99).high

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


Statistic = SmoothStatistic | ErrorStatistic


def difference_limits(first: Statistic, second: Statistic, seed: int, level: float = 0.95) -> Limits:
    """Limits of first - second; the two must be the same metric of two models on the same rows."""
    if isinstance(first, SmoothStatistic) and isinstance(second, SmoothStatistic):
        return first.difference_limits(second, seed, level)
    if isinstance(first, ErrorStatistic) and isinstance(second, ErrorStatistic):
        return first.difference_limits(second, seed, level)
    raise TypeError("only statistics of one metric can be compared")
