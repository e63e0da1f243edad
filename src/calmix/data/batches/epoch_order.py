"""The order of an epoch: which rows go into which batch, a pure function of (seed, epoch)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from calmix.runtime.randomness import stream

BUCKET_BATCHES = 50
"""Rows are sorted by length inside windows of this many batches: near-uniform lengths, still random."""


def epoch_batches(
    rows: int,
    batch_size: int,
    *,
    seed: int,
    epoch: int,
    lengths: NDArray[np.int64] | None = None,
    drop_last: bool = False,
) -> list[NDArray[np.int64]]:
    """Every row once, in batches of rows of similar length, in random order; a short batch comes last.

    >>> batches = epoch_batches(5, 2, seed=0, epoch=0)
    >>> [len(batch) for batch in batches], sorted(int(i) for batch in batches for i in batch)
    ([2, 2, 1], [0, 1, 2, 3, 4])
    """
    generator = stream(seed, "order", epoch)
    order = generator.permutation(rows)
    if drop_last:
        # Before sorting: the shortest rows would stand last in every epoch, and never be trained on.
        rows -= rows % batch_size
        order = order[:rows]
    if lengths is not None:
        window = BUCKET_BATCHES * batch_size
        order = np.concatenate(
            [
                part[np.argsort(-lengths[part], kind="stable")]
                for part in (order[start : start + window] for start in range(0, rows, window))
            ]
        )
    batches = [order[start : start + batch_size] for start in range(0, rows, batch_size)]
    whole = rows // batch_size
    shuffled = [batches[i] for i in generator.permutation(whole)]
    return shuffled + batches[whole:]
