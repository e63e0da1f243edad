"""Rank statistics of a large sample, and how much each row moves them.

The areas under the risk-coverage curves are smooth in the sample: adding one row changes them by its
influence, which depends only on where the row ranks and whether it is an error. The influences' spread is
the areas' sampling error, and their sums over shared rows give the error of a difference of two models.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from calmix.calibration.input_checks import Floats
from calmix.calibration.metrics.risk_coverage import best_aurc, joint_error_sum, risk_sum
from calmix.calibration.uncertainty.confidence_sample import ConfidenceSample, StretchLookup

# The influence changes slowly with the rank: this many steps of it are as good as all of them.
STEPS = 2048
METRICS = ("aurc", "e_aurc", "augrc")
# What an error at a random rank u adds, as a root mean square: -log u, and 1 - u.
JUMPS = {"aurc": 2.0**0.5, "e_aurc": 2.0**0.5, "augrc": 3.0**-0.5}


@dataclass(frozen=True)
class RiskAreas:
    aurc: float
    e_aurc: float
    augrc: float


def risk_areas(ordered: ConfidenceSample) -> RiskAreas:
    """AURC, E-AURC and AUGRC of a sorted sample, exact, in blocks of bounded size."""
    rows_seen, errors_seen, risk, joint = 0, 0, 0.0, 0.0
    for rows, errors in _tied_groups_from_the_top(ordered):
        risk += risk_sum(rows, errors, rows_seen, errors_seen)
        joint += joint_error_sum(rows, errors, errors_seen)
        rows_seen += int(rows.sum())
        errors_seen += int(errors.sum())
    aurc = risk / rows_seen
    return RiskAreas(aurc, aurc - best_aurc(rows_seen, errors_seen), joint / rows_seen**2)


def _tied_groups_from_the_top(
    ordered: ConfidenceSample, block: int = 1 << 20
) -> Iterator[tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]]:
    """Rows and errors of the groups of equal confidence, the surest first; no group is cut in two."""
    end = len(ordered)
    while end > 0:
        start = int(ordered.tie_starts(np.array([max(end - block, 0)]))[0])
        codes = ordered.codes[start:end][::-1]
        value = codes >> np.uint64(1)
        first = np.flatnonzero(np.concatenate(([True], value[1:] != value[:-1])))
        wrong = 1 - (codes & np.uint64(1)).astype(np.int64)
        yield np.diff(np.append(first, len(codes))), np.add.reduceat(wrong, first)
        end = start


@dataclass(frozen=True, eq=False)
class RankInfluence:
    """A table of influences: [2 * steps, metrics], even entries for right rows, odd ones for errors. The
    difference of the two is what an error adds.

    `borders` are the lowest confidences of all steps but the first, rising.
    """

    borders: Floats
    table: Floats

    def cell(self, sample: ConfidenceSample) -> npt.NDArray[np.int64]:
        """The row of the table that each row of a sample (in any order) belongs to."""
        step = self._lookup.find(sample.confidence())
        step *= 2
        step += 1
        step -= (sample.codes & np.uint64(1)).view(np.int64)
        return step

    @cached_property
    def _lookup(self) -> StretchLookup:
        return StretchLookup(self.borders)


def rank_influence(ordered: ConfidenceSample, steps: int = STEPS) -> RankInfluence:
    """The influences of AURC, E-AURC and AUGRC on a sorted sample.

    With R(k) the risk after k rows, a row at rank i that is (e = 1) or is not (e = 0) an error moves

        AURC  by R(i) - AURC + sum_{k >= i} (e - R(k)) / k
        AUGRC by E_i/n + e (n - i)/n - 2 AUGRC

    averaged over the ranks within a step.
    """
    from scipy.special import digamma, polygamma

    borders = ordered.quantile_borders(steps)
    wrong_until = np.empty(len(borders), dtype=np.int64)
    wrong_until[0] = 0
    for place, (low, high) in enumerate(pairwise(borders.tolist())):
        right = int((ordered.codes[low:high] & np.uint64(1)).sum())
        wrong_until[place + 1] = wrong_until[place] + (high - low) - right
    n, all_wrong = float(len(ordered)), float(wrong_until[-1])

    rows = np.diff(borders).astype(np.float64)
    errors = np.diff(wrong_until).astype(np.float64)
    before = n - borders[1:]  # rows surer than the step
    errors_before = all_wrong - wrong_until[1:]
    rate = errors / rows
    offset = errors_before - before * rate
    inverse = digamma(before + rows + 1.0) - digamma(before + 1.0)  # sum of 1/k over the step
    inverse_square = polygamma(1, before + 1.0) - polygamma(1, before + rows + 1.0)

    def less_sure(values: Floats) -> Floats:
        """Sum over all steps below each one."""
        return np.concatenate(([0.0], np.cumsum(values)[:-1]))

    mean_risk = (errors + offset * inverse) / rows
    own_inverse = 1.0 - before * inverse / rows
    own_risk = (rate * (rows - before * inverse) + offset * (inverse - before * inverse_square)) / rows
    as_error = less_sure(inverse) + own_inverse
    as_row = less_sure(rate * inverse + offset * inverse_square) + own_risk
    aurc = float((errors + offset * inverse).sum() / n)
    right_aurc = mean_risk - aurc - as_row
    wrong_aurc = right_aurc + as_error

    joint = (errors_before + errors / 2.0) / n
    augrc = float((rows * joint).sum() / n)
    right_augrc = joint - 2.0 * augrc
    wrong_augrc = right_augrc + (n - before - rows / 2.0) / n

    # The best possible AURC is about r + (1 - r) log(1 - r), with slope -log(1 - r) in the error rate r.
    risk = all_wrong / n
    slope = -np.log(max(1.0 - risk, 1.0 / n))
    table = np.empty((2 * len(rows), len(METRICS)))
    table[0::2, 0], table[1::2, 0] = right_aurc, wrong_aurc
    table[0::2, 1], table[1::2, 1] = right_aurc + slope * risk, wrong_aurc - slope * (1.0 - risk)
    table[0::2, 2], table[1::2, 2] = right_augrc, wrong_augrc
    return RankInfluence(ConfidenceSample(ordered.codes[borders[1:-1]]).confidence(), table)
