"""The Kolmogorov-Smirnov calibration error and test: no bins at all.

Rows are ordered by confidence; with residuals r = correct - confidence,

    KS = max_k |(1/n) sum_{i <= k} r_i|         (Gupta et al. 2021; Arrieta-Ibarra et al. 2022)

taken only where a group of equal confidences ends. Were the confidences true, the running sum would be a
Brownian motion run to the time sum c (1 - c), whose largest excursion has a known distribution.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from calmix.calibration.input_checks import Floats, check_confidence, check_correct, check_weights

# The seventh term of either series is below 1e-30 of the first where it is used.
TERMS = 7


@dataclass(frozen=True)
class KolmogorovTest:
    """`error` is the KS calibration error; `p_value` the chance of one as large from true confidences."""

    error: float
    p_value: float


def ks_calibration_test(
    confidence: npt.ArrayLike, correct: npt.ArrayLike, *, weights: npt.ArrayLike | None = None
) -> KolmogorovTest:
    """Test the hypothesis that the confidences are true.

    Sorted residuals -0.5, 0.3, 0.1: the running sums are -0.5, -0.2, -0.1, so KS = 0.5 / 3.

    >>> test = ks_calibration_test([0.9, 0.5, 0.7], [1, 0, 1])
    >>> round(test.error, 6), round(test.p_value, 3)
    (0.166667, 0.916)
    """
    sure = check_confidence(confidence)
    right = check_correct(correct, rows=len(sure))
    weight = check_weights(weights, rows=len(sure))
    order = np.argsort(sure, kind="stable")
    return kolmogorov_of_sorted(sure[order], right[order], None if weight is None else weight[order])


def kolmogorov_of_sorted(
    confidence: Floats, correct: Floats, weights: Floats | None = None
) -> KolmogorovTest:
    """The test on rows that are already sorted by confidence."""
    residual = correct - confidence
    variance = confidence * (1.0 - confidence)
    if weights is not None:
        residual *= weights
        variance *= weights * weights
    total = float(len(confidence) if weights is None else weights.sum())
    spread = float(np.sqrt(variance.sum()))
    running = np.cumsum(residual, out=residual)
    # Within a tie the order is arbitrary, and so is the running sum.
    group_end = np.append(confidence[1:] != confidence[:-1], True)
    largest = float(np.abs(running[group_end]).max())
    return KolmogorovTest(largest / total, excursion_tail(largest, spread))


def excursion_tail(largest: float, spread: float) -> float:
    """P(max |W(t)| over [0, spread^2] >= largest) for a Brownian motion W.

    With x = largest / spread, and Q the upper tail of the normal law, two series for the same number:

        4 sum_j (-1)^j Q((2j + 1) x)                                           (reflection principle)
        1 - (4/pi) sum_j (-1)^j / (2j + 1) exp(-(2j + 1)^2 pi^2 / (8 x^2))     (eigenfunctions)

    The first converges at once for large x, where the second would cancel, and the second for small x.

    >>> round(excursion_tail(2.2414, 1.0), 4)
    0.05
    >>> excursion_tail(10.0, 1.0) < 1e-22
    True
    """
    if largest <= 0.0:
        return 1.0
    if spread <= 0.0:
        return 0.0
    height = largest / spread
    if height >= 1.0:
        tails = [math.erfc((2 * j + 1) * height / math.sqrt(2.0)) for j in range(TERMS)]
        return min(2.0 * (sum(tails[::2]) - sum(tails[1::2])), 1.0)
    rate = math.pi**2 / (8.0 * height**2)
    terms = [math.exp(-((2 * j + 1) ** 2) * rate) / (2 * j + 1) for j in range(TERMS)]
    return max(1.0 - 4.0 / math.pi * (sum(terms[::2]) - sum(terms[1::2])), 0.0)
