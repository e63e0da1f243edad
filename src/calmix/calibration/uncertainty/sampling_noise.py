"""The sampling noise of bin residuals: standard deviations, and random draws.

Independent draws serve one notion on one set of rows. Where cells share rows (the classes of one model,
two models on the same rows) the draws must be joint; they then come from random groups of rows (see
`row_groups`).
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from calmix.calibration.input_checks import Floats
from calmix.calibration.metrics.binning import BinSums

# Weight, in rows, of what is believed about a bin's spread before looking at it. Without it a bin of
# three rows that all happen to be right would be taken as free of noise.
PRIOR_ROWS = 2.0
# Draws times cells, and the least draws that still give a 2.5 % tail: a norm of many cells varies little.
DRAW_VALUES = 400_000
FEWEST_DRAWS, MOST_DRAWS = 250, 1000


def residual_scale(
    counts: Floats,
    weight_square: Floats,
    residual: Floats,
    square: Floats,
    bernoulli: Floats,
    total: float,
    *,
    rows: float,
    fine: bool = False,
) -> Floats:
    """Standard deviation of (sum of w r) / W of each cell, 0 where it is empty.

    `counts` are the rows of each cell, `rows` all rows (a row stands in one cell of each class).

    The mean square residual is pooled with `PRIOR_ROWS` rows that spread as the confidence says, c (1 -
    c), but at least as much as a share seen 0 times in n still may (rule of succession). `fine` cells are
    too small to be judged alone: there n is all rows.
    """
    filled = counts > 0
    count = np.where(filled, counts, 1.0)
    share_unseen = 1.0 / ((rows if fine else count) + 2.0)
    believed = np.divide(
        bernoulli, weight_square, out=np.zeros_like(bernoulli), where=filled & (weight_square > 0)
    )
    believed = np.maximum(believed, share_unseen * (1.0 - share_unseen))
    pooled = (square + PRIOR_ROWS * believed * weight_square / count) * count / (count + PRIOR_ROWS)
    # Rows that were all right do not prove that none could be wrong.
    pooled = np.maximum(pooled, weight_square / (rows + 2.0))
    variance = np.maximum(pooled - residual**2 / rows, 0.0)
    return np.where(filled, np.sqrt(variance) / total, 0.0)


def bin_scale(sums: BinSums, *, fine: bool = False) -> Floats:
    """The noise of (sum of w r) / W of every bin."""
    return residual_scale(
        sums.rows,
        sums.weight_square,
        sums.residual,
        sums.square,
        sums.bernoulli,
        sums.total,
        rows=float(sums.rows.sum()),
        fine=fine,
    )


def draw_count(cells: int) -> int:
    return int(np.clip(DRAW_VALUES // max(cells, 1), FEWEST_DRAWS, MOST_DRAWS))


def independent_noise(scale: Floats, seed: int) -> Floats:
    """Normal draws [draws, cells] with these standard deviations."""
    return normal_numbers((draw_count(len(scale)), len(scale)), seed) * scale


@lru_cache(maxsize=4)
def normal_numbers(shape: tuple[int, int], seed: int) -> Floats:
    """Metrics with the same cells, the splits of a run, and the two sides of a difference share the draws."""
    return np.random.default_rng(seed).standard_normal(shape)
