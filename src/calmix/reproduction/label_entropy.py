"""How soft mixup makes the labels: the mean entropy of mixed targets by α.

For two different labels the target is (λ, 1 − λ) with λ ~ Beta(α, α), and its mean entropy is known:

    E[H] = ψ(2α + 1) − ψ(α + 1)  nats

The draws are those of training (`mixing.ratio`), so that the table shows what the code does beside what the
formula says. Figure 5 of Thulasidasan et al. 2019 shows the distribution of these entropies.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from calmix.experiments.significance import Spread
from calmix.mixing.pairing import draw_ratio
from calmix.runtime.randomness import stream

DRAWS = 20_000


def expected_entropy(alpha: float) -> float:
    """ψ(2α + 1) − ψ(α + 1).

    >>> [round(expected_entropy(alpha), 4) for alpha in (0.1, 0.2, 0.4, 1.0)]
    [0.1347, 0.2277, 0.3464, 0.5]
    """
    from scipy.special import digamma

    return float(digamma(2 * alpha + 1) - digamma(alpha + 1))


def drawn_entropies(alpha: float, seed: int, draws: int = DRAWS) -> np.ndarray[Any, Any]:
    """Entropies of mixed targets of two labels, λ drawn as a step of training draws it."""
    from scipy.special import entr

    ratios = draw_ratio(alpha, stream(seed, "reproduction: label entropy"), size=draws)
    return np.asarray(entr(ratios) + entr(1 - ratios))


def entropy_cell(alpha: float, seeds: tuple[int, ...]) -> dict[str, Any]:
    means = [float(drawn_entropies(alpha, seed).mean()) for seed in seeds]
    return {"values": means, "n": DRAWS}


def entropy_effect(ours: float, theirs: float, seeds: tuple[int, ...]) -> Spread:
    points, rows = [], []
    for seed in seeds:
        difference = drawn_entropies(ours, seed) - drawn_entropies(theirs, seed)
        points.append(float(difference.mean()))
        rows.append(float(difference.var(ddof=1)) / len(difference))
    over_seeds = float(np.var(points, ddof=1)) / len(points) if len(points) > 1 else 0.0
    return Spread(float(np.mean(points)), 0.0 if len(points) > 1 else rows[0], over_seeds, len(points))
