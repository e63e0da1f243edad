"""Intervals of the difference of two calibration errors on the same rows.

Either error is a norm F(d) of gaps d = mu + noise (see `inversion`), and the noise of both is drawn jointly.
With D = F1(d1) - F2(d2) as seen, the true difference a - b has the

* lower limit: the least a - b among true errors a, b under which a difference of D or more still has
  probability 2.5 %;
* upper limit: likewise for D or less.

The gaps that make an error a are the ones seen, shrunk; for the error that is to be larger than it seems they
may also be spread in proportion to the noise, where they show least. Pairs of which one alone could not have
shown what it did (probability 0.5 %) do not count. How two models move together is in the draws: it is never
assumed, and an error near 0, which goes up whichever way the noise goes, is no exception.

Where both are sums over the same cells, the triangle inequality |F(mu1) - F(mu2)| <= F(mu1 - mu2) bounds the
difference once more: models with nearly the same answers differ by little, however uncertain either error is.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from calmix.calibration.input_checks import Floats
from calmix.calibration.uncertainty.inversion import Functional, garrote

# Points on the way from no gaps to those seen, and on to more than any that could have been.
STEPS = 10
# Draws of the noise: enough for a probability of 2.5 %.
DRAWS = 600
# How unlikely what one error showed must be for a true value to be left out.
IMPOSSIBLE = 0.005


@dataclass(frozen=True, eq=False)
class NoisyError:
    """An error as seen, its gaps with their noise [draws, cells], and the gaps that would show least."""

    value: float
    gaps: Floats
    scale: Floats
    noise: Floats
    functional: Functional
    hidden: Floats
    highest: float
    """The largest true error worth a look."""

    def shrunk(self) -> tuple[Floats, Floats]:
        """True errors, and what each would show [steps, draws], with the gaps where they were seen."""
        reach = float(np.max(np.abs(self.gaps) / np.where(self.scale > 0, self.scale, np.inf), initial=0.0))
        strengths = reach * np.linspace(1.0, 0.0, STEPS)
        fields = [garrote(self.gaps, self.scale, strength) for strength in strengths]
        # Gaps may also be larger than they were seen to be.
        top = float(self.functional(self.gaps))
        if 0.0 < top < self.highest:
            fields += [self.gaps * size for size in np.linspace(1.0, self.highest / top, 4)[1:]]
        return self._shown(fields)

    def spread(self) -> tuple[Floats, Floats]:
        """The same with the gaps in proportion to the noise."""
        unit = float(self.functional(self.hidden))
        if unit <= 0.0:
            return self.shrunk()
        return self._shown([self.hidden * size for size in np.linspace(0.0, self.highest / unit, STEPS)])

    def _shown(self, fields: list[Floats]) -> tuple[Floats, Floats]:
        true = np.array([float(self.functional(field)) for field in fields])
        # Cell by cell in memory: the norms of all draws are a few operations on long vectors.
        noise = np.asfortranarray(self.noise[:DRAWS])
        return true, np.stack([self.functional(field + noise) for field in fields])


def difference_interval(first: NoisyError, second: NoisyError, level: float) -> tuple[float, float]:
    """Limits of the first true error less the second."""
    # Errors over more cells have fewer draws; the first ones are of the same rows.
    draws = min(len(first.noise), len(second.noise))
    first, second = replace(first, noise=first.noise[:draws]), replace(second, noise=second.noise[:draws])
    seen = first.value - second.value
    shrunk, other_shrunk = first.shrunk(), second.shrunk()
    high = max(_most(mine, other_shrunk, first, second, seen, level) for mine in (shrunk, first.spread()))
    low = -max(_most(mine, shrunk, second, first, -seen, level) for mine in (other_shrunk, second.spread()))
    return min(low, seen), max(high, seen)


def _most(
    mine: tuple[Floats, Floats],
    other: tuple[Floats, Floats],
    larger: NoisyError,
    smaller: NoisyError,
    seen: float,
    level: float,
) -> float:
    """The largest a - b under which `seen` or less still has a probability of (1 - level) / 2."""
    tail = (1.0 - level) / 2.0
    true, shown = mine
    other_true, other_shown = other
    possible = (shown <= larger.value).mean(axis=1) >= IMPOSSIBLE
    other_possible = (other_shown >= smaller.value).mean(axis=1) >= IMPOSSIBLE
    most = -np.inf
    for place in np.flatnonzero(other_possible):
        less = ((shown - other_shown[place]) <= seen).mean(axis=1)
        for step in np.flatnonzero(possible & (less >= tail)):
            reached = true[step]
            if step + 1 < len(true) and less[step + 1] < tail:
                # The probability falls between two steps.
                share = (less[step] - tail) / (less[step] - less[step + 1])
                reached += share * (true[step + 1] - true[step])
            most = max(most, float(reached - other_true[place]))
    return most
