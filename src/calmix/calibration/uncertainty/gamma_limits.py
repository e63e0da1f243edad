"""Limits of a mean to which rare rows add much, valid when few of them were seen.

Most rows add nothing to the mean cost of errors, a few add their cost. Where few errors were seen the mean is
skewed, its sample variance is too small, and with no error at all both are 0, which proves nothing. With mean
y and variance v, and w what one more error would have added, the limits of Fay and Feuer (1997) for weighted
Poisson counts are quantiles of gamma distributions:

    lower: mean y,     variance v
    upper: mean y + w, variance v + w²

With equal costs they are the exact limits of a Poisson count: after none in n rows the upper limit is
3.69 w, w = cost / n. With many errors both are those of the normal distribution.
"""

from __future__ import annotations

import numpy as np

from calmix.calibration.input_checks import Floats, check_level


def gamma_limits(mean: float, variance: float, jump: float, level: float = 0.95) -> tuple[float, float]:
    """Limits of a mean cost that cannot be below 0.

    Two errors that cost 1 each, and none, among 100 rows:

    >>> low, high = gamma_limits(0.02, 2 / 100**2, 1 / 100)
    >>> round(low, 4), round(high, 4)
    (0.0024, 0.0722)
    >>> low, high = gamma_limits(0.0, 0.0, 1 / 100)
    >>> round(low, 4), round(high, 4)
    (0.0, 0.0369)
    """
    from scipy.special import gammaincinv

    tail = (1.0 - check_level(level)) / 2.0
    low, high = max(mean, 0.0), max(mean, 0.0)
    if mean > 0 and variance > 0:
        low = float(gammaincinv(mean**2 / variance, tail)) * variance / mean
    if mean + jump > 0 and variance + jump**2 > 0:
        mean, variance = max(mean, 0.0) + jump, variance + jump**2
        high = float(gammaincinv(mean**2 / variance, 1.0 - tail)) * variance / mean
    return low, high


def mean_variance(grouped: Floats, group_rows: Floats) -> float:
    """Variance of the mean over rows whose values were added up in random groups.

    >>> mean_variance(np.array([0.0, 2.0]), np.ones(2))
    1.0
    """
    return mean_covariance(grouped, grouped, group_rows)


def mean_covariance(first: Floats, second: Floats, group_rows: Floats) -> float:
    """Covariance of two means over the same rows."""
    held = int(np.count_nonzero(group_rows))
    rows = float(group_rows.sum())
    if held < 2:
        return 0.0
    one = first - group_rows * (first.sum() / rows)
    other = second - group_rows * (second.sum() / rows)
    return float(one @ other) / rows**2 * held / (held - 1)
