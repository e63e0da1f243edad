"""Out-of-distribution detection: in-domain rows against others, by scores of the logits.

Four scores, each higher for in-domain rows (in-distribution is the positive class):

    msp        log(p_max / (1 - p_max)), which ranks rows as the largest softmax probability does
    max_logit  z_max
    energy     log sum_k exp(z_k), the negative free energy             (Liu et al. 2020)
    entropy    -H(p) = sum_k p_k log p_k

All are taken in float64 from the logits: a softmax in float32 is exactly 1 for a gap of 17 already, and the
rows that matter most would tie.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from calmix.calibration.input_checks import Floats, Integers, check_fraction, check_logits

TRUE_POSITIVE_RATE = 0.95


def maximum_probability_score(logits: npt.ArrayLike) -> Floats:
    """log(p_max / (1 - p_max)) = z_max - log sum of exp(z_k) over the others.

    log p_max itself runs into 0 where the others underflow; the odds never do. With two classes it is the gap
    of the two logits:

    >>> maximum_probability_score([[0.0, 60.0], [0.0, 80.0], [1000.0, 1.0]]).tolist()
    [60.0, 80.0, 999.0]
    """
    shifted, top = _shifted(logits)
    rows = np.arange(len(shifted))
    shifted[rows, top] = -np.inf
    second = shifted.argmax(axis=1)
    best_other: Floats = shifted[rows, second]
    rest = np.exp(shifted - best_other[:, None])
    rest[rows, second] = 0.0
    beyond: Floats = rest.sum(axis=1)
    return -best_other - np.log1p(beyond)


def maximum_logit_score(logits: npt.ArrayLike) -> Floats:
    """z_max.

    >>> maximum_logit_score([[1.0, 3.0], [-2.0, -4.0]]).tolist()
    [3.0, -2.0]
    """
    largest: Floats = check_logits(logits).max(axis=1).astype(np.float64)
    return largest


def energy_score(logits: npt.ArrayLike) -> Floats:
    """log sum_k exp(z_k).

    >>> energy_score([[0.0, 0.0], [1000.0, 0.0]]).round(6).tolist()
    [0.693147, 1000.0]
    """
    shifted, top = _shifted(logits)
    rest: Floats = _others(shifted, top).sum(axis=1)
    return maximum_logit_score(logits) + np.log1p(rest)


def entropy_score(logits: npt.ArrayLike) -> Floats:
    """-H(p), with H = log(1 + s) + sum_k p_k (z_max - z_k) and s the sum of exp(z_k - z_max) over the others.

    Both terms are positive, so that nothing cancels where H is tiny.

    >>> entropy_score([[0.0, 0.0], [0.0, 1.0986122886681098]]).round(6).tolist()
    [-0.693147, -0.562335]
    """
    shifted, top = _shifted(logits)
    others = _others(shifted, top)
    rest: Floats = others.sum(axis=1)
    spread: Floats = -np.einsum("ij,ij->i", others, shifted) / (1.0 + rest)
    return -(np.log1p(rest) + spread)


SCORES: dict[str, Callable[[npt.ArrayLike], Floats]] = {
    "msp": maximum_probability_score,
    "max_logit": maximum_logit_score,
    "energy": energy_score,
    "entropy": entropy_score,
}


def ood_auroc(in_scores: npt.ArrayLike, out_scores: npt.ArrayLike) -> float:
    """AUROC: the chance that an in-distribution row scores above an out-of-distribution row; a tie is half.

    Of six pairs four are in order, one is tied, one is not:

    >>> ood_auroc([3.0, 2.0, 1.0], [2.0, 0.5])
    0.75
    """
    return _area_under_roc(*_count_scores(in_scores, out_scores))


def average_precision_in(in_scores: npt.ArrayLike, out_scores: npt.ArrayLike) -> float:
    """AUPR-in: average precision with in-distribution rows as what is looked for.

    >>> round(average_precision_in([3.0, 1.0], [2.0]), 6)
    0.833333
    """
    return _average_precision(*_count_scores(in_scores, out_scores))


def average_precision_out(in_scores: npt.ArrayLike, out_scores: npt.ArrayLike) -> float:
    """AUPR-out: average precision with out-of-distribution rows as what is looked for, lowest scores first.

    >>> average_precision_out([3.0, 1.0], [2.0])
    0.5
    """
    inside, outside = _count_scores(in_scores, out_scores)
    return _average_precision(outside[::-1], inside[::-1])


def false_positive_rate(
    in_scores: npt.ArrayLike, out_scores: npt.ArrayLike, true_positive_rate: float = TRUE_POSITIVE_RATE
) -> float:
    """The share of out-of-distribution rows that pass the highest threshold (score >= t) that keeps at least
    this share of the in-distribution rows.

    Three of four rows pass at 2.0, and so does one of two others:

    >>> false_positive_rate([4.0, 3.0, 2.0, 1.0], [2.5, 1.5], 0.75)
    0.5
    """
    share = check_fraction(true_positive_rate, name="true_positive_rate")
    return _false_positive_rate(*_count_scores(in_scores, out_scores), share)


def out_of_distribution_table(
    in_logits: npt.ArrayLike, out_logits: npt.ArrayLike
) -> dict[str, dict[str, float]]:
    """`{score: {"auroc", "aupr_in", "aupr_out", "fpr95"}}` for every score.

    >>> table = out_of_distribution_table([[0.0, 9.0], [8.0, 0.0]], [[1.0, 0.0], [0.0, 2.0]])
    >>> table["msp"]
    {'auroc': 1.0, 'aupr_in': 1.0, 'aupr_out': 1.0, 'fpr95': 0.0}
    """
    inside, outside = check_logits(in_logits), check_logits(out_logits)
    if inside.shape[1] != outside.shape[1]:
        raise ValueError(
            f"in-distribution logits have {inside.shape[1]} classes, the others {outside.shape[1]}; "
            "both must come from one model"
        )
    return {
        name: metrics_of_counts(*_count_scores(score(inside), score(outside)))
        for name, score in SCORES.items()
    }


def _shifted(logits: npt.ArrayLike) -> tuple[Floats, npt.NDArray[np.intp]]:
    """z - z_max in float64, and the place of the maximum."""
    values = check_logits(logits).astype(np.float64)
    values -= values.max(axis=1, keepdims=True)
    return values, values.argmax(axis=1)


def _others(shifted: Floats, top: npt.NDArray[np.intp]) -> Floats:
    """exp(z_k - z_max), 0 at the maximum itself."""
    powers = np.exp(shifted)
    powers[np.arange(len(powers)), top] = 0.0
    return powers


def metrics_of_counts(inside: Integers, outside: Integers) -> dict[str, float]:
    """All four metrics, from how many rows of either set have each score, the highest score first.

    >>> metrics_of_counts(np.array([1, 1, 1, 0]), np.array([0, 1, 0, 1]))["auroc"]
    0.75
    """
    return {
        "auroc": _area_under_roc(inside, outside),
        "aupr_in": _average_precision(inside, outside),
        "aupr_out": _average_precision(outside[::-1], inside[::-1]),
        "fpr95": _false_positive_rate(inside, outside, TRUE_POSITIVE_RATE),
    }


def _area_under_roc(inside: Integers, outside: Integers) -> float:
    in_rows, out_rows = int(inside.sum()), int(outside.sum())
    # A row meets those below it, and half of those at its own score.
    out_below: Floats = out_rows - np.cumsum(outside) + 0.5 * outside
    return float(inside @ out_below) / (in_rows * out_rows)


def _average_precision(wanted: Integers, unwanted: Integers) -> float:
    """sum over thresholds, from the highest: (rise of recall) * precision; equal scores enter together."""
    wanted_above, unwanted_above = np.cumsum(wanted), np.cumsum(unwanted)
    precision = wanted_above / np.maximum(wanted_above + unwanted_above, 1)
    return float(wanted @ precision) / int(wanted.sum())


def _false_positive_rate(inside: Integers, outside: Integers, share: float) -> float:
    in_rows = int(inside.sum())
    # 0.05 * 20 is 1 but for the last bit, which must not cost a row.
    kept = in_rows - int(np.floor((1.0 - share) * in_rows + 1e-9))
    threshold = int(np.searchsorted(np.cumsum(inside), kept))
    return float(np.cumsum(outside)[threshold]) / int(outside.sum())


def _count_scores(in_scores: npt.ArrayLike, out_scores: npt.ArrayLike) -> tuple[Integers, Integers]:
    """How many rows of either set have each score, the highest score first."""
    in_group, out_group, groups = group_scores(in_scores, out_scores)
    return np.bincount(in_group, minlength=groups), np.bincount(out_group, minlength=groups)


def group_scores(in_scores: npt.ArrayLike, out_scores: npt.ArrayLike) -> tuple[Integers, Integers, int]:
    """For every row the number of its group of equal scores, the highest score first; and how many there are.

    >>> in_group, out_group, groups = group_scores([3.0, 2.0, 1.0], [2.0, 0.5])
    >>> in_group.tolist(), out_group.tolist(), groups
    ([0, 1, 2], [1, 3], 4)
    """
    inside, outside = check_score_pair(in_scores, out_scores)
    values, group = np.unique(-np.concatenate([inside, outside]), return_inverse=True)
    return group[: len(inside)], group[len(inside) :], len(values)


def check_score_pair(in_scores: npt.ArrayLike, out_scores: npt.ArrayLike) -> tuple[Floats, Floats]:
    """Two non-empty vectors of finite numbers, in float64."""
    checked = []
    for name, scores in (("in_scores", in_scores), ("out_scores", out_scores)):
        array = np.asarray(scores)
        if array.ndim != 1 or array.size == 0:
            raise ValueError(f"{name} must be a non-empty vector, not shape {array.shape}")
        if array.dtype.kind not in "fiub":
            raise ValueError(f"{name} must be numbers, not {array.dtype}")
        if not np.isfinite(array).all():
            raise ValueError(f"{name} must be finite")
        checked.append(array.astype(np.float64, copy=False))
    return checked[0], checked[1]
