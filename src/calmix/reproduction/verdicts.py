"""Held, reversed or undecided: a rule on effect, interval, noise floor and direction.

The effect is the metric of the claim's arm minus that of the arm it is compared with. Its interval is the one
at the level of Holm's step over all tests of the table (`experiments.significance`), so that the chance of
any false verdict in a table is at most 5 %.

    lower    held if the whole interval lies below 0, reversed if above
    higher   held if the whole interval lies above 0, reversed if below
    equal    held if the whole interval lies within ± margin, reversed if it lies outside altogether

Anything else is undecided. So are a single seed, which says nothing about other seeds, and a calibration
error where both arms are within their noise floor: a perfectly calibrated model would show as much.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from calmix.calibration.uncertainty.multiplicity import holm_levels
from calmix.experiments.significance import ALPHA, Spread, p_value
from calmix.reproduction.preset import EQUAL, LOWER

HELD, REVERSED, UNDECIDED = "held", "reversed", "undecided"
WITHIN_NOISE = "both arms are within the noise floor"


@dataclass(frozen=True)
class Evidence:
    """What a verdict is made from; numbers are fractions, not points."""

    spread: Spread
    direction: str
    margin: float | None = None
    values: tuple[float, float] | None = None
    """The metric of both arms."""
    floors: tuple[float, float] | None = None
    """The noise floor of both arms (95th percentile); None for a metric without one."""

    @property
    def is_within_noise(self) -> bool:
        """Whether neither arm is distinguishable from perfect calibration."""
        if self.values is None or self.floors is None:
            return False
        return all(value <= floor for value, floor in zip(self.values, self.floors, strict=True))

    @property
    def p(self) -> float | None:
        """Of the difference; with a margin, of lying on the side of its edge on which it lies."""
        if self.margin is None:
            return p_value(self.spread)
        return p_value(replace(self.spread, difference=abs(self.spread.difference) - self.margin))


@dataclass(frozen=True)
class Verdict:
    word: str
    reason: str
    low: float
    high: float
    level: float
    """Of the interval: 0.05 without a correction."""


def judge(evidence: Evidence, level: float = ALPHA) -> Verdict:
    """The verdict at a level.

    >>> lower = Evidence(Spread(-0.03, 0.0, 0.005**2, 5), "lower")
    >>> judge(lower).word, judge(replace(lower, direction="higher")).word
    ('held', 'reversed')
    """
    if evidence.spread.seeds < 2:
        both = evidence.spread.interval(level)
        return Verdict(UNDECIDED, "one seed says nothing about other seeds", both.low, both.high, level)
    interval = evidence.spread.interval(level)
    low, high = interval.low, interval.high

    def say(word: str, reason: str) -> Verdict:
        return Verdict(word, reason, low, high, level)

    if evidence.is_within_noise:
        return say(UNDECIDED, WITHIN_NOISE)
    if evidence.direction == EQUAL:
        margin = evidence.margin or 0.0
        if -margin <= low and high <= margin:
            return say(HELD, "the interval lies within the margin")
        if low > margin or high < -margin:
            return say(REVERSED, "the interval lies outside the margin")
        return say(UNDECIDED, "the interval crosses the margin")
    if low <= 0 <= high:
        return say(UNDECIDED, "the interval includes 0")
    held = (high < 0) == (evidence.direction == LOWER)
    return say(HELD if held else REVERSED, "the interval excludes 0")


def judge_all(family: Sequence[Evidence], waiting: int = 0) -> list[Verdict]:
    """The verdicts of a table: each at the level of Holm's step. Single seeds are no tests.

    `waiting` tests of the table are still to be run: they count as if they showed nothing.
    """
    tested = [place for place, evidence in enumerate(family) if evidence.p is not None]
    found = holm_levels([*(family[place].p or 0.0 for place in tested), *[1.0] * waiting])
    levels = dict(zip(tested, found, strict=False))
    return [judge(evidence, levels.get(place, ALPHA)) for place, evidence in enumerate(family)]
