"""Intervals of calibration errors by test inversion: which true errors are compatible with the rows.

A calibration error is a norm T = F(d) of observed gaps d = mu + noise, one entry per bin, with true gaps
mu and noise of known size s. Noise always adds to a norm: F(d) is biased upwards, and a bootstrap, which
adds noise to gaps that hold noise already, doubles the bias instead of removing it. So the test is
inverted:

* lower limit: the gaps are shrunk together, mu = d (1 - (l s / d)^2)_+ (the non-negative garrote, which
  lets the gaps that are all noise go first), until F(mu + noise) >= T has probability 2.5 %. If even mu =
  0 shows as much that often, the limit is 0.
* upper limit: of all gaps with one value of F, those in proportion to the noise, mu = t s, show least
  (where F is a sum; a maximum hides best at one place); t grows until F(mu + noise) <= T has probability
  2.5 %.
* the corrected value is the shrunk one at 50 %: the error that shows more or less than T equally often.

The coverage is measured in `benchmarks/interval_coverage.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np

from calmix.calibration.input_checks import Floats, check_level

Functional = Callable[[Floats], Floats]

# A limit is located to 2^-14 of its range, finer than a thousand draws can tell.
BISECTIONS = 14
REACH = 1.96
BLOCK_VALUES = 1 << 15
# Gaps of a million standard deviations: more than any data show.
MOST_GROWTH = 1e6


@dataclass(frozen=True)
class ErrorInterval:
    """Limits of the true error, and the value freed of the bias of the plug-in.

    `corrected` takes the gaps to be where they were seen; `hidden` is the value if they were spread so as to
    show least. The difference is what the data cannot tell.
    """

    low: float
    high: float
    corrected: float
    hidden: float

    def widened(self, allowed: float, most: float) -> ErrorInterval:
        """With an upper limit of at least `allowed`, and nothing above `most`."""
        values = (self.low, max(self.high, allowed), self.corrected, self.hidden)
        return ErrorInterval(*(min(value, most) for value in values))


def invert(
    field: Floats,
    scale: Floats,
    noise: Floats,
    functional: Functional,
    *,
    observed: float | None = None,
    least_visible: Floats | None = None,
    scale_at: Functional | None = None,
    level: float = 0.95,
) -> ErrorInterval:
    """The interval of F(mu) from d, the noise's standard deviation s and draws of the noise [draws, cells].

    `functional` maps [..., cells] to [...]; `observed` is T where it was computed more finely than F(d);
    `least_visible` are the gaps along which the upper limit is sought, by default in proportion to the
    noise, each with the sign of the gap seen (which matters where the noise of cells is correlated);
    `scale_at` says how large the noise would be if given gaps were true: where it is more than s, it counts.
    (Few errors spread little; that a bin has more of them than were seen is judged by the spread of those.)

    One gap without noise to speak of is its own interval:

    >>> draws = np.random.default_rng(0).standard_normal((1000, 1))
    >>> found = invert(np.array([0.2]), np.array([0.01]), 0.01 * draws, lambda x: np.abs(x).sum(axis=-1))
    >>> abs(found.low - 0.18) < 0.002, abs(found.high - 0.22) < 0.002, round(found.corrected, 2)
    (True, True, 0.2)
    """
    seen = float(functional(field)) if observed is None else observed
    if not scale.any():
        return ErrorInterval(seen, seen, seen, seen)
    tail = (1.0 - check_level(level)) / 2.0
    # Blocks that stay in the processor's cache, cell by cell in memory: the norms of all draws of a block are
    # then a few operations on long vectors.
    step = max(BLOCK_VALUES // len(scale), 1)
    blocks = [np.asfortranarray(noise[start : start + step]) for start in range(0, len(noise), step)]

    positive = np.where(scale > 0, scale, np.inf)

    def shows_more(gaps: Floats) -> float:
        wider = None if scale_at is None else scale_at(gaps) / positive
        if wider is None or wider.max() <= 1.0:
            shown = (functional(gaps + block) for block in blocks)
        else:
            wider = np.maximum(wider, 1.0)
            shown = (functional(gaps + wider * block) for block in blocks)
        return sum(int(np.count_nonzero(values >= seen)) for values in shown) / len(noise)

    spread = np.where(field < 0, -scale, scale) if least_visible is None else least_visible

    # Two limits are sought on either path, and their searches begin alike.
    @cache
    def shrunk_shows_more(strength: float) -> float:
        return shows_more(garrote(field, scale, strength))

    @cache
    def grown_shows_more(size: float) -> float:
        return shows_more(size * spread)

    by_noise_alone = shows_more(np.zeros_like(field))
    reach = float(np.max(np.abs(field) / positive))

    def shrunk_until(probability: float) -> float:
        if by_noise_alone >= probability:
            return 0.0
        kept, gone = 0.0, reach
        for _ in range(BISECTIONS):
            middle = (kept + gone) / 2.0
            if shrunk_shows_more(middle) >= probability:
                kept = middle
            else:
                gone = middle
        return float(functional(garrote(field, scale, kept)))

    def grown_until(probability: float) -> float:
        if by_noise_alone >= probability:
            return 0.0
        small, large = 0.0, 1.0
        while grown_shows_more(large) < probability and large < MOST_GROWTH:
            small, large = large, 2.0 * large
        for _ in range(BISECTIONS):
            middle = (small + large) / 2.0
            if grown_shows_more(middle) < probability:
                small = middle
            else:
                large = middle
        return float(functional(large * spread))

    corrected = shrunk_until(0.5)
    hidden = max(grown_until(0.5), corrected)
    # Where less was seen than noise alone nearly always shows, the limit would be an overconfident 0; the
    # reach of the noise, as in the mean of the cells, stands in.
    unseen = float(functional(spread * REACH / np.sqrt(len(scale)))) if by_noise_alone >= 1.0 - tail else 0.0
    return ErrorInterval(shrunk_until(tail), max(grown_until(1.0 - tail), hidden, unseen), corrected, hidden)


def garrote(field: Floats, scale: Floats, strength: float) -> Floats:
    """d (1 - (l s / d)^2)_+

    >>> garrote(np.array([2.0, -1.0, 0.5]), np.ones(3), 1.0).tolist()
    [1.5, -0.0, 0.0]
    """
    ratio = np.divide(strength * scale, np.abs(field), out=np.full_like(field, np.inf), where=field != 0)
    return field * np.maximum(1.0 - np.minimum(ratio, 2.0) ** 2, 0.0)
