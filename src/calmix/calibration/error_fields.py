"""Calibration errors as norms of the bins' gaps: what `inversion` needs to know of each.

A cell is a bin of one notion, or a bin of one class. Its entry of the field is x = (sum of w r) / W, its
share of the weight v, its mean confidence c.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from calmix.calibration.binning import BinSums
from calmix.calibration.input_checks import Floats
from calmix.calibration.inversion import ErrorInterval, Functional, invert
from calmix.calibration.sampling_noise import bin_scale, independent_noise


@dataclass(frozen=True, eq=False)
class Cells:
    """The filled cells of one or several classes (`classes` > 1 averages over them)."""

    field: Floats
    scale: Floats
    share: Floats
    confidence: Floats
    classes: int = 1

    @classmethod
    def of_bins(cls, sums: BinSums) -> Cells:
        filled = sums.weight > 0
        return cls(
            field=sums.residual[filled] / sums.total,
            scale=bin_scale(sums)[filled],
            share=sums.weight[filled] / sums.total,
            confidence=sums.confidence[filled] / sums.weight[filled],
        )


def _expected(cells: Cells) -> Functional:
    return lambda x: np.abs(x).sum(axis=-1) / cells.classes


def _root_mean_square(cells: Cells) -> Functional:
    return lambda x: np.sqrt((x**2 / cells.share).sum(axis=-1) / cells.classes)


def _maximum(cells: Cells) -> Functional:
    return lambda x: np.abs(x / cells.share).max(axis=-1)


def _overconfidence(cells: Cells) -> Functional:
    return lambda x: (cells.confidence * np.maximum(-x, 0.0)).sum(axis=-1) / cells.classes


def _square_sum(cells: Cells) -> Functional:
    """The calibration part of the Brier score, which sums over classes."""
    return lambda x: (x**2 / cells.share).sum(axis=-1)


FUNCTIONALS: dict[str, Callable[[Cells], Functional]] = {
    "ece": _expected,
    "rmsce": _root_mean_square,
    "mce": _maximum,
    "oe": _overconfidence,
    "brier_calibration": _square_sum,
}


# Only overconfident bins count for OE. (All signs are equally likely in the noise of one notion.)
LEAST_VISIBLE: dict[str, Callable[[Floats], Floats]] = {"oe": np.negative}


def cell_interval(cells: Cells, metric: str, noise: Floats, *, level: float = 0.95) -> ErrorInterval:
    """The interval of one of the errors, from draws of the cells' noise."""
    return invert(
        cells.field,
        cells.scale,
        noise,
        FUNCTIONALS[metric](cells),
        least_visible=LEAST_VISIBLE[metric](cells.scale) if metric in LEAST_VISIBLE else None,
        level=level,
    )


def bin_intervals(
    sums: BinSums, metrics: tuple[str, ...], *, level: float, seed: int
) -> dict[str, ErrorInterval]:
    """The intervals of several errors of one set of bins, from the same draws."""
    cells = Cells.of_bins(sums)
    noise = independent_noise(cells.scale, seed)
    return {metric: cell_interval(cells, metric, noise, level=level) for metric in metrics}
