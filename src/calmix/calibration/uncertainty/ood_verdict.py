"""What an AUROC means, in a sentence, and which score to reject rows by."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from calmix.calibration.input_checks import Floats

# Below the first an AUROC is called guessing; from the second on poor, fair and good separation.
GUESSING, FAIR, GOOD = 0.55, 0.75, 0.9
REFERENCE = "msp"
SCORE_NAMES = {
    "msp": "Confidence",
    "max_logit": "The largest logit",
    "energy": "Energy",
    "entropy": "Entropy",
    "mc_msp": "Confidence with MC dropout",
    "mc_entropy": "Entropy with MC dropout",
}
# Two-sided 5 % after Bonferroni's correction for the three scores that are tried against confidence.
CRITICAL = 2.394


def separation(auroc: float) -> str:
    """
    >>> [separation(value) for value in (0.3, 0.5, 0.6, 0.8, 0.97)]
    ['inverted', 'guessing', 'poor', 'fair', 'good']
    """
    if auroc < 1 - GUESSING:
        return "inverted"
    return "guessing" if auroc < GUESSING else "poor" if auroc < FAIR else "fair" if auroc < GOOD else "good"


def verdict(score: str, inside: str, outside: str, found: Mapping[str, Any]) -> str:
    """One sentence on `found["auroc"]` and its interval.

    >>> print(verdict("msp", "test", "letters", {"auroc": 0.971, "auroc_ci": [0.96, 0.98]}))
    Confidence separates letters from test well: AUROC 97.1 % [96.0, 98.0].
    >>> print(verdict("energy", "test", "books", {"auroc": 0.53, "auroc_ci": [0.5, 0.56]}))
    Energy does not distinguish books from test better than chance: AUROC 53.0 % [50.0, 56.0].
    """
    low, high = found["auroc_ci"]
    number = f"AUROC {100 * found['auroc']:.1f} % [{100 * low:.1f}, {100 * high:.1f}]"
    name, kind = SCORE_NAMES[score], separation(found["auroc"])
    if kind == "inverted":
        return f"{name} is higher on {outside} than on {inside}: {number}. Do not reject rows by it."
    if kind == "guessing":
        return f"{name} does not distinguish {outside} from {inside} better than chance: {number}."
    how = {"poor": "poorly", "fair": "fairly well", "good": "well"}[kind]
    return f"{name} separates {outside} from {inside} {how}: {number}."


@dataclass(frozen=True)
class RecommendedScore:
    """The score to reject rows by, its mean AUROC over the sets, and why it was chosen."""

    score: str
    auroc: float
    reason: str


def recommend_score(
    inside: Mapping[str, Floats], outside: Sequence[Mapping[str, Floats]]
) -> RecommendedScore:
    """Confidence, unless another score has a significantly higher AUROC, on average over the sets.

    Scores of the same rows are compared by the placements of each row in the other set (DeLong et al. 1988):
    the variance of a mean difference is that of the differences of placements over the rows of either set.

    >>> inside = {"msp": np.array([3.0, 2.0, 1.0]), "energy": np.array([3.0, 2.0, 1.0])}
    >>> recommend_score(inside, [{"msp": np.zeros(3), "energy": np.zeros(3)}]).score
    'msp'
    """
    placed = {name: [placements(inside[name], other[name]) for other in outside] for name in inside}
    means = {name: float(np.mean([within.mean() for within, _ in pairs])) for name, pairs in placed.items()}
    best, gain = REFERENCE, 0.0
    for name, pairs in placed.items():
        difference = means[name] - means[REFERENCE]
        if difference > gain and difference > CRITICAL * _deviation(pairs, placed[REFERENCE]):
            best, gain = name, difference
    if best == REFERENCE:
        reason = "no other score has a significantly higher AUROC"
    else:
        reason = f"its AUROC is significantly higher than that of confidence, by {100 * gain:.1f} points"
    return RecommendedScore(best, means[best], reason)


def placements(in_scores: npt.ArrayLike, out_scores: npt.ArrayLike) -> tuple[Floats, Floats]:
    """For every in-row the share of out-rows below it, for every out-row the share of in-rows above it; a tie
    is half. The mean of either is the AUROC.

    >>> [values.tolist() for values in placements([3.0, 1.0], [2.0, 1.0])]
    [[1.0, 0.25], [0.5, 0.75]]
    """
    within, beyond = np.asarray(in_scores, np.float64), np.asarray(out_scores, np.float64)
    return _share_below(within, beyond), 1.0 - _share_below(beyond, within)


def _share_below(values: Floats, others: Floats) -> Floats:
    ranked = np.sort(others)
    left, right = np.searchsorted(ranked, values, "left"), np.searchsorted(ranked, values, "right")
    return np.asarray((left + right) / (2 * len(ranked)), dtype=np.float64)


def _deviation(pairs: Sequence[tuple[Floats, Floats]], others: Sequence[tuple[Floats, Floats]]) -> float:
    """The standard error of the mean difference of AUROC over the sets; they share their in-rows."""
    sets = len(pairs)
    within = np.mean([mine[0] - theirs[0] for mine, theirs in zip(pairs, others, strict=True)], axis=0)
    total = _variance_of_mean(within)
    for mine, theirs in zip(pairs, others, strict=True):
        total += _variance_of_mean(mine[1] - theirs[1]) / sets**2
    return math.sqrt(total)


def _variance_of_mean(values: Floats) -> float:
    return float(np.var(values, ddof=1) / len(values)) if len(values) > 1 else math.inf
