"""Which differences of a comparison are significant, where several arms are tested at once.

The interval of a paired difference at confidence 1 - a has the half-width

    h(a) = sqrt(z² v_rows + t² v_seeds),        z, t: quantiles at 1 - a/2 (`bootstrap`)

and the p-value of the difference is the a at which h(a) is its size. Of k arms tested, Holm (1979) rejects
the j-th smallest p-value while p_(j) <= 0.05 / (k - j + 1): the chance of any false finding among the arms is
at most 5 %. The corrected interval of an arm is the one at the level of Holm's step that decides about it, so
it leaves out 0 exactly where Holm rejects.

One seed says nothing about other seeds: its differences have no p-value.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from calmix.calibration.uncertainty.multiplicity import holm
from calmix.experiments.bootstrap import LEVEL, ROUNDING, Difference, half_width_of
from calmix.experiments.grid import reference_of
from calmix.experiments.results import Results

ALPHA = 1 - LEVEL
# A p-value below this is shown as this; the quantiles of fewer than three seeds mean little beyond.
SMALLEST_P = 1e-12
# (split, stage, arm) -> seed -> record
RunIndex = dict[tuple[str, str, str], dict[int, Mapping[str, Any]]]


@dataclass(frozen=True)
class Spread:
    """A difference, and what of its variance comes from the rows and what from the seeds."""

    difference: float
    rows_variance: float
    seeds_variance: float
    """Of the mean over seeds."""
    seeds: int

    def reach(self, alpha: float = ALPHA) -> float:
        """Half the width of the interval at confidence 1 - alpha."""
        return half_width_of(self.rows_variance, self.seeds_variance, self.seeds, alpha)

    def with_seeds(self, seeds: int) -> Spread:
        """As it would be with more seeds like these."""
        return replace(self, seeds=seeds, seeds_variance=self.seeds_variance * self.seeds / seeds)

    def interval(self, alpha: float) -> Difference:
        half = self.reach(alpha)
        return Difference(self.difference, self.difference - half, self.difference + half, self.seeds)

    @property
    def is_identical(self) -> bool:
        """Equal by construction, as the accuracies before and after temperature scaling."""
        return self.difference == 0 and self.reach() < ROUNDING


def p_value(spread: Spread) -> float | None:
    """The a at which the half-width h(a) is the size of the difference; None for one seed.

    Three seeds, nothing from the rows: a t-test with two degrees of freedom, t = 4.303.

    >>> round(p_value(Spread(4.303, 0.0, 1.0, 3)), 3)
    0.05
    >>> p_value(Spread(1.0, 0.01, 0.0, 1)) is None
    True
    """
    from scipy.optimize import brentq

    if spread.seeds < 2:
        return None
    size = abs(spread.difference)
    if size == 0:
        return 1.0
    if spread.reach(SMALLEST_P) <= size:
        return SMALLEST_P
    found = brentq(lambda log: spread.reach(math.exp(log)) - size, math.log(SMALLEST_P), 0.0, xtol=1e-6)
    return math.exp(found)


def index_runs(results: Results) -> RunIndex:
    index: RunIndex = {}
    for record in results.runs:
        index.setdefault((record["split"], record["stage"], record["arm"]), {})[record["seed"]] = record
    return index


def spread_of(difference: Mapping[str, Any], runs: RunIndex) -> Spread:
    """The parts of a stored interval: what the seeds give is found from the runs, the rest is the rows'."""
    split, metric, seeds = difference["split"], difference["metric"], difference["seeds"]
    ours = runs.get((split, difference["stage"], difference["arm"]), {})
    theirs = runs.get((split, difference["reference_stage"], difference["reference"]), {})
    points = [ours[seed][metric] - theirs[seed][metric] for seed in sorted(ours.keys() & theirs.keys())]
    return split_interval(
        Difference(difference["difference"], difference["low"], difference["high"], seeds), points
    )


def split_interval(found: Difference, points: Sequence[float]) -> Spread:
    """The parts of an interval, from the differences of its seeds."""
    over_seeds = float(np.var(points, ddof=1)) / len(points) if len(points) > 1 else 0.0
    half = (found.high - found.low) / 2
    from_seeds = half_width_of(0.0, over_seeds, found.seeds) ** 2
    over_rows = max(half**2 - from_seeds, 0.0) / half_width_of(1.0, 0.0, found.seeds) ** 2
    return Spread(found.difference, over_rows, over_seeds, found.seeds)


def with_significance(results: Results) -> list[dict[str, Any]]:
    """The differences with `p`, and, for those of an arm to its `plain`, with `p_holm` and `significant`.

    Corrected for the number of arms: the differences of one split, metric and pair of stages are one family.
    """
    runs = index_runs(results)
    references = {arm.name: reference_of(arm, results.arms) for arm in results.arms}
    tested: list[dict[str, Any]] = []
    families: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    for difference in results.differences:
        spread = spread_of(difference, runs)
        p = p_value(spread)
        record = {**difference, "p": p, "p_holm": None, "significant": False}
        tested.append(record)
        reference = references.get(difference["arm"])
        is_own = reference is not None and reference.name == difference["reference"]
        if is_own and p is not None and not spread.is_identical:
            key = tuple(difference[name] for name in ("split", "metric", "stage", "reference_stage"))
            families.setdefault(key, []).append(record)
    for family in families.values():
        for record, adjusted in zip(family, holm([record["p"] for record in family]), strict=True):
            record |= {"p_holm": adjusted, "significant": adjusted <= ALPHA}
    return tested
