"""Which predictions to accept: thresholds on the confidence, empirical and with a guarantee."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from calmix.calibration.input_checks import Floats, check_fraction
from calmix.calibration.metrics.risk_coverage import rank_errors, risk_coverage_curve

# Rows from which an accuracy can be guessed at all.
FEWEST_TO_JUDGE = 10
# A target that would take more rows than this is out of reach: nobody labels a thousand million.
MOST_ROWS_NEEDED = 10**9
# The last bit of k/n must not decide.
ROUNDING = 1e-12
# Accuracies that are tried where the one that was asked for cannot be certified.
LADDER = (0.99, 0.98, 0.95, 0.925, 0.9, 0.85, 0.8, 0.7, 0.6, 0.5)


def coverage_at_accuracy(confidence: npt.ArrayLike, correct: npt.ArrayLike, target_accuracy: float) -> float:
    """The largest share of rows that can be answered at this accuracy on these rows; 0 if none can.

    It is what was seen, chosen after seeing it, and no promise for new rows: see `guaranteed_threshold`.

    >>> coverage_at_accuracy([0.9, 0.8, 0.7, 0.6], [1, 1, 0, 0], 0.6)
    0.75
    """
    target = check_fraction(target_accuracy, name="target_accuracy")
    curve = risk_coverage_curve(confidence, correct)
    reached = curve.risk <= 1.0 - target + ROUNDING
    return float(curve.coverage[reached].max(initial=0.0))


@dataclass(frozen=True)
class GuaranteedThreshold:
    """The outcome of `guaranteed_threshold`: accept a row when its confidence is >= `threshold`.

    `threshold` is None where nothing could be certified; then `rows_needed` says how many rows of this kind
    it would take (None where the model does not exceed the target on any part of these rows, so that more
    rows would not help: an accuracy of exactly the target is never certified), and `coverage` and `accepted`
    are 0.
    """

    threshold: float | None
    target_accuracy: float
    delta: float
    rows: int
    accepted: int
    coverage: float
    accuracy: float | None
    accuracy_lower_bound: float | None
    rows_needed: int | None

    def explain(self) -> str:
        """One line for a person.

        >>> print(guaranteed_threshold([0.9] * 10, [1] * 10, 0.95).explain())
        10 validation rows certify no threshold for accuracy 0.95 at 95 % confidence; it would take about 59
        """
        sure = f"{100 * (1 - self.delta):g} % confidence"
        if self.threshold is not None:
            return (
                f"accept at confidence >= {self.threshold:.6g}: {100 * self.coverage:.1f} % "
                f"of {self.rows} validation rows, accuracy at least {self.accuracy_lower_bound:.4f} "
                f"with {sure}"
            )
        target = f"accuracy {self.target_accuracy:g} at {sure}"
        nothing = f"{self.rows} validation rows certify no threshold for {target}"
        if self.rows_needed is None:
            return f"{nothing}; the model does not exceed it at any coverage, so more rows would not help"
        return f"{nothing}; it would take about {self.rows_needed}"


def guaranteed_threshold(
    confidence: npt.ArrayLike, correct: npt.ArrayLike, target_accuracy: float, delta: float = 0.05
) -> GuaranteedThreshold:
    """A threshold above which new rows of the same kind reach the target, with probability 1 - delta.

    The promise holds for the search, not only for one threshold fixed beforehand. The errors among the k
    rows above a threshold are binomial, and "accuracy < target" is rejected when so few would be seen
    with probability at most delta / S. Starting from S coverages fixed beforehand (all rows, a half, a
    quarter, ..., down to the fewest rows that could pass), each start walks towards lower confidence for
    as long as every threshold passes and stops at the first that does not (fixed-sequence testing: one
    error in the walk needs an error at its first wrong threshold). The walk that gets furthest wins. Rows
    of equal confidence are accepted together.

    Compared with bisection under a union bound (Geifman & El-Yaniv 2017) the same promise costs delta / S
    with S = log2(n / fewest) instead of delta / log2(n), and the coverage found is larger.

    >>> result = guaranteed_threshold([0.9] * 100 + [0.6] * 100, [1] * 100 + [0] * 50 + [1] * 50, 0.95)
    >>> result.accepted, result.coverage, round(result.accuracy_lower_bound, 4)
    (100, 0.5, 0.9638)
    """
    from scipy.special import betaincinv

    target = check_fraction(target_accuracy, name="target_accuracy")
    delta = check_fraction(delta, name="delta")
    ranked = rank_errors(confidence, correct)
    accepted, errors = np.cumsum(ranked.rows), np.cumsum(ranked.errors)
    rows = int(accepted[-1])

    starts = _start_coverages(rows, target, delta)
    level = delta / len(starts)
    passed = _tail(accepted, errors, target) <= level
    failures = np.append(np.flatnonzero(~passed), len(passed))
    best = -1
    for start in starts:
        # The first tied group that completes this many rows: chosen by confidence alone.
        group = int(np.searchsorted(accepted, start))
        if passed[group]:
            best = max(best, int(failures[np.searchsorted(failures, group)]) - 1)

    if best < 0:
        needed = _rows_needed(accepted, errors, rows, target, delta)
        return GuaranteedThreshold(None, target, delta, rows, 0, 0.0, None, None, needed)
    kept, wrong = int(accepted[best]), int(errors[best])
    # Given the next lower confidence v, the rows above it are a sample of exactly "confidence > v".
    threshold = 0.0 if best == len(accepted) - 1 else float(np.nextafter(ranked.confidence[best + 1], np.inf))
    lower = float(betaincinv(kept - wrong, wrong + 1, level))
    return GuaranteedThreshold(
        threshold, target, delta, rows, kept, kept / rows, 1.0 - wrong / kept, lower, None
    )


def certified_accuracies(
    confidence: npt.ArrayLike, correct: npt.ArrayLike, *, below: float = 1.0, delta: float = 0.05
) -> list[GuaranteedThreshold]:
    """The accuracies under `below` that these rows do certify, each with the coverage it leaves.

    A reader picks one after having seen them all, so that all of them hold together with probability
    1 - delta: every accuracy of the ladder is certified at delta / (number of accuracies). One that leaves no
    more rows than a higher one is left out.

    >>> [(found.target_accuracy, found.coverage) for found in
    ...  certified_accuracies([0.9] * 60 + [0.6] * 40, [1] * 60 + [1, 0] * 20, below=0.95)]
    [(0.85, 0.6), (0.6, 1.0)]
    """
    targets = [target for target in LADDER if target < below]
    found: list[GuaranteedThreshold] = []
    for target in targets:
        certified = guaranteed_threshold(confidence, correct, target, delta / len(targets))
        if certified.threshold is not None and (not found or certified.accepted > found[-1].accepted):
            found.append(certified)
    return found


def _tail(accepted: npt.NDArray[np.integer], errors: npt.NDArray[np.integer], target: float) -> Floats:
    """P(at most this many errors among the accepted rows) if the accuracy were exactly the target."""
    from scipy.special import betainc

    right = accepted - errors
    return np.where(right > 0, betainc(np.maximum(right, 1), errors + 1.0, target), 1.0)


def _fewest_rows(target: float, level: float) -> int:
    """The rows without a single error that it takes: target^k <= level."""
    return math.ceil(math.log(level) / math.log(target) - 1e-12)


def _start_coverages(rows: int, target: float, delta: float) -> list[int]:
    """n, n/2, n/4, ... for as long as a start could pass; they depend on the number of rows alone.

    >>> _start_coverages(1000, 0.95, 0.05)
    [1000, 500, 250, 125]
    """
    starts = [rows]
    while starts[-1] // 2 >= _fewest_rows(target, delta / (len(starts) + 1)):
        starts.append(starts[-1] // 2)
    return starts


def _rows_needed(
    accepted: npt.NDArray[np.integer],
    errors: npt.NDArray[np.integer],
    rows: int,
    target: float,
    delta: float,
) -> int | None:
    """The fewest rows with which some threshold would pass if accuracy and coverage stayed as seen here.

    The share of errors among a handful of rows says nothing, so shorter stretches are left out. Neither does
    a share of exactly 1 - target, however many rows show it; 5 of 100 at 0.95 is such a share, though
    5 < (1 - 0.95) * 100 in floating point.

    >>> _rows_needed(np.array([100]), np.array([5]), 100, 0.95, 0.05) is None
    True
    >>> _rows_needed(np.array([100]), np.array([4]), 100, 0.95, 0.05)
    2615
    """
    rate_seen = errors / accepted
    promising = np.flatnonzero(
        (rate_seen < 1.0 - target - ROUNDING) & (accepted >= min(FEWEST_TO_JUDGE, rows))
    )
    if not promising.size:
        return None
    # A few dozen coverages stand for all.
    promising = promising[np.unique(np.linspace(0, len(promising) - 1, 64).astype(np.int64))]
    coverage, rate = accepted[promising] / rows, rate_seen[promising]

    def would_pass(size: int) -> bool:
        kept = np.floor(coverage * size).astype(np.int64)
        wrong = np.ceil(rate * kept - 1e-9).astype(np.int64)
        level = delta / len(_start_coverages(size, target, delta))
        return bool((_tail(kept, wrong, target) <= level).any())

    enough = 1
    while not would_pass(enough):
        if enough > MOST_ROWS_NEEDED:
            return None
        enough *= 2
    short = enough // 2
    while enough - short > 1:
        middle = (short + enough) // 2
        short, enough = (short, middle) if would_pass(middle) else (middle, enough)
    return enough
