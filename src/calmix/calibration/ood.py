"""Telling data like the training data from data unlike it, by what the logits say.

Four scores, each higher where the row looks more familiar (in-distribution is the positive class):

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

from calmix.calibration.input_checks import Floats, check_fraction, check_logits

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


def area_under_roc(in_scores: npt.ArrayLike, out_scores: npt.ArrayLike) -> float:
    """AUROC: the chance that an in-distribution row scores above an out-of-distribution row; a tie is half.

    Of six pairs four are in order, one is tied, one is not:

    >>> area_under_roc([3.0, 2.0, 1.0], [2.0, 0.5])
    0.75
    """
    inside, outside = check_scores(in_scores, out_scores)
    ordered = np.sort(outside)
    below = np.searchsorted(ordered, inside, side="left").sum()
    not_above = np.searchsorted(ordered, inside, side="right").sum()
    return (int(below) + int(not_above)) / (2 * len(inside) * len(outside))


def average_precision_in(in_scores: npt.ArrayLike, out_scores: npt.ArrayLike) -> float:
    """AUPR-in: average precision with in-distribution rows as what is looked for.

    >>> round(average_precision_in([3.0, 1.0], [2.0]), 6)
    0.833333
    """
    inside, outside = check_scores(in_scores, out_scores)
    return _average_precision(inside, outside)


def average_precision_out(in_scores: npt.ArrayLike, out_scores: npt.ArrayLike) -> float:
    """AUPR-out: average precision with out-of-distribution rows as what is looked for, lowest scores first.

    >>> average_precision_out([3.0, 1.0], [2.0])
    0.5
    """
    inside, outside = check_scores(in_scores, out_scores)
    return _average_precision(-outside, -inside)


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
    inside, outside = check_scores(in_scores, out_scores)
    # 0.05 * 20 is 1 but for the last bit, which must not cost a row.
    dropped = int(np.floor((1.0 - share) * len(inside) + 1e-9))
    threshold = np.partition(inside, dropped)[dropped]
    return float((outside >= threshold).mean())


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
    table = {}
    for name, score in SCORES.items():
        in_scores, out_scores = score(inside), score(outside)
        table[name] = {
            "auroc": area_under_roc(in_scores, out_scores),
            "aupr_in": average_precision_in(in_scores, out_scores),
            "aupr_out": average_precision_out(in_scores, out_scores),
            "fpr95": false_positive_rate(in_scores, out_scores),
        }
    return table


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


def _average_precision(wanted: Floats, unwanted: Floats) -> float:
    """sum over thresholds, from the highest: (rise of recall) * precision; equal scores enter together."""
    thresholds = np.unique(wanted)[::-1]
    wanted_above = len(wanted) - np.searchsorted(np.sort(wanted), thresholds, side="left")
    unwanted_above = len(unwanted) - np.searchsorted(np.sort(unwanted), thresholds, side="left")
    rise = np.diff(wanted_above, prepend=0)
    return float((rise * (wanted_above / (wanted_above + unwanted_above))).sum() / len(wanted))


def check_scores(in_scores: npt.ArrayLike, out_scores: npt.ArrayLike) -> tuple[Floats, Floats]:
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
