"""The mixing ratio λ: how much of a row is its own."""

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
