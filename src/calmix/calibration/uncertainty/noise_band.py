"""The noise band of a reliability diagram: where the accuracy of a perfectly calibrated model would lie.

The binomial quantiles at the mean confidence of a bin, a consistency bar (Bröcker & Smith 2007).
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

Side = Literal["over", "under", "within"]


def noise_band(
    rows: NDArray[np.int64], mean_confidence: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Accuracies that a perfectly calibrated model shows in 95 of 100 samples; NaN for empty bins.

    >>> low, high = noise_band(np.array([10, 0]), np.array([0.5, np.nan]))
    >>> low.tolist(), high.tolist()
    ([0.2, nan], [0.8, nan])
    """
    from scipy.stats import binom

    filled = rows > 0
    trials, share = np.where(filled, rows, 1), np.where(filled, mean_confidence, 0.5)
    low, high = (binom.ppf(level, trials, np.minimum(share, 1.0)) / trials for level in (0.025, 0.975))
    return np.where(filled, low, np.nan), np.where(filled, high, np.nan)


def side_of(accuracy: float, low: float, high: float) -> Side:
    """
    >>> side_of(0.5, 0.6, 0.8), side_of(0.7, 0.6, 0.8)
    ('over', 'within')
    """
    return "over" if accuracy < low else "under" if accuracy > high else "within"
