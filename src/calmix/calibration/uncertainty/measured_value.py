"""A measured value with what its interval, and its difference from another model's, can be made of.

Averages and rank areas are smooth in the sample: they carry the sums of their rows' influences over random
groups of rows, and what errors add to them, which few rows do (see `gamma_limits`). Calibration errors are
norms of noisy gaps: they carry the gaps and their noise, and are inverted (see `inversion`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from calmix.calibration.input_checks import Floats, Integers, check_level
from calmix.calibration.metrics.binning import clopper_pearson
from calmix.calibration.uncertainty.confidence_sample import ConfidenceSample
from calmix.calibration.uncertainty.error_differences import NoisyError, difference_interval
from calmix.calibration.uncertainty.gamma_limits import gamma_limits, mean_covariance, mean_variance
from calmix.calibration.uncertainty.inversion import ErrorInterval, Functional, invert
from calmix.calibration.uncertainty.mean_gap import GapRows
from calmix.calibration.uncertainty.paired_accuracy import outcome_difference_limits
from calmix.calibration.uncertainty.random_groups import joint_noise
from calmix.calibration.uncertainty.sampling_noise import independent_noise

Limits = tuple[float, float]

# Errors that must cost two models the same multiple for them to be one model at two temperatures, and how
# much the multiples may differ (rounded files).
FEWEST_RATIOS, EQUAL_RATIOS = 3, 0.01


@dataclass(frozen=True, eq=False)
class SmoothStatistic:
    """A value whose rows' influences, summed by group, are `grouped`; `bias` is what the plug-in adds on
    average.

    `added` are the parts of those sums that errors add, and `jump` is what one more error would add, in units
    of its row: the limits of that part are those of a sum of rare events. A rank area consists of errors
    alone: `all_errors`, the part is the value. `low` and `high` bound what the value can be at all; it may be
    all of `part_of` but for what `other_part` is at least. `log_costs` are what errors add to the negative
    log-likelihood: whether two models are one at two temperatures shows there. `outcomes` are the rows, where
    the influences do not distinguish two models.
    """

    value: float
    grouped: Floats
    group_rows: Floats
    added: Floats | None = None
    jump: float = 0.0
    all_errors: bool = False
    bias: float = 0.0
    low: float = 0.0
    high: float = np.inf
    part_of: SmoothStatistic | None = None
    other_part: ErrorStatistic | None = None
    log_costs: Floats | None = None
    outcomes: ConfidenceSample | None = None

    def limits(self, seed: int, level: float = 0.95) -> Limits:
        value = self.value - self.bias
        if self.all_errors:
            variance = mean_variance(self.grouped, self.group_rows)
            low, high = gamma_limits(value, variance, self.jump / self._rows, level)
        else:
            parts = [] if self.added is None else [RarePart(self.added, self.jump)]
            low, high = self._around(value, parts, level)
        if self.part_of is not None and self.other_part is not None:
            high = self.part_of.limits(seed, level)[1] - self.other_part.limits(seed, level)[0]
            # What an error adds to the whole and takes from the other part is rare as well.
            low = min(low, gamma_limits(value, mean_variance(self.grouped, self.group_rows), 0.0, level)[0])
        low, high = min(low, self.value), max(high, self.value)
        return float(np.clip(low, self.low, self.high)), float(np.clip(high, self.low, self.high))

    def difference_limits(self, other: SmoothStatistic, seed: int, level: float = 0.95) -> Limits:
        """Limits of `self` - `other`, both on the same rows."""
        check_level(level)
        if self._is_same(other):
            return 0.0, 0.0
        paired = SmoothStatistic(
            self.value - other.value,
            _centred(self.grouped, self.group_rows) - _centred(other.grouped, other.group_rows),
            self.group_rows,
            bias=self.bias - other.bias,
        )
        parts = []
        if self.added is not None and other.added is not None:
            more = self.added - other.added
            jumps = self.jump, other.jump
            if _are_proportional(self.log_costs, other.log_costs):
                # One model at two temperatures: neither can be right where the other is wrong.
                apart = self.jump - other.jump
                jumps = max(apart, 0.0), max(-apart, 0.0)
            parts = [
                RarePart(np.maximum(more, 0.0), jumps[0]),
                RarePart(np.maximum(-more, 0.0), jumps[1], sign=-1.0),
            ]
        low, high = paired._around(paired.value - paired.bias, parts, level)
        return min(low, paired.value), max(high, paired.value)

    def _is_same(self, other: SmoothStatistic) -> bool:
        """Whether the two are one model, not two that did the same so far."""
        if self.outcomes is not None and other.outcomes is not None:
            return np.array_equal(self.outcomes.codes, other.outcomes.codes)
        return self.value == other.value and np.array_equal(self.grouped, other.grouped)

    @property
    def _rows(self) -> float:
        return float(self.group_rows.sum())

    def _around(self, value: float, parts: list[RarePart], level: float) -> Limits:
        """Limits of a sum of rare parts and the rest, from the limits of each and their correlations (the
        method of variance estimates recovery, Zou and Donner 2008)."""
        from scipy.special import stdtrit

        held = int(np.count_nonzero(self.group_rows))
        reach = float(stdtrit(max(held - 1, 1), 0.5 + check_level(level) / 2.0))
        rest = self.grouped - sum((part.sign * part.added for part in parts), np.zeros_like(self.grouped))
        spread = np.sqrt(mean_variance(rest, self.group_rows))
        reaches = [(reach * spread, reach * spread), *(part.reach(self.group_rows, level) for part in parts)]
        down, up = np.array(reaches).T
        columns = [rest, *(part.sign * part.added for part in parts)]
        together = _correlations(columns, self.group_rows)
        below, above = max(float(down @ together @ down), 0.0), max(float(up @ together @ up), 0.0)
        return value - float(np.sqrt(below)), value + float(np.sqrt(above))


@dataclass(frozen=True, eq=False)
class RarePart:
    """What few rows add to a sum (or take from it, `sign` -1), by group; `jump` is what one more would."""

    added: Floats
    jump: float
    sign: float = 1.0

    def reach(self, group_rows: Floats, level: float) -> Limits:
        """How far the part may be below and above what it seems."""
        rows = float(group_rows.sum())
        mean = float(self.added.sum()) / rows
        low, high = gamma_limits(mean, mean_variance(self.added, group_rows), self.jump / rows, level)
        return (mean - low, high - mean) if self.sign > 0 else (high - mean, mean - low)


def _are_proportional(first: Floats | None, second: Floats | None) -> bool:
    """Whether what errors cost is the same multiple for all of several groups of rows.

    >>> _are_proportional(np.array([1.0, 0.0, 2.0, 4.0]), np.array([0.5, 0.0, 1.0, 2.0]))
    True
    """
    if first is None or second is None or not np.array_equal(first > 0, second > 0):
        return False
    ratio = second[first > 0] / first[first > 0]
    return len(ratio) >= FEWEST_RATIOS and float(np.ptp(ratio)) <= EQUAL_RATIOS * float(ratio.mean())


def _correlations(columns: list[Floats], group_rows: Floats) -> Floats:
    """Of the means of the columns; what did not vary is not correlated with anything."""
    count = len(columns)
    found = np.eye(count)
    spread = [np.sqrt(mean_variance(column, group_rows)) for column in columns]
    for first in range(count):
        for second in range(first):
            if spread[first] > 0 and spread[second] > 0:
                shared = mean_covariance(columns[first], columns[second], group_rows)
                found[first, second] = found[second, first] = shared / (spread[first] * spread[second])
    return found


@dataclass(frozen=True, eq=False)
class AccuracyStatistic(SmoothStatistic):
    """The accuracy, with the outcome of every row: its limits are exact, and a difference is one of the rows
    on which just one of two models is right."""

    def limits(self, seed: int, level: float = 0.95) -> Limits:
        assert self.outcomes is not None
        rows = len(self.outcomes)
        low, high = clopper_pearson(round(self.value * rows), rows, level)
        return float(low), float(high)

    def difference_limits(self, other: SmoothStatistic, seed: int, level: float = 0.95) -> Limits:
        assert self.outcomes is not None
        assert other.outcomes is not None
        if self._is_same(other):
            return 0.0, 0.0
        return outcome_difference_limits(self.outcomes, other.outcomes, level)


def _centred(grouped: Floats, group_rows: Floats) -> Floats:
    return np.asarray(grouped - group_rows * (grouped.sum() / group_rows.sum()))


@dataclass(frozen=True, eq=False)
class ErrorStatistic:
    """A norm of gaps. The noise lives in cells; `spread_out` maps cells to the gaps that the norm is
    taken of.

    `grouped` gives the cells' residuals by group of rows, [groups, cells]; `shared_rows` says that cells
    of this very statistic share rows, so that their noise must be drawn jointly even when nothing is
    compared; `least_visible` makes, from the noise of the gaps, those that show least, and `scale_at` the
    noise if other gaps were true (see `inversion`).
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
    scale_at: Callable[[Floats], Floats] | None = None
    # The noise of the cells were all confidences true, for gaps that do not tell it (see `spread_out`).
    calibrated_scale: Floats | None = None
    # Whether the lower limit is no higher than the triangle inequality says: for a maximum, which noise moves
    # to another place.
    by_distance: bool = False
    # What the value is at most, and at a level, what the mean gap alone allows (see `mean_gap`).
    most: float = 1.0
    allowed: Callable[[float], float] | None = None
    gap_rows: GapRows | None = None
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
            found = self._invert(noise, level)
            if self.by_distance:
                # The error seen is at most the true one and that of the noise.
                reach = float(np.quantile(self.functional(noise), 0.5 + level / 2.0))
                found = replace(found, low=min(found.low, max(self.value - reach, 0.0)))
            if found.low > 0 and self._is_noise(seed, level):
                found = replace(found, low=0.0)
            self.found[seed, level] = found
        return self.found[seed, level]

    def _is_noise(self, seed: int, level: float) -> bool:
        """Whether a calibrated model shows as much in (1 - level) / 2 of draws or more."""
        if self.calibrated_scale is None:
            return False
        scale = np.maximum(self.cell_scale, self.calibrated_scale)
        shown = self.functional(self._map(independent_noise(scale, seed)))
        return float((shown >= self.value).mean()) >= (1.0 - level) / 2.0

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
        if self.gap_rows is not None and other.gap_rows is not None:
            least, most = self.gap_rows.difference_reach(other.gap_rows, level)
            low, high = min(low, least), max(high, most)
        return low, high

    def _is_same(self, other: ErrorStatistic) -> bool:
        """Whether the two are one error of one model: no noise distinguishes them."""
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
        found = invert(
            self.gaps,
            scale,
            noise,
            self.functional,
            observed=self.value,
            least_visible=hidden,
            scale_at=self.scale_at,
            level=level,
        )
        return found.widened(0.0 if self.allowed is None else self.allowed(level), self.most)


Statistic = SmoothStatistic | ErrorStatistic


def difference_limits(first: Statistic, second: Statistic, seed: int, level: float = 0.95) -> Limits:
    """Limits of first - second; the two must be the same metric of two models on the same rows."""
    if isinstance(first, SmoothStatistic) and isinstance(second, SmoothStatistic):
        return first.difference_limits(second, seed, level)
    if isinstance(first, ErrorStatistic) and isinstance(second, ErrorStatistic):
        return first.difference_limits(second, seed, level)
    raise TypeError("only statistics of one metric can be compared")
