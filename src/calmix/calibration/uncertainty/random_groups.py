"""Random groups of rows: what metrics that share rows have in common, in bounded memory.

Rows are dealt to at most 1,024 groups by a hash of their position. Sums over a group behave like single
observations, so that resampling or reweighting the groups shows how metrics vary together: two models on
the same rows, the classes of one model, an average and a rank statistic. With no more rows than groups,
each row is a group.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from calmix.calibration.input_checks import Floats, Integers
from calmix.calibration.uncertainty.sampling_noise import draw_count, normal_numbers

GROUPS = 1024
BLOCK_ROWS = 1 << 18
# Up to here rows are added up column by column.
FEW_COLUMNS, FEW_VALUES = 8, 1 << 16


def deal_rows(first_row: int, rows: int, groups: int = GROUPS) -> Integers:
    """The group of each of `rows` rows, the first of them standing at `first_row` of its file.

    >>> deal_rows(0, 4).tolist(), deal_rows(2, 2).tolist()
    ([0, 1, 2, 3], [2, 3])
    """
    position = np.arange(first_row, first_row + rows, dtype=np.uint64)
    # splitmix64: neighbouring positions land in unrelated groups, so that a sorted file is dealt like any
    # other.
    mixed = position + np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed ^= mixed >> np.uint64(31)
    # The same as a remainder, but several times faster.
    mixed = mixed & np.uint64(groups - 1) if groups & (groups - 1) == 0 else mixed % np.uint64(groups)
    first = max(groups - first_row, 0)
    mixed[:first] = position[:first]
    return mixed.astype(np.int64)


@lru_cache(maxsize=4)
def group_sizes(rows: int) -> Floats:
    """How many of so many rows each group has."""
    total = np.zeros(GROUPS)
    for start in range(0, rows, BLOCK_ROWS):
        total += np.bincount(deal_rows(start, min(BLOCK_ROWS, rows - start)), minlength=GROUPS)
    total.flags.writeable = False  # it is shared
    return total


def group_sums(dealt: Integers, cell: Integers, values: Floats, cells: int, groups: int = GROUPS) -> Floats:
    """[groups, cells]: the values of each group, by cell."""
    summed = np.bincount(dealt * cells + cell, weights=values, minlength=groups * cells)
    return np.asarray(summed, dtype=np.float64).reshape(groups, cells)


def add_rows(dealt: Integers, values: npt.NDArray[np.floating[Any]], groups: int = GROUPS) -> Floats:
    """[groups, columns]: the rows of each group added up, one after the other.

    >>> add_rows(np.array([0, 1, 0]), np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]), 2).tolist()
    [[6.0, 8.0], [3.0, 4.0]]
    """
    rows, columns = values.shape
    if columns <= FEW_COLUMNS or values.size <= FEW_VALUES:
        added = [np.bincount(dealt, weights=column, minlength=groups) for column in values.T]
        return np.stack(added, axis=1).astype(np.float64, copy=False)
    # The same sums in the same order: several times faster for long rows, but slow to import.
    from scipy.sparse import csr_array

    members = csr_array((np.ones(rows), (dealt, np.arange(rows))), shape=(groups, rows))
    return np.asarray(members @ values)


def joint_noise(grouped: Floats, group_rows: Floats, scale: Floats, seed: int) -> Floats:
    """Draws [draws, cells] of the noise of cell means that share rows, each cell with its standard deviation.

    The groups' deviations are multiplied by independent normal numbers, which keeps every correlation;
    the size of each cell's noise is then set to `scale`, which knows more about small cells than the
    groups do.
    """
    held = group_rows > 0
    grouped, group_rows = grouped[held], group_rows[held]
    centred = grouped - np.outer(group_rows / group_rows.sum(), grouped.sum(axis=0))
    spread = np.sqrt((centred**2).sum(axis=0))
    centred *= np.divide(scale, spread, out=np.zeros_like(spread), where=spread > 0)
    shape = draw_count(len(scale)), len(grouped)
    noise = normal_numbers(shape, seed) @ centred
    # A cell that did not vary among the groups (a single row far from all others) varies on its own.
    alone = (spread == 0) & (scale > 0)
    if alone.any():
        generator = np.random.default_rng(seed)
        generator.standard_normal(shape)  # these were for the others
        noise[:, alone] = generator.standard_normal((len(noise), int(alone.sum()))) * scale[alone]
    return np.asarray(noise)
