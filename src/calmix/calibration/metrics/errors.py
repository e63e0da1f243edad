"""Binned calibration errors, as functions of the bins' sums and of confidence and correctness.

With w_m the share of bin m, conf_m its mean confidence and acc_m its accuracy:

    ECE    = sum_m w_m |acc_m - conf_m|
    MCE    = max_m |acc_m - conf_m|
    RMSCE  = sqrt(sum_m w_m (acc_m - conf_m)^2)
    OE     = sum_m w_m conf_m max(conf_m - acc_m, 0)            (Thulasidasan et al. 2019)
    total  = sum_m |acc_m - conf_m|                             (Desai & Durrett 2020)

`confidence` and `correct` carry the notion: the top label's probability and whether it is right, or the
probability of the positive class and whether the row is positive. Classwise error takes the whole array.
All plug-in errors are biased upwards in small samples; see `noise_floor` and `intervals`.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from calmix.calibration.metrics.binning import (
    BinSums,
    Closed,
    binned_error,
    equal_mass_sums,
    equal_width_sums,
)
from calmix.calibration.metrics.class_bins import class_sums


def expected_error(sums: BinSums) -> float:
    return float(binned_error(sums.residual, sums.total))


def maximum_error(sums: BinSums) -> float:
    return float(np.abs(sums.gap()).max())


def root_mean_square_error(sums: BinSums) -> float:
    return float(np.sqrt((sums.weight * sums.gap() ** 2).sum() / sums.total))


def overconfidence(sums: BinSums) -> float:
    mean = np.divide(sums.confidence, sums.weight, out=np.zeros_like(sums.weight), where=sums.weight > 0)
    return float((mean * np.maximum(-sums.residual, 0.0)).sum() / sums.total)


def total_error(sums: BinSums) -> float:
    return float(np.abs(sums.gap()).sum())


def debiased_square_error(sums: BinSums) -> float:
    """sum_m w_m [gap_m^2 - acc_m (1 - acc_m) / (n_m - 1)]: the squared error less what noise alone adds.

    Kumar, Liang & Ma 2019; it may fall below 0. n_m is the number of rows, with weights their effective
    number (sum w)^2 / sum w^2. A bin of a single row says nothing about its own noise and adds nothing.
    """
    filled = sums.weight > 0
    accuracy = np.divide(sums.correct, sums.weight, out=np.zeros_like(sums.weight), where=filled)
    effective = np.divide(sums.weight**2, sums.weight_square, out=np.zeros_like(sums.weight), where=filled)
    several = effective > 1.0 + 1e-9
    noise = np.divide(
        accuracy * (1.0 - accuracy), effective - 1.0, out=np.zeros_like(sums.weight), where=several
    )
    excess = np.where(several, sums.gap() ** 2 - noise, 0.0)
    return float((sums.weight * excess).sum() / sums.total)


def debiased_error(sums: BinSums) -> float:
    """sqrt(max(0, debiased squared error))."""
    return float(np.sqrt(max(debiased_square_error(sums), 0.0)))


def expected_calibration_error(
    confidence: npt.ArrayLike,
    correct: npt.ArrayLike,
    *,
    bins: int = 15,
    closed: Closed = "right",
    weights: npt.ArrayLike | None = None,
) -> float:
    """ECE over M bins of equal width.

    Three rows in one bin at 0.8, two of them right: |2/3 - 0.8|.

    >>> round(expected_calibration_error([0.8, 0.8, 0.8], [1, 1, 0]), 6)
    0.133333
    """
    return expected_error(equal_width_sums(confidence, correct, bins=bins, closed=closed, weights=weights))


def maximum_calibration_error(
    confidence: npt.ArrayLike,
    correct: npt.ArrayLike,
    *,
    bins: int = 15,
    closed: Closed = "right",
    weights: npt.ArrayLike | None = None,
) -> float:
    """MCE: the largest gap of any bin, however few rows it holds.

    >>> round(maximum_calibration_error([0.9, 0.9, 0.2], [1, 1, 1], bins=10), 6)
    0.8
    """
    return maximum_error(equal_width_sums(confidence, correct, bins=bins, closed=closed, weights=weights))


def root_mean_square_calibration_error(
    confidence: npt.ArrayLike,
    correct: npt.ArrayLike,
    *,
    bins: int = 15,
    closed: Closed = "right",
    weights: npt.ArrayLike | None = None,
) -> float:
    """RMSCE: the L2 relative of ECE, never below it.

    >>> round(root_mean_square_calibration_error([0.9, 0.9, 0.2, 0.2], [1, 1, 1, 1], bins=10), 6)
    0.570088
    """
    return root_mean_square_error(
        equal_width_sums(confidence, correct, bins=bins, closed=closed, weights=weights)
    )


def overconfidence_error(
    confidence: npt.ArrayLike,
    correct: npt.ArrayLike,
    *,
    bins: int = 15,
    closed: Closed = "right",
    weights: npt.ArrayLike | None = None,
) -> float:
    """OE: only overconfident bins count, weighted by their confidence. 0 <= OE <= ECE.

    Half the rows right at 0.9: 0.9 * (0.9 - 0.5).

    >>> round(overconfidence_error([0.9, 0.9], [1, 0]), 6)
    0.36
    """
    return overconfidence(equal_width_sums(confidence, correct, bins=bins, closed=closed, weights=weights))


def adaptive_calibration_error(
    confidence: npt.ArrayLike,
    correct: npt.ArrayLike,
    *,
    bins: int = 15,
    weights: npt.ArrayLike | None = None,
) -> float:
    """ECE over M bins of equal mass (Nguyen & O'Connor 2015); equal confidences share a bin.

    >>> round(adaptive_calibration_error([0.6, 0.7, 0.8, 0.9], [0, 1, 1, 1], bins=2), 6)
    0.15
    """
    return expected_error(equal_mass_sums(confidence, correct, bins=bins, weights=weights))


def debiased_calibration_error(
    confidence: npt.ArrayLike,
    correct: npt.ArrayLike,
    *,
    bins: int = 15,
    weights: npt.ArrayLike | None = None,
) -> float:
    """The debiased L2 calibration error of Kumar, Liang & Ma (2019), over bins of equal mass.

    >>> debiased_calibration_error([0.5, 0.5, 0.5, 0.5], [1, 0, 1, 0], bins=1)
    0.0
    """
    return debiased_error(equal_mass_sums(confidence, correct, bins=bins, weights=weights))


def classwise_calibration_error(
    probabilities: npt.ArrayLike,
    labels: npt.ArrayLike,
    *,
    bins: int = 15,
    closed: Closed = "right",
    weights: npt.ArrayLike | None = None,
) -> float:
    """The mean over classes of the ECE of p_k against "the label is k" (Kull et al. 2019).

    Both classes sit in one bin, off by |1 - 0.75| and |0 - 0.25|:

    >>> classwise_calibration_error([[0.75, 0.25], [0.75, 0.25]], [0, 0])
    0.25
    """
    sums = class_sums(probabilities, labels, bins=bins, closed=closed, weights=weights)
    return sums.expected_error()
