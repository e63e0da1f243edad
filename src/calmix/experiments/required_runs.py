"""How many seeds, or rows, would decide a comparison that cannot tell yet.

With S seeds of the same spread the half-width of an interval is h(S) = sqrt(z² v_rows + t² v_seeds S_0 / S).
If the differences stay as they are, S seeds decide as soon as

    h_nll(S) <= |d_nll|                                                  better, or worse
    or  h_nll(S) <= m_nll + d_nll  and  h_acc(S) <= m_acc - d_acc        no worse within the margins m

An estimate: the spread of two or three seeds is itself uncertain.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from calmix.experiments.significance import Spread

# Points of accuracy.
DEFAULT_MARGIN = 1.0
MOST_SEEDS = 30
# Beside more rows; with fewer, these alone hardly narrow an interval.
SEEDS_WITH_ROWS = (10, 20, 30)
MOST_TIMES_ROWS = 100


@dataclass(frozen=True)
class Margin:
    """What counts as no worse: a share of the rows, and nats.

    One point of accuracy goes with 0.02 nats: the true label's probability, in the geometric mean over rows,
    2 % lower.
    """

    accuracy: float = DEFAULT_MARGIN / 100

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> Margin:
        """As the options of a comparison say; those of earlier versions do not."""
        return cls(config.get("margin", DEFAULT_MARGIN) / 100)

    @property
    def nll(self) -> float:
        return 2 * self.accuracy

    def __str__(self) -> str:
        points = 100 * self.accuracy
        return f"{points:g} {'point' if points == 1 else 'points'} of accuracy and {self.nll:g} of NLL"


@dataclass(frozen=True)
class Tested:
    """A spread, and the level at which its interval is formed."""

    spread: Spread
    level: float

    def reach(self, seeds: int, times_rows: float = 1.0) -> float:
        grown = self.spread.with_seeds(seeds)
        rows = Spread(grown.difference, grown.rows_variance / times_rows, grown.seeds_variance, seeds)
        return rows.reach(self.level)


def decides(nll: Tested, accuracy: Tested, margin: Margin, seeds: int, times_rows: float = 1.0) -> bool:
    """Whether that many seeds and rows would decide, if the differences stay as they are."""
    width = nll.reach(seeds, times_rows)
    if width <= abs(nll.spread.difference):
        return True
    enough = accuracy.reach(seeds, times_rows) <= margin.accuracy - accuracy.spread.difference
    return enough and width <= margin.nll + nll.spread.difference


def seeds_required(nll: Tested, accuracy: Tested, margin: Margin) -> int | None:
    """The least number of seeds that would decide; None where `MOST_SEEDS` would not.

    An NLL lower by 0.07 in two seeds, with a spread of 0.05 over seeds:

    >>> nll = Tested(Spread(-0.07, 0.0, 0.05**2 / 2, 2), 0.05)
    >>> accuracy = Tested(Spread(0.0, 0.0, 0.0001 / 2, 2), 0.05)
    >>> seeds_required(nll, accuracy, Margin())
    5
    """
    now = nll.spread.seeds
    return next((s for s in range(now + 1, MOST_SEEDS + 1) if decides(nll, accuracy, margin, s)), None)


def rows_required(nll: Tested, accuracy: Tested, margin: Margin, rows: int) -> tuple[int, int] | None:
    """Seeds and rows that would decide together; None where 30 seeds and 100 times the rows would not."""
    for seeds in (seeds for seeds in SEEDS_WITH_ROWS if seeds >= nll.spread.seeds):
        times = 1.25
        while times <= MOST_TIMES_ROWS:
            if decides(nll, accuracy, margin, seeds, times):
                return seeds, rounded(rows * times)
            times *= 1.25
    return None


def rounded(count: float) -> int:
    """Up, to two digits.

    >>> rounded(1234), rounded(87.3)
    (1300, 88)
    """
    unit = int(10 ** max(math.floor(math.log10(count)) - 1, 0))
    return math.ceil(count / unit) * unit
