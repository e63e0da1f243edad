"""Probabilities that were rounded when they were written: how many digits they have, and what a 0 then means.

A file with d digits distinguishes probabilities in units of u = 10^-d, so that a 0 in it is no certainty
but some probability below u/2. Taken for 0, or for the smallest number there is, a few such rows decide the
log loss and the temperature. Here the classes of a row that are written as 0 share what the row lacks to a
sum of 1: at least u/10 together, at most u/2 each. The row is then divided by its sum.

`benchmarks/rounded_probabilities.py` compares this rule with others, on logits known before rounding.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from calmix.calibration.input_checks import NORMALISATION_TOLERANCE, Floats

# One digit is a share of ten votes rather than a rounded probability. Beyond twelve digits nothing is lost.
FEWEST_DIGITS = 2
MOST_DIGITS = {np.dtype(np.float32): 5, np.dtype(np.float64): 12}
# Rounding lets a row sum to 0.98..1.02, no more.
LARGEST_EXCESS = 0.02
SHARE_OF_UNIT = 0.1
# A sum of 1, a little stricter than in the check: no sum of rounded numbers lies just between the two.
CLOSE_TO_ONE = 0.95 * NORMALISATION_TOLERANCE


def decimal_digits(values: npt.NDArray[np.floating[Any]]) -> int | None:
    """The fewest decimal digits that write all values; None where they are not rounded.

    >>> decimal_digits(np.array([0.25, 0.7, 0.05])), decimal_digits(np.array([1 / 3, 2 / 3]))
    (2, None)
    >>> decimal_digits(np.array([0.125, 0.99], dtype=np.float32))
    3
    """
    spacing = float(np.finfo(values.dtype).eps)
    wide = values.astype(np.float64)
    for digits in range(MOST_DIGITS[values.dtype] + 1):
        scaled = wide * 10.0**digits
        # 1 - p is off by a step at 1, however small it is.
        if (np.abs(scaled - np.rint(scaled)) <= 4 * spacing * 10.0**digits).all():
            return digits
    return None


def common_step(values: npt.NDArray[np.floating[Any]], digits: int) -> int:
    """The largest number of units of the last digit that divides all values.

    >>> common_step(np.array([0.25, 0.75, 0.0]), 2), common_step(np.array([0.97, 0.03]), 2)
    (25, 1)
    """
    return int(np.gcd.reduce(np.rint(values.astype(np.float64) * 10.0**digits).astype(np.int64), axis=None))


def rounded_digits(blocks: Iterable[npt.NDArray[np.floating[Any]]]) -> int | None:
    """The digits that all probabilities of a file were rounded to; None where they were not.

    Quarters, fifths and the like are shares of votes and not rounded: their zeros are zeros.

    >>> rounded_digits([np.array([[0.25, 0.75], [1.0, 0.0]])])
    >>> rounded_digits([np.array([[0.97, 0.03], [1.0, 0.0]])])
    2
    """
    most, step, units = 0, 0, 0
    for block in blocks:
        digits = decimal_digits(block)
        if digits is None:
            return None
        if digits > most:
            step *= 10 ** (digits - most)
            most = digits
        step = int(np.gcd(step, common_step(block, most)))
    units = 10**most
    are_votes = step > 1 and units % step == 0
    return None if most < FEWEST_DIGITS or are_votes else most


def restore_rounded(probabilities: npt.NDArray[np.floating[Any]], digits: int) -> tuple[Floats, int, int]:
    """Rows without zeros that sum to 1; and how many rows had zeros, and how many did not sum to 1.

    Rows that are further from 1 than rounding explains stay as they are, to be refused.

    >>> restored, zeros, sums = restore_rounded(np.array([[1.0, 0.0], [0.5, 0.51]]), 2)
    >>> restored.round(5).tolist(), zeros, sums
    ([[0.999, 0.001], [0.49505, 0.50495]], 1, 1)
    """
    unit = 10.0**-digits
    restored = probabilities.astype(np.float64)
    sums = restored.sum(axis=1)
    # Half a unit for every class, and the noise of the sum itself.
    explained = min(restored.shape[1] * unit / 2, LARGEST_EXCESS) + 1e-6
    fits = np.abs(sums - 1) <= max(explained, CLOSE_TO_ONE)
    is_zero = restored == 0
    zeros = is_zero.sum(axis=1)
    missing = np.clip(1 - sums, SHARE_OF_UNIT * unit, np.maximum(zeros, 1) * unit / 2)
    is_filled = fits & (zeros > 0)
    each = (missing / np.maximum(zeros, 1))[:, None]
    restored = np.where(is_zero & is_filled[:, None], each, restored)
    off = fits & (np.abs(sums - 1) > CLOSE_TO_ONE)
    changed = is_filled | off
    restored[changed] /= restored[changed].sum(axis=1, keepdims=True)
    return restored, int(is_filled.sum()), int(off.sum())
