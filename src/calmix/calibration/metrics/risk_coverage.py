"""The risk-coverage curve: how many errors remain when only the most confident rows are accepted.

Rows are ranked from the most to the least confident. After the first k rows, with E_k errors among them:

    risk(k) = E_k / k,   generalised risk(k) = E_k / n,   coverage(k) = k / n
    AURC    = (1/n) sum_k risk(k)                                        (Geifman & El-Yaniv 2017)
    E-AURC  = AURC - AURC of a ranking that puts every error last        (Geifman et al. 2019)
    AUGRC   = area under E_k/n over k/n, from 0 to 1
            = acc (1 - acc) (1 - AUROC of confidence for correctness) + (1 - acc)^2 / 2   (Traub et al. 2024)

Rows of equal confidence have no order: every one of these is the mean over all orders of the tied rows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from calmix.calibration.input_checks import Floats, Integers, check_correct


@dataclass(frozen=True, eq=False)
class RankedErrors:
    """Groups of equal confidence from the surest down: their value, rows and errors."""

    confidence: Floats
    rows: Integers
    errors: Integers


@dataclass(frozen=True, eq=False)
class RiskCoverageCurve:
    """One point per distinct confidence: accept every row with confidence >= `threshold`."""

    threshold: Floats
    coverage: Floats
    risk: Floats


def rank_errors(confidence: npt.ArrayLike, correct: npt.ArrayLike) -> RankedErrors:
    """Sort by confidence, the highest first, and join ties. Any finite score that ranks rows will do."""
    score = np.asarray(confidence, dtype=np.float64)
    if score.ndim != 1 or score.size == 0:
        raise ValueError(f"confidence must be a non-empty vector, not shape {score.shape}")
    if not np.isfinite(score).all():
        raise ValueError("confidence must be finite")
    wrong = 1 - check_correct(correct, rows=len(score)).astype(np.int64)
    order = np.argsort(-score, kind="stable")
    ordered = score[order]
    first = np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1])))
    rows = np.diff(np.append(first, len(ordered)))
    return RankedErrors(ordered[first], rows, np.add.reduceat(wrong[order], first))


def risk_coverage_curve(confidence: npt.ArrayLike, correct: npt.ArrayLike) -> RiskCoverageCurve:
    """Risk among the accepted rows at every threshold the data offers.

    >>> curve = risk_coverage_curve([0.9, 0.8, 0.8, 0.6], [1, 1, 0, 0])
    >>> curve.threshold.tolist(), curve.coverage.tolist(), curve.risk.round(4).tolist()
    ([0.9, 0.8, 0.6], [0.25, 0.75, 1.0], [0.0, 0.3333, 0.5])
    """
    ranked = rank_errors(confidence, correct)
    accepted, errors = np.cumsum(ranked.rows), np.cumsum(ranked.errors)
    return RiskCoverageCurve(ranked.confidence, accepted / accepted[-1], errors / accepted)


def area_under_risk_coverage(confidence: npt.ArrayLike, correct: npt.ArrayLike) -> float:
    """AURC. Risks 0, 0, 1/3, 1/2 after one, two, three and four rows:

    >>> round(area_under_risk_coverage([0.9, 0.8, 0.7, 0.6], [1, 1, 0, 0]), 6)
    0.208333
    """
    ranked = rank_errors(confidence, correct)
    return aurc_of_groups(ranked.rows, ranked.errors)


def excess_area_under_risk_coverage(confidence: npt.ArrayLike, correct: npt.ArrayLike) -> float:
    """E-AURC: 0 where every error is less confident than every correct answer.

    >>> excess_area_under_risk_coverage([0.9, 0.8, 0.7, 0.6], [1, 1, 0, 0])
    0.0
    """
    ranked = rank_errors(confidence, correct)
    return aurc_of_groups(ranked.rows, ranked.errors) - best_aurc(
        int(ranked.rows.sum()), int(ranked.errors.sum())
    )


def area_under_generalised_risk_coverage(confidence: npt.ArrayLike, correct: npt.ArrayLike) -> float:
    """AUGRC. One error, ranked last of two: the joint risk rises from 0 to 1/2 over the second half.

    >>> area_under_generalised_risk_coverage([0.9, 0.8], [1, 0])
    0.125
    """
    ranked = rank_errors(confidence, correct)
    return augrc_of_groups(ranked.rows, ranked.errors)


def aurc_of_groups(rows: npt.NDArray[np.integer], errors: npt.NDArray[np.integer]) -> float:
    """AURC of tied groups, averaged over the orders within each."""
    return risk_sum(rows, errors) / float(rows.sum())


def risk_sum(
    rows: npt.NDArray[np.integer],
    errors: npt.NDArray[np.integer],
    rows_before: int = 0,
    errors_before: int = 0,
) -> float:
    """sum_k risk(k) over the rows of these groups, which follow `rows_before` rows with `errors_before`
    errors.

    After K rows with E errors, the j-th row of a group of g rows with e errors has the expected risk
    (E + e j/g) / (K + j) = e/g + (E - K e/g) / (K + j); the sum over j needs harmonic numbers only.
    """
    from scipy.special import digamma

    until = rows_before + np.cumsum(rows).astype(np.float64)
    before = until - rows
    wrong_before = errors_before + np.cumsum(errors) - errors
    rate = np.divide(errors, rows, out=np.zeros(len(until)), where=rows > 0)
    # The rows before a group are those until the one before it.
    place = digamma(np.concatenate((before[:1], until)) + 1.0)
    harmonic = np.diff(place)
    return float((errors + (wrong_before - before * rate) * harmonic).sum())


def augrc_of_groups(rows: npt.NDArray[np.integer], errors: npt.NDArray[np.integer]) -> float:
    """AUGRC of tied groups: within a group the expected curve is a straight line, so trapezoids are exact."""
    return joint_error_sum(rows, errors) / float(rows.sum()) ** 2


def joint_error_sum(
    rows: npt.NDArray[np.integer], errors: npt.NDArray[np.integer], errors_before: int = 0
) -> float:
    """The area under the count of errors over that of rows, for groups after `errors_before` errors."""
    errors_until = errors_before + np.cumsum(errors)
    return float((rows * (errors_until - errors / 2.0)).sum())


def best_aurc(rows: int, errors: int) -> float:
    """AURC of the ranking that puts all errors last."""
    return aurc_of_groups(np.array([rows - errors, errors]), np.array([0, errors]))
