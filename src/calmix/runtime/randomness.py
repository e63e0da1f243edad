"""Random draws as pure functions of what they are for.

The order of rows, the pairs, the mixing ratio and the layer are not read from a generator that moves
along with training: each is drawn from a stream that is fixed by (seed, purpose, counters). A resumed
run therefore draws what an unbroken one would, and two processes draw the same numbers.
"""

from __future__ import annotations

import zlib

import numpy as np


def stream(seed: int, purpose: str, *counters: int) -> np.random.Generator:
    """The generator of one purpose at one moment, for example `stream(0, "order", epoch)`.

    >>> bool(stream(0, "ratio", 7).random() == stream(0, "ratio", 7).random())
    True
    >>> bool(stream(0, "ratio", 7).random() == stream(0, "ratio", 8).random())
    False
    >>> bool(stream(0, "ratio", 7).random() == stream(0, "order", 7).random())
    False
    """
    entropy = [seed, zlib.crc32(purpose.encode()), *counters]
    return np.random.Generator(np.random.Philox(np.random.SeedSequence(entropy)))
