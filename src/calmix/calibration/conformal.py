"""Prediction sets that hold the true class with a chosen probability: split conformal prediction.

A score s(x, k) says how badly class k fits row x. On n held-out rows the scores of the true classes are
sorted; q is the ⌈(n + 1)·coverage⌉-th smallest, and the set of a new row is {k : s(x, k) ≤ q}. For rows that
are exchangeable with the held-out ones, whatever the model,

    coverage ≤ P(true class in the set)        (and < coverage + 1/(n + 1) where scores have no ties)

    lac    s = 1 − p_k                    the smallest sets on average (Sadinle et al. 2019)
    aps    s = Σ_{j before k} p_j + u·p_k          larger sets for harder rows (Romano et al. 2020)
    raps   s = aps + penalty·max(rank_k − free_classes, 0)     shorter tails (Angelopoulos et al. 2021)

Classes are ranked by falling probability; u is uniform, one draw for each row. `class_conditional` finds one
q for each class, so that the coverage holds within every true class, at the price of larger sets.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

from calmix.calibration.class_names import are_numbered, class_order
from calmix.calibration.input_checks import Floats, check_labels, check_probabilities
from calmix.calibration.metrics.binning import clopper_pearson
from calmix.calibration.predictions import Predictions

SetMethod = Literal["lac", "aps", "raps"]
SET_METHODS: tuple[str, ...] = get_args(SetMethod)
Sets = npt.NDArray[np.bool_]


def conformity_scores(
    probabilities: Floats, method: SetMethod, draws: Floats, penalty: float = 0.0, free_classes: int = 1
) -> Floats:
    """s(x, k) for every row and class [n, C]; `draws` [n] are the u of each row.

    >>> conformity_scores(np.array([[0.5, 0.3, 0.2]]), "aps", np.array([0.5])).round(2).tolist()
    [[0.25, 0.65, 0.9]]
    >>> conformity_scores(np.array([[0.2, 0.5, 0.3]]), "lac", np.array([0.5])).round(2).tolist()
    [[0.8, 0.5, 0.7]]
    """
    if method == "lac":
        return np.asarray(1.0 - probabilities)
    order = np.argsort(-probabilities, axis=1, kind="stable")
    ranked = np.take_along_axis(probabilities, order, axis=1)
    scores = np.cumsum(ranked, axis=1) - ranked + draws[:, None] * ranked
    if method == "raps":
        scores = scores + penalty * np.maximum(np.arange(1, ranked.shape[1] + 1) - free_classes, 0)
    found = np.empty_like(scores)
    np.put_along_axis(found, order, scores, axis=1)
    return found


def conformal_quantile(scores: Floats, coverage: float) -> float:
    """The ⌈(n + 1)·coverage⌉-th smallest score; infinity where n is too small for the coverage.

    >>> conformal_quantile(np.arange(1.0, 10.0), 0.9)  # the 9th of 9
    9.0
    >>> conformal_quantile(np.arange(1.0, 9.0), 0.9)  # 9 of 8 do not exist
    inf
    """
    place = quantile_place(len(scores), coverage)
    if place > len(scores):
        return math.inf
    return float(np.partition(scores, place - 1)[place - 1])


def quantile_place(rows: int, coverage: float) -> int:
    """⌈(n + 1)·coverage⌉; 1e-9, since the product may round to just above a whole number."""
    return math.ceil((rows + 1) * coverage - 1e-9)


def rows_needed(coverage: float) -> int:
    """The fewest held-out rows (of each class, if class-conditional) for which q is finite.

    >>> rows_needed(0.9), rows_needed(0.99), rows_needed(0.9999)
    (9, 99, 9999)
    """
    rows = max(math.floor(coverage / (1 - coverage)) - 1, 1)
    while quantile_place(rows, coverage) > rows:
        rows += 1
    return rows


@dataclass(frozen=True)
class SetEvaluation:
    """What prediction sets do on labelled rows."""

    n: int
    coverage: float
    coverage_ci: tuple[float, float]
    """Clopper-Pearson, 95 %."""
    mean_size: float
    single_share: float
    """Share of rows whose set is one class."""
    empty_share: float
    coverage_by_class: tuple[float | None, ...]
    """None for a class without rows."""


class ConformalSets:
    """Prediction sets fitted on held-out predictions.

    >>> held_out = Predictions.from_probabilities([[0.9, 0.1], [0.6, 0.4], [0.2, 0.8]] * 10, [0, 1, 1] * 10)
    >>> sets = ConformalSets(coverage=0.9).fit(held_out)
    >>> sets.predict([[0.99, 0.01], [0.5, 0.5]]).tolist()
    [[True, False], [True, True]]
    """

    def __init__(
        self,
        method: SetMethod = "lac",
        *,
        coverage: float = 0.9,
        class_conditional: bool = False,
        allow_empty: bool = False,
        penalty: float = 0.01,
        free_classes: int = 1,
        seed: int = 0,
    ) -> None:
        """`allow_empty`: leave a set empty where no class fits; otherwise it holds the predicted class."""
        if method not in SET_METHODS:
            raise ValueError(f"method must be one of {', '.join(SET_METHODS)}, not {method!r}")
        if not 0 < coverage < 1:
            raise ValueError(f"coverage must be between 0 and 1, not {coverage}")
        if not (math.isfinite(penalty) and penalty >= 0):
            raise ValueError(f"penalty must be a number of at least 0, not {penalty}")
        if free_classes < 0:
            raise ValueError(f"free_classes must be at least 0, not {free_classes}")
        self.method: SetMethod = method
        self.coverage, self.class_conditional, self.allow_empty = coverage, class_conditional, allow_empty
        self.penalty, self.free_classes, self.seed = penalty, free_classes, seed

    def fit(self, predictions: Predictions) -> ConformalSets:
        """Find q on predictions that neither trained nor chose the model."""
        if not len(predictions):
            raise ValueError("no held-out rows")
        if predictions.is_weighted:
            raise ValueError("rows with weights or soft labels give prediction sets no guarantee")
        probabilities, labels = predictions.probabilities(), predictions.labels
        own = self._scores(probabilities, stream=0)[np.arange(len(labels)), labels]
        if self.class_conditional:
            classes = range(predictions.classes)
            found = [conformal_quantile(own[labels == k], self.coverage) for k in classes]
        else:
            found = [conformal_quantile(own, self.coverage)] * predictions.classes
        self.thresholds_ = np.array(found)
        self.rows_, self.class_names_ = len(labels), predictions.class_names
        return self

    def predict(self, scores: Predictions | npt.ArrayLike) -> Sets:
        """The sets [n, C] of predictions, or of probabilities [n, C]. Classes of predictions are matched by
        name; the columns are in the order of the predictions."""
        if not hasattr(self, "thresholds_"):
            raise ValueError("the sets are not fitted; call fit first")
        if isinstance(scores, Predictions):
            probabilities = scores.probabilities()
        else:
            probabilities = check_probabilities(np.asarray(scores)).astype(np.float64)
        if probabilities.shape[1] != len(self.thresholds_):
            raise ValueError(f"{probabilities.shape[1]} classes, but fitted on {len(self.thresholds_)}")
        thresholds = self.thresholds_
        if isinstance(scores, Predictions):
            named = not (are_numbered(self.class_names_) or are_numbered(scores.class_names))
            if named or set(self.class_names_) == set(scores.class_names):
                thresholds = thresholds[class_order(self.class_names_, scores.class_names)]
        inside = self._scores(probabilities, stream=1) <= thresholds
        if not self.allow_empty:
            inside[np.arange(len(inside)), probabilities.argmax(axis=1)] = True
        return np.asarray(inside)

    def unbounded_classes(self) -> list[str]:
        """Classes that are in every set, since too few held-out rows speak of them."""
        return [
            name for name, q in zip(self.class_names_, self.thresholds_, strict=True) if not math.isfinite(q)
        ]

    def explain(self) -> str:
        """What may be relied on, in one sentence."""
        what = "whatever the true class" if self.class_conditional else "on average over rows"
        return (
            f"prediction sets ({self.method}) hold the true class with probability {self.coverage:.1%} "
            f"or more, {what}, on data like the {self.rows_} held-out rows"
        )

    def _scores(self, probabilities: Floats, stream: int) -> Floats:
        # Held-out and new rows never share their draws: the guarantee needs them independent.
        draws = np.random.default_rng([self.seed, stream]).random(len(probabilities))
        return conformity_scores(probabilities, self.method, draws, self.penalty, self.free_classes)


def evaluate_sets(sets: Sets, labels: npt.ArrayLike) -> SetEvaluation:
    """Coverage and size of prediction sets [n, C] on rows with labels [n].

    >>> found = evaluate_sets(np.array([[True, False], [True, True]]), [1, 0])
    >>> found.coverage, found.mean_size, found.single_share
    (0.5, 1.5, 0.5)
    """
    sets = np.asarray(sets)
    if sets.ndim != 2 or not len(sets):
        raise ValueError(f"sets must have shape [rows, classes] with at least one row, not {sets.shape}")
    if sets.dtype != np.bool_:
        raise ValueError(f"sets must be true or false for every class, not {sets.dtype}")
    gold = check_labels(labels, rows=len(sets), classes=sets.shape[1])
    held = sets[np.arange(len(sets)), gold]
    sizes = sets.sum(axis=1)
    low, high = clopper_pearson(held.sum(), len(held))
    return SetEvaluation(
        n=len(sets),
        coverage=float(held.mean()),
        coverage_ci=(float(low), float(high)),
        mean_size=float(sizes.mean()),
        single_share=float((sizes == 1).mean()),
        empty_share=float((sizes == 0).mean()),
        coverage_by_class=tuple(
            float(held[gold == k].mean()) if (gold == k).any() else None for k in range(sets.shape[1])
        ),
    )
