"""The folds of cross-validation: which rows are left out together."""

from __future__ import annotations

import numpy as np

from calmix.calibration.input_checks import Floats, Integers
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


def count_rows(labels: Integers, row_of_copy: Integers | None) -> int:
    """How many rows there are: the copies of a row with a soft label are one.

    >>> count_rows(np.array([0, 1, 1]), np.array([3, 3, 7])), count_rows(np.array([0, 1, 1]), None)
    (2, 3)
    """
    return len(labels) if row_of_copy is None else len(np.unique(row_of_copy))


def heaviest_copies(labels: Integers, weights: Floats, row_of_copy: Integers) -> tuple[Integers, Integers]:
    """Of rows that are there in several copies, one for each class of a soft label: where the heaviest copy
    of every row is, the first class on ties; and for every copy the number of its row, 0..rows-1.

    Folds are drawn for the first and given to the second: a copy in another fold would tell a fit the row
    that it is measured on.

    >>> labels, weights, row_of_copy = np.array([0, 1, 0, 1]), np.array([1.0, 1.0, 0.5, 1.5]), [3, 3, 7, 7]
    >>> [found.tolist() for found in heaviest_copies(labels, weights, np.array(row_of_copy))]
    [[0, 3], [0, 0, 1, 1]]
    """
    _, row, copies = np.unique(row_of_copy, return_inverse=True, return_counts=True)
    heaviest_last = np.lexsort((-labels, weights, row))
    return heaviest_last[np.cumsum(copies) - 1], row
