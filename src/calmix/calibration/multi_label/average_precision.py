"""The area under the precision-recall curve of one label.

    AP = Σ_n (R_n − R_{n−1}) P_n      over the distinct scores, the highest first

as scikit-learn's `average_precision_score` has it: no interpolation, rows of equal score together.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from calmix.calibration.input_checks import Floats, Integers


def distinct_cuts(scores: Floats, positive: npt.NDArray[np.bool_]) -> tuple[Floats, Integers, Integers]:
    """The distinct scores from high to low, and of the rows with at least each: positives, and all.

    >>> cuts = distinct_cuts(np.array([0.9, 0.5, 0.5]), np.array([True, False, True]))
    >>> [part.tolist() for part in cuts]
    [[0.9, 0.5], [1, 2], [1, 3]]
    """
    order = np.argsort(-scores, kind="stable")
    ranked = scores[order]
    last = np.append(np.flatnonzero(np.diff(ranked)), len(ranked) - 1)
    return ranked[last], np.cumsum(positive[order])[last], last + 1


def average_precision(scores: npt.ArrayLike, positive: npt.ArrayLike) -> float | None:
    """None where no row has the label.

    >>> average_precision([0.9, 0.8, 0.1], [1, 0, 1])  # 1/2 · 1 + 1/2 · 2/3
    0.8333333333333333
    """
    values, has_it = np.asarray(scores, dtype=np.float64), np.asarray(positive).astype(np.bool_)
    _, found, taken = distinct_cuts(values, has_it)
    if not found[-1]:
        return None
    gained = np.diff(found, prepend=0) / found[-1]
    return float(gained @ (found / taken))
