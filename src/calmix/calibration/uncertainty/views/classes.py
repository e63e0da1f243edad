"""The errors of all classes together: classwise ECE and the calibration part of the Brier score."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from calmix.calibration.input_checks import Floats, Integers
from calmix.calibration.metrics.binning import Closed
from calmix.calibration.metrics.class_bins import ClassSums, column_sums, entries_above_first_bin, gold_cells
from calmix.calibration.uncertainty.confidence_sample import ConfidenceSample
from calmix.calibration.uncertainty.error_fields import FUNCTIONALS, MOST, Cells
from calmix.calibration.uncertainty.mean_gap import GapRows, MeanGap, even_error
from calmix.calibration.uncertainty.measured_value import ErrorStatistic
from calmix.calibration.uncertainty.noise_floor import (
    MOST_ROWS,
    MOST_VALUES,
    NoiseFloor,
    binomial_deviations,
    classwise_noise_floor,
)
from calmix.calibration.uncertainty.random_groups import GROUPS, add_rows, joint_noise
from calmix.calibration.uncertainty.sampling_noise import residual_scale
from calmix.calibration.uncertainty.views.binary import BinaryView

# Numbers kept about the groups of rows: fewer groups where there are many classes.
GROUP_VALUES = 4_000_000
FEWEST_GROUPS = 64
# Rows are added up in blocks that stay in the processor's cache, where there are few classes.
MOST_ROWS_AT_ONCE = 1 << 15


class ClassView:
    """Sums by class and bin, fed with checked probabilities in the order of the rows."""

    def __init__(self, classes: int, *, bins: int, closed: Closed, grouped: bool) -> None:
        self.classes = classes
        self.bins = bins
        self.closed = closed
        self.sums = ClassSums.empty(classes, bins)
        cells = classes * bins
        self.groups = int(np.clip(GROUP_VALUES // cells, FEWEST_GROUPS, GROUPS)) if grouped else 0
        self.probability_square = np.zeros(cells)
        self.gold_probability = np.zeros(cells)
        self.grouped = np.zeros((self.groups, cells))
        self.group_rows = np.zeros(self.groups)
        self._drawn: dict[int, Floats] = {}

    def update(self, probabilities: npt.NDArray[np.floating[Any]], gold: Integers, dealt: Integers) -> None:
        self._drawn.clear()
        for start in range(0, len(gold), MOST_ROWS_AT_ONCE):
            part = slice(start, start + MOST_ROWS_AT_ONCE)
            self._update_block(probabilities[part], gold[part], dealt[part])

    def _update_block(
        self, probabilities: npt.NDArray[np.floating[Any]], gold: Integers, dealt: Integers
    ) -> None:
        cells = self.classes * self.bins
        row, cell, probability = entries_above_first_bin(probabilities, self.bins, self.closed)
        gold_cell, gold_probability = gold_cells(probabilities, gold, self.bins, self.closed)
        found = np.stack(
            [
                np.bincount(cell, minlength=cells),
                np.bincount(cell, weights=probability, minlength=cells),
                np.bincount(gold_cell, minlength=cells),
            ]
        )
        totals = column_sums(probabilities, None)
        self.sums = self.sums + ClassSums.of_entries(found, totals, float(len(gold)))
        if not self.groups:
            return
        if self.groups < GROUPS:
            dealt = dealt % self.groups
        square = np.bincount(cell, weights=probability**2, minlength=cells).astype(np.float64)
        square = square.reshape(self.classes, self.bins)
        square[:, 0] += np.einsum("ij,ij->j", probabilities, probabilities) - square.sum(axis=1)
        self.probability_square += square.ravel()
        self.gold_probability += np.bincount(gold_cell, weights=gold_probability, minlength=cells)

        by_group = np.bincount(dealt[row] * cells + cell, weights=probability, minlength=self.groups * cells)
        high = by_group.astype(np.float64).reshape(self.groups, self.classes, self.bins)
        high[:, :, 0] += add_rows(dealt, probabilities, self.groups) - high.sum(axis=2)
        right = np.bincount(dealt * cells + gold_cell, minlength=self.groups * cells)
        self.grouped += right.reshape(self.groups, cells) - high.reshape(self.groups, cells)
        self.group_rows += np.bincount(dealt, minlength=self.groups)

    def values(self) -> dict[str, float]:
        gap, total = self.sums.gap(), self.sums.total
        mean = np.divide(
            self.sums.confidence, self.sums.weight, out=np.zeros_like(gap), where=self.sums.weight > 0
        )
        overconfident = mean * np.maximum(-self.sums.residual, 0.0)
        return {
            "ece": self.sums.expected_error(),
            "mce": float(np.abs(gap).max()),
            "rmsce": float(np.sqrt(self.sums.squared_gap() / self.classes)),
            "oe": float(overconfident.sum() / total / self.classes),
            "brier_calibration": self.sums.squared_gap(),
        }

    def cells(self) -> Cells:
        filled = self._filled()
        return Cells(
            field=self.sums.residual.ravel()[filled] / self.sums.total,
            scale=self._scale(),
            share=self.sums.weight.ravel()[filled] / self.sums.total,
            confidence=self.sums.confidence.ravel()[filled] / self.sums.weight.ravel()[filled],
            unit=self.sums.weight.ravel()[filled] / self.sums.total**2,
            calibrated=self._bernoulli()[filled] / self.sums.total**2,
            classes=self.classes,
        )

    def statistic(self, name: str, top: BinaryView) -> ErrorStatistic:
        """One of the values with its noise; the classes share their rows. `top` are the predicted labels."""
        cells = self.cells()
        return ErrorStatistic(
            value=self.values()[name],
            gaps=cells.field,
            cell_scale=cells.scale,
            functional=FUNCTIONALS[name](cells),
            grouped=lambda: self.grouped[:, self._filled()],
            group_rows=self.group_rows,
            shared_rows=True,
            cells=np.flatnonzero(self._filled()) if name == "ece" else None,
            drawn=self._drawn,
            scale_at=cells.scale_at,
            most=MOST.get(name, 1.0),
            allowed=lambda level: self._allowed(name, cells, top.mean_gap, level),
            gap_rows=GapRows(top.mean_gap, top.sample, 2.0 / self.classes) if name == "ece" else None,
        )

    def _allowed(self, name: str, cells: Cells, gap: MeanGap, level: float) -> float:
        """The least upper limit that is honest, whatever the noise of small cells is taken for."""
        even = even_error(name, gap, level, self.classes)
        if name == "brier_calibration":
            return max(even, cells.square_limit(level))
        if name == "rmsce":
            return max(even, float(np.sqrt(cells.square_limit(level) / self.classes)))
        return even

    @staticmethod
    def mass_statistics(views: Sequence[BinaryView], gap: MeanGap) -> dict[str, ErrorStatistic]:
        """The errors over every class's own equal-mass bins, averaged over classes."""
        each = [Cells.of_bins(view.mass_sums) for view in views]
        cells = Cells(
            field=np.concatenate([one.field for one in each]),
            scale=np.concatenate([one.scale for one in each]),
            share=np.concatenate([one.share for one in each]),
            confidence=np.concatenate([one.confidence for one in each]),
            unit=np.concatenate([one.unit for one in each]),
            calibrated=np.concatenate([one.calibrated for one in each]),
            classes=len(views),
        )
        found: dict[str, ErrorStatistic] = {}
        drawn: dict[int, Floats] = {}
        for name, norm in (("adaptive_ece", "ece"), ("debiased_rmsce", "rmsce")):
            functional = FUNCTIONALS[norm](cells)
            found[name] = ErrorStatistic(
                value=float(functional(cells.field)),
                gaps=cells.field,
                cell_scale=cells.scale,
                functional=functional,
                grouped=lambda: np.hstack([view.grouped_mass_residuals() for view in views]),
                group_rows=views[0].group_rows,
                shared_rows=True,
                drawn=drawn,
                scale_at=cells.scale_at,
                allowed=partial(even_error, norm, gap, classes=len(views)),
            )
        return found

    def noise_floor(self, columns: Sequence[ConfidenceSample], seed: int) -> NoiseFloor:
        """The classwise ECE when every row's label is drawn from its own probabilities, `columns`.

        Many rows are not redrawn one by one: each cell's count then has the law of its own rows, and the
        groups of rows say how the cells vary together.
        """
        rows = len(columns[0])
        if rows <= MOST_ROWS and rows * self.classes <= MOST_VALUES:
            probabilities = np.stack([column.confidence() for column in columns], axis=1)
            return classwise_noise_floor(probabilities, bins=self.bins, closed=self.closed, seed=seed)
        filled = self._filled()
        together = joint_noise(
            self.grouped[:, filled], self.group_rows, np.ones(np.count_nonzero(filled)), seed
        )
        mean, variance = self.sums.confidence.ravel()[filled], self._bernoulli()[filled]
        gaps = np.abs(binomial_deviations(together, mean, variance)).sum(axis=1)
        return NoiseFloor.of_draws(gaps / (self.sums.total * self.classes))

    def recalibration_influence(self) -> Floats:
        """How much each group of rows moves the calibration part of the Brier score, up to a constant."""
        slope = np.divide(
            2.0 * self.sums.residual,
            self.sums.weight,
            out=np.zeros_like(self.sums.weight),
            where=self.sums.weight > 0,
        )
        return np.asarray(self.grouped @ slope.ravel())

    def recalibration_bias(self) -> float:
        """What noise alone adds to the calibration part of the Brier score."""
        cells = self.cells()
        return float((cells.scale**2 / cells.share).sum())

    def _filled(self) -> npt.NDArray[np.bool_]:
        return self.sums.weight.ravel() > 0.5  # whole rows, up to rounding

    def _bernoulli(self) -> Floats:
        return self.sums.confidence.ravel() - self.probability_square

    def _scale(self) -> Floats:
        filled = self._filled()
        weight = self.sums.weight.ravel()
        correct = self.sums.correct.ravel()
        square = self.probability_square - 2.0 * self.gold_probability + correct
        scale = residual_scale(
            weight,
            weight,
            self.sums.residual.ravel(),
            square,
            self._bernoulli(),
            self.sums.total,
            rows=self.sums.total,
        )
        return scale[filled]
