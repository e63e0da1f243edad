"""Likely mislabelled rows, found with threshold samples.

Some rows are given a label that is certainly wrong and trained along. Their areas under the margin show
what a wrong label looks like in this training run; an original row whose AUM is no higher than that of
nearly all of them is probably mislabelled too (Pleiss et al. 2020).

    plan_threshold_samples   which rows become threshold samples, and what they are labelled as
    (train on plan.labels with the recorder on: one pass per run, elsewhere)
    threshold_filter         the AUMs -> kept, flagged and unscored rows

A threshold sample cannot be judged in its own run. `runs=2` draws two disjoint sets, so that every row is
an original at least once, and flags a row only if every run in which it was an original flags it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

import numpy as np
import numpy.typing as npt

Mask = npt.NDArray[np.bool_]
Task = Literal["single", "pair", "choice", "image"]


@dataclass(frozen=True, eq=False)
class ThresholdRun:
    """One training pass: the rows that are threshold samples, and every row's label in this pass."""

    threshold: Mask  # [N]
    labels: npt.NDArray[np.int64]  # [N]
    num_classes: int  # of the head: one more than the task has, except for multiple choice


@dataclass(frozen=True, eq=False)
class ThresholdPlan:
    runs: tuple[ThresholdRun, ...]
    findings: tuple[str, ...]  # what the user should know: classes too small for their share


@dataclass(frozen=True, eq=False)
class NoiseVerdict:
    """What the filter says about each row; `flagged` and `unscored` never overlap."""

    kept: Mask
    flagged: Mask
    unscored: Mask  # an original with an AUM in no run
    cutoffs: tuple[float, ...]  # α_k of each run; −inf where there were too few threshold samples
    level: npt.NDArray[
        np.float64
    ]  # share of threshold samples with a lower AUM, mean over runs; NaN unscored
    aum: npt.NDArray[np.float64]  # mean over the runs in which the row was an original; NaN unscored
    findings: tuple[str, ...]

    def most_suspicious(self) -> npt.NDArray[np.int64]:
        """The flagged rows, most likely mislabelled first: by level, then by AUM."""
        rows = np.flatnonzero(self.flagged)
        return rows[np.lexsort((self.aum[rows], self.level[rows]))]


def plan_threshold_samples(
    labels: npt.ArrayLike,
    num_classes: int,
    *,
    seed: int,
    runs: int = 1,
    task: Task = "single",
    class_names: Sequence[str] = (),
) -> ThresholdPlan:
    """Draw the threshold samples of each run.

    Of N rows in c classes, ⌊N/(c+1)⌋ in total become threshold samples, ⌊⌊N/(c+1)⌋/c⌋ of each class, so that
    the fake class is about as large as a real one. They are labelled `num_classes`, a class that does not
    exist (the head has one output more in these passes, and its logits mean nothing to the task). In multiple
    choice there is no such answer: they are labelled with a random wrong choice. A class that has fewer than
    twice its share gives half its rows, and a finding says so.

    c is `effective_classes` of these rows, which may be a part of the data such as its easy rows, lack whole
    classes or have one row of a class: a row more or less hardly changes the number of threshold samples.

    >>> plan = plan_threshold_samples([0] * 6 + [1] * 6, num_classes=2, seed=0)
    >>> int(plan.runs[0].threshold.sum()), plan.runs[0].num_classes  # 12 // 3 = 4 in total, 2 of each class
    (4, 3)
    >>> set(plan.runs[0].labels[plan.runs[0].threshold].tolist())
    {2}
    """
    y = np.asarray(labels, dtype=np.int64)
    if runs not in (1, 2):
        # Two disjoint halves of the smallest class are the most that half of each class allows.
        raise ValueError(f"runs must be 1 or 2, got {runs}")
    if y.ndim != 1 or num_classes < 2 or (len(y) and (y.min() < 0 or y.max() >= num_classes)):
        raise ValueError(f"labels must be a flat array of integers in 0..{num_classes - 1}")
    generator = np.random.default_rng([seed, len(y), num_classes])
    share = _share_of_class(len(y), effective_classes(y))
    findings = []
    drawn: list[list[npt.NDArray[np.int64]]] = [[] for _ in range(runs)]
    for one in range(num_classes):
        rows = generator.permutation(np.flatnonzero(y == one))
        quota = min(share, len(rows) // 2)
        if len(rows) and quota < share:
            name = class_names[one] if class_names else one
            findings.append(
                f"class {name!r} has {len(rows)} rows: {quota} threshold samples instead of {share}"
            )
        for run in range(runs):
            drawn[run].append(rows[run * quota : (run + 1) * quota])
    planned = []
    for parts in drawn:
        rows = np.sort(np.concatenate(parts))
        assigned = y.copy()
        if task == "choice":
            assigned[rows] = (y[rows] + generator.integers(1, num_classes, size=len(rows))) % num_classes
        else:
            assigned[rows] = num_classes
        threshold = np.zeros(len(y), dtype=np.bool_)
        threshold[rows] = True
        planned.append(ThresholdRun(threshold, assigned, num_classes + (task != "choice")))
    return ThresholdPlan(tuple(planned), tuple(findings))


def effective_classes(labels: npt.NDArray[np.int64]) -> float:
    """max(2, 1/Σ p_y²), p_y the shares of the classes: their number where all are equally large.

    It changes continuously with the shares, where a count jumps with one row of a class that was not there.
    Two at least: a task has two classes, and rows of one class alone give a sixth as threshold samples, as
    the larger class does where a few rows of another are among them.

    >>> sizes = [9, 9, 9], [9, 9, 1], [9, 0, 0]
    >>> [round(effective_classes(np.repeat([0, 1, 2], size)), 2) for size in sizes]
    [3.0, 2.21, 2.0]
    """
    counts = np.unique(labels, return_counts=True)[1]
    return max(2.0, float(counts.sum() ** 2 / (counts**2).sum())) if len(counts) else 2.0


def _share_of_class(rows: int, classes: float) -> int:
    """
    >>> _share_of_class(12, 2.0), _share_of_class(600, 3.0)
    (2, 50)
    """
    return int(rows // (classes + 1) // classes)


def order_statistic(k: float | Fraction, count: int) -> int:
    """⌊k·m⌋ for the k that was typed: 0.29 · 100 is 29, though the float product is 28.999….

    >>> order_statistic(0.29, 100), int(0.29 * 100)
    (29, 28)
    """
    exact = k if isinstance(k, Fraction) else Fraction(str(k))
    if not 0 < exact <= 1:
        raise ValueError(f"k must lie in (0, 1], got {k}")
    return int(exact * count)


def threshold_filter(
    aums: Sequence[npt.ArrayLike],
    runs: Sequence[ThresholdRun] | Sequence[npt.ArrayLike],
    *,
    k: float = 0.99,
    unscored: Literal["drop", "keep"] = "drop",
) -> NoiseVerdict:
    """Flag the originals whose AUM is not above α_k, the ⌊k·m⌋-th smallest of the m threshold AUMs.

    `aums` holds one array [N] per run, against the labels of that run (NaN where a row was not seen); `runs`
    the plan's runs, or just their threshold masks. α_k is an order statistic, without interpolation, and an
    original is kept if its AUM is strictly greater. Rows that were an original in no run are `unscored`:
    dropped from `kept`, or kept.

    >>> aum = [0.0, 1.0, 2.0, 3.0, 1.0, 1.5]
    >>> threshold = [True, True, False, False, False, False]
    >>> verdict = threshold_filter([aum], [threshold], k=1.0)
    >>> verdict.cutoffs, verdict.kept.tolist(), verdict.flagged.tolist()
    ((1.0,), [False, False, True, True, False, True], [False, False, False, False, True, False])
    """
    masks = [np.asarray(run.threshold if isinstance(run, ThresholdRun) else run, dtype=bool) for run in runs]
    scores = [np.asarray(aum, dtype=np.float64) for aum in aums]
    if not scores or len(scores) != len(masks):
        raise ValueError(f"one AUM array for each run: {len(scores)} arrays, {len(masks)} runs")
    if unscored not in ("drop", "keep"):
        raise ValueError(f"unscored must be 'drop' or 'keep', got {unscored!r}")
    rows = scores[0].shape
    if len(rows) != 1 or any(array.shape != rows for array in (*scores, *masks)):
        raise ValueError("AUMs and threshold masks must all have one entry per row")
    judged = np.zeros(rows, dtype=np.int64)
    cleared = np.zeros(rows, dtype=np.bool_)
    level, total = np.zeros(rows), np.zeros(rows)
    cutoffs, findings = [], []
    for number, (aum, threshold) in enumerate(zip(scores, masks, strict=True), start=1):
        scored = ~np.isnan(aum)
        known_wrong = np.sort(aum[threshold & scored])
        place = order_statistic(k, len(known_wrong))
        if place == 0:
            findings.append(f"run {number}: {len(known_wrong)} threshold samples are too few for k = {k}")
        cutoffs.append(float(known_wrong[place - 1]) if place else -np.inf)
        original = scored & ~threshold
        # AUM > the place-th smallest ⇔ at least `place` threshold samples lie strictly below it.
        below = np.searchsorted(known_wrong, aum[original], side="left")
        judged[original] += 1
        cleared[original] |= below >= place
        level[original] += below / max(len(known_wrong), 1)
        total[original] += aum[original]
    unjudged = judged == 0
    flagged = ~cleared & ~unjudged
    kept = cleared | unjudged if unscored == "keep" else cleared
    times = np.where(unjudged, np.nan, judged)
    return NoiseVerdict(
        kept, flagged, unjudged, tuple(cutoffs), level / times, total / times, tuple(findings)
    )


def nothing_judged(rows: int) -> NoiseVerdict:
    """The verdict where there were too few rows for a pass.

    >>> nothing_judged(2).unscored.tolist()
    [True, True]
    """
    none, unknown = np.zeros(rows, dtype=np.bool_), np.full(rows, np.nan)
    return NoiseVerdict(none, none, ~none, (), unknown, unknown, ())
