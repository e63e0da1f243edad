"""Which row is mixed with which, and the mixing ratio λ."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def draw_ratio(
    alpha: float, generator: np.random.Generator, *, size: int | None = None, fold: bool = False
) -> NDArray[np.float64]:
    """λ ~ Beta(α, α), one number or `size` of them; α <= 0 means λ = 1, which mixes nothing.

    Raw, as in Zhang et al. (2018): λ may be below one half. `fold` takes max(λ, 1 − λ), as MixText does.

    >>> float(draw_ratio(0.0, np.random.default_rng(0)))
    1.0
    >>> bool(draw_ratio(0.4, np.random.default_rng(0), size=1000, fold=True).min() >= 0.5)
    True
    """
    if alpha <= 0:
        return np.ones(() if size is None else size)
    ratio = np.asarray(generator.beta(alpha, alpha, size=size))
    return np.maximum(ratio, 1 - ratio) if fold else ratio


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


def apart(
    first: NDArray[np.int64], second: NDArray[np.int64], order: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """`order` changed so that no row meets itself, and which of the pairs are two different rows.

    Pair i is first[i] with second[order[i]]; `order` may be longer than `first`, its rest meets nobody. A row
    that would meet itself swaps its partner with the next pair, or with the rest, where neither of the two
    then meets itself. Where no such swap is there, as in a batch of one row and its copy, the pair is False.

    >>> rows = np.array([7, 8, 9])
    >>> order, differ = apart(rows, rows, np.array([0, 2, 1]))
    >>> rows[order].tolist(), differ.tolist()
    ([9, 7, 8], [True, True, True])
    """
    order, count = order.copy(), len(first)
    for pair in np.flatnonzero(first == second[order[:count]]):
        for step in range(1, len(order)):
            other = (pair + step) % len(order)
            is_free = other >= count or second[order[pair]] != first[other]
            if is_free and second[order[other]] != first[pair]:
                order[[pair, other]] = order[[other, pair]]
                break
    return order, first != second[order[:count]]


def mirrored(rows: int, *, padding: int = 0) -> NDArray[np.int64]:
    """The batch in reverse order: the first row meets the last. `padding` rows at the end meet themselves.

    >>> mirrored(3, padding=1).tolist()
    [2, 1, 0, 3]
    """
    return np.concatenate([np.arange(rows)[::-1], np.arange(rows, rows + padding)])
