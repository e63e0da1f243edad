"""Which row meets which."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def random_involution(rows: int, generator: np.random.Generator, *, padding: int = 0) -> NDArray[np.int64]:
    """A random perfect matching: partner[partner[i]] = i; with an odd number of rows one meets itself.

    Every other row is equally likely as a partner. Both members of a pair see each other, so they can share
    one padded length and the batch is encoded once; an arbitrary permutation would need two encodings.
    `padding` rows at the end meet themselves.

    >>> partner = random_involution(4, np.random.default_rng(0))
    >>> partner[partner].tolist()
    [0, 1, 2, 3]
    """
    order = generator.permutation(rows)
    partner = np.arange(rows + padding)
    first, second = order[0 : rows - 1 : 2], order[1:rows:2]
    partner[first], partner[second] = second, first
    return partner


def mirrored(rows: int, *, padding: int = 0) -> NDArray[np.int64]:
    """The batch in reverse order: the first row meets the last. `padding` rows at the end meet themselves.

    >>> mirrored(3, padding=1).tolist()
    [2, 1, 0, 3]
    """
    return np.concatenate([np.arange(rows)[::-1], np.arange(rows, rows + padding)])
