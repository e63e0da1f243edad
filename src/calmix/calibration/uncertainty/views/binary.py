"""All calibration errors of one notion: confidences, and whether each came true."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

import numpy as np
import numpy.typing as npt

from calmix.calibration.input_checks import Floats, Integers
from calmix.calibration.metrics.binning import BinSums, Closed, assign_bins, bin_edges, sum_bins
from calmix.calibration.metrics.errors import (
    debiased_error,
    expected_error,
    maximum_error,
    overconfidence,
    root_mean_square_error,
)
from calmix.calibration.metrics.kolmogorov import KolmogorovTest, excursion_tail
from calmix.calibration.metrics.smooth import FINE_GRID, SmoothError, smooth_error_of_points, spread_on_grid
from calmix.calibration.uncertainty.confidence_sample import ConfidenceSample, StretchLookup
from calmix.calibration.uncertainty.error_fields import FUNCTIONALS, LEAST_VISIBLE, Cells
from calmix.calibration.uncertainty.mean_gap import GapRows, MeanGap, even_error
from calmix.calibration.uncertainty.measured_value import ErrorStatistic
from calmix.calibration.uncertainty.noise_floor import MOST_ROWS, NoiseFloor, noise_floor, noise_floor_of_sums
from calmix.calibration.uncertainty.random_groups import GROUPS, deal_rows, group_sizes, group_sums
from calmix.calibration.uncertainty.sampling_noise import bin_scale

NOTION_ERRORS = ("ece", "mce", "rmsce", "adaptive_ece", "debiased_rmsce", "oe", "smooth_ece", "ks")
# Metrics of equal-mass bins, and the norm of the gaps that each is. (The debiased value and the plug-in are
# estimates of one truth; an interval is freed of the plug-in's bias anyway.)
EQUAL_MASS = {"adaptive_ece": "ece", "debiased_rmsce": "rmsce"}
# Places at which the running sum of residuals is looked at when its noise is drawn.
RUNNING_CELLS = 256


class BinaryView:
    """The errors of a sample whose rows are in the order of their file."""

    def __init__(self, sample: ConfidenceSample, *, bins: int, closed: Closed) -> None:
        self.sample = sample
        self.bins = bins
        self.closed = closed

    @cached_property
    def ordered(self) -> ConfidenceSample:
        return self.sample.sorted()

    @cached_property
    def width_sums(self) -> BinSums:
        total = BinSums.empty(self.bins)
        for _, block in self.sample.blocks():
            confidence = block.confidence()
            total = total + sum_bins(
                self._width_bin(confidence), self.bins, confidence, block.correct(), None
            )
        return total

    @cached_property
    def mass_borders(self) -> Floats:
        return self.equal_mass_borders(self.bins)

    @cached_property
    def mass_sums(self) -> BinSums:
        return self.ordered.sums_between(self.ordered.rows_below(self.mass_borders))

    @cached_property
    def mean_gap(self) -> MeanGap:
        return MeanGap.of_bins(self.width_sums)

    @cached_property
    def group_rows(self) -> Floats:
        return group_sizes(len(self.sample))

    def equal_mass_borders(self, bins: int) -> Floats:
        """The lowest confidences of all equal-mass bins but the first.

        Rows of equal confidence stay together, in the bin of their middle rank (as in `assign_equal_mass`).
        """
        n = len(self.ordered)
        # Bin k begins with the first group of ties whose middle is at or past rank k n / M: the group that
        # holds that rank, or the next one.
        wanted = np.arange(1, bins) * n / bins
        at = np.minimum(wanted.astype(np.int64), n - 1)
        start = self.ordered.tie_starts(at)
        last = self.ordered.codes[at] | np.uint64(1)
        end = np.searchsorted(self.ordered.codes, last, side="right")
        first = np.where((start + end) / 2.0 >= wanted, start, end)
        first = np.unique(first[(first > 0) & (first < n)])
        return ConfidenceSample(self.ordered.codes[first]).confidence()

    def noise_floor(self, seed: int) -> NoiseFloor:
        if len(self.sample) <= MOST_ROWS:
            return noise_floor(self.sample.confidence(), bins=self.bins, closed=self.closed, seed=seed)
        return noise_floor_of_sums(self.width_sums, seed=seed)

    @cached_property
    def kolmogorov(self) -> KolmogorovTest:
        """The KS error and its p-value, in blocks."""
        running, largest = 0.0, 0.0
        for start, block in self.ordered.blocks():
            confidence = block.confidence()
            sums = running + np.cumsum(block.correct() - confidence)
            until = start + len(block)
            following = ConfidenceSample(self.ordered.codes[until : until + 1]).confidence()
            ends = np.append(confidence, following)
            group_end = np.append(ends[1:] != ends[:-1], True)[: len(block)]
            largest = max(largest, float(np.abs(sums[group_end]).max(initial=0.0)))
            running = float(sums[-1])
        spread = float(np.sqrt(self.width_sums.bernoulli.sum()))
        return KolmogorovTest(largest / len(self.ordered), excursion_tail(largest, spread))

    @cached_property
    def smooth(self) -> SmoothError:
        return smooth_error_of_points(*self._smooth_points)

    @cached_property
    def _smooth_points(self) -> tuple[Floats, Floats, Floats]:
        if len(self.sample) <= FINE_GRID:
            confidence = self.sample.confidence()
            return confidence, confidence - self.sample.correct(), np.ones(len(confidence))
        residual, mass = np.zeros(FINE_GRID), np.zeros(FINE_GRID)
        for _, block in self.sample.blocks():
            confidence = block.confidence()
            values = np.stack([confidence - block.correct(), np.ones(len(block))])
            both = spread_on_grid(confidence, values, FINE_GRID)
            residual += both[0]
            mass += both[1]
        return np.linspace(0.0, 1.0, FINE_GRID), residual, mass

    def mass_values(self) -> dict[str, float]:
        """The errors over bins of equal mass."""
        return {
            "adaptive_ece": expected_error(self.mass_sums),
            "debiased_rmsce": debiased_error(self.mass_sums),
        }

    def values(self) -> dict[str, float]:
        """Every error of this notion, without intervals."""
        return {
            "ece": expected_error(self.width_sums),
            "mce": maximum_error(self.width_sums),
            "rmsce": root_mean_square_error(self.width_sums),
            **self.mass_values(),
            "oe": overconfidence(self.width_sums),
            "smooth_ece": self.smooth.error,
            "ks": self.kolmogorov.error,
            "ks_p_value": self.kolmogorov.p_value,
        }

    def statistics(self) -> dict[str, ErrorStatistic]:
        return {name: self.statistic(name) for name in NOTION_ERRORS}

    def statistic(self, name: str) -> ErrorStatistic:
        """One of the errors, with its noise."""
        if name == "smooth_ece":
            return self._smoothed()
        if name == "ks":
            return self._running()
        if name in EQUAL_MASS:
            return self._binned(EQUAL_MASS[name], self.mass_sums, self._mass_bin)
        return self._binned(name, self.width_sums, self._width_bin)

    def _binned(self, norm: str, sums: BinSums, assign: Callable[[Floats], Integers]) -> ErrorStatistic:
        cells = Cells.of_bins(sums)
        filled = sums.weight > 0
        functional = FUNCTIONALS[norm](cells)
        return ErrorStatistic(
            value=float(functional(cells.field)),
            gaps=cells.field,
            cell_scale=cells.scale,
            functional=functional,
            grouped=lambda: self._grouped(assign, len(sums.weight))[:, filled],
            group_rows=self.group_rows,
            least_visible=LEAST_VISIBLE.get(norm),
            scale_at=cells.scale_at,
            allowed=self._allowed(norm),
            gap_rows=self._gap_rows(norm),
            cells=np.flatnonzero(filled) if norm == "ece" else None,
        )

    def _smoothed(self) -> ErrorStatistic:
        """The smoothed gaps at the bandwidth that the data chose."""
        bandwidth = self.smooth.bandwidth
        # Finer than the kernel, which is all that shows.
        count = int(np.clip(3.0 / bandwidth, 64, 1500))

        def assign(confidence: Floats) -> Integers:
            return assign_bins(confidence, count)

        edges = self.ordered.rows_below(bin_edges(count)[1:-1], or_at=True)
        sums = self.ordered.sums_between(edges)
        filled = sums.weight > 0
        centre = (np.flatnonzero(filled) + 0.5) / count
        kernel = reflected_kernel(
            centre, np.linspace(0.0, 1.0, int(np.clip(2.0 / bandwidth, 64, 1000))), bandwidth
        )
        density = (sums.weight[filled] / sums.total) @ kernel
        gaps = (sums.residual[filled] / sums.total) @ kernel / density.sum()
        return ErrorStatistic(
            # On this mesh, like the noise it is compared with.
            value=float(np.abs(gaps).sum()),
            gaps=gaps,
            cell_scale=bin_scale(sums, fine=True)[filled],
            calibrated_scale=np.sqrt(sums.bernoulli[filled]) / sums.total,
            functional=lambda x: np.abs(x).sum(axis=-1),
            grouped=lambda: self._grouped(assign, count)[:, filled],
            group_rows=self.group_rows,
            spread_out=lambda noise: noise @ kernel / density.sum(),
            allowed=self._allowed("ece"),
            gap_rows=self._gap_rows("ece"),
        )

    def _running(self) -> ErrorStatistic:
        """The running sum of residuals over the ranks."""
        borders = self.equal_mass_borders(RUNNING_CELLS)

        sums = self.ordered.sums_between(self.ordered.rows_below(borders))
        return ErrorStatistic(
            value=self.kolmogorov.error,
            gaps=np.cumsum(sums.residual) / sums.total,
            cell_scale=bin_scale(sums, fine=True),
            calibrated_scale=np.sqrt(sums.bernoulli) / sums.total,
            functional=lambda x: np.abs(x).max(axis=-1),
            grouped=lambda: self._grouped(StretchLookup(borders).find, len(borders) + 1),
            group_rows=self.group_rows,
            spread_out=lambda noise: np.cumsum(noise, axis=-1),
            # A sum that grows evenly to its end shows there only.
            least_visible=np.square,
            by_distance=True,
            allowed=self._allowed("ece"),
            gap_rows=self._gap_rows("ece"),
        )

    def _gap_rows(self, norm: str) -> GapRows:
        only_over = norm == "oe"
        weight = self.mean_gap.confidence if only_over else 1.0
        return GapRows(self.mean_gap, self.sample, weight, only_over)

    def _allowed(self, norm: str) -> Callable[[float], float]:
        return lambda level: even_error(norm, self.mean_gap, level)

    def _width_bin(self, confidence: Floats) -> Integers:
        return assign_bins(confidence, self.bins, self.closed)

    def _mass_bin(self, confidence: Floats) -> Integers:
        return np.searchsorted(self.mass_borders, confidence, side="right").astype(np.int64)

    def grouped_mass_residuals(self) -> Floats:
        """[groups, filled equal-mass bins]"""
        return self._grouped(self._mass_bin, len(self.mass_borders) + 1)[:, self.mass_sums.weight > 0]

    def _grouped(self, assign: Callable[[Floats], Integers], cells: int) -> Floats:
        total = np.zeros((GROUPS, cells))
        for start, block in self.sample.blocks():
            confidence = block.confidence()
            dealt = deal_rows(start, len(block))
            total += group_sums(dealt, assign(confidence), block.correct() - confidence, cells)
        return total


def reflected_kernel(centre: Floats, mesh: Floats, bandwidth: float) -> npt.NDArray[np.float64]:
    """[centres, mesh]: the Gaussian kernel of support 1, reflected at 0 and 1."""
    kernel = np.zeros((len(centre), len(mesh)))
    for image in (centre, -centre, 2.0 - centre):
        offset = mesh[None, :] - image[:, None]
        kernel += np.where(np.abs(offset) <= 0.5, np.exp(-(offset**2) / (2.0 * bandwidth**2)), 0.0)
    return kernel
