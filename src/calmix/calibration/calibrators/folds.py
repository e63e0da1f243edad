"""The folds of cross-validation: which rows are left out together."""

from __future__ import annotations

import numpy as np

from calmix.calibration.input_checks import Integers
from calmix.runtime.randomness import stream

FOLDS = 5


def fold_of_row(labels: Integers, folds: int, seed: int = 0) -> Integers:
    """The fold of every row: random, each class spread over all folds as evenly as it goes.

    >>> fold = fold_of_row(np.array([0, 0, 0, 0, 1, 1]), 2)
    >>> [int((fold[:4] == number).sum()) for number in range(2)], sorted(fold[4:].tolist())
    ([2, 2], [0, 1])
    """
    shuffled = stream(seed, "folds").permutation(len(labels))
    by_class = shuffled[np.argsort(labels[shuffled], kind="stable")]
    fold = np.empty(len(labels), dtype=np.int64)
    fold[by_class] = np.arange(len(labels)) % folds
    return fold
