"""Predictions of rows that have several labels, or none: the log-odds or the probability of every label.

    p_k = sigmoid(z_k),    independent of the other labels: they do not sum to 1

Each label on its own is a problem of two classes; `of_label` gives it as `Predictions`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from calmix.calibration.class_names import ClassLookup, class_order, label_name, listed, numbered_names
from calmix.calibration.input_checks import BadRow, Floats, as_array
from calmix.calibration.predictions import SMALLEST_PROBABILITY, Predictions, ScoreKind

Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class MultiLabelPredictions:
    """The predictions of a model for n rows and K labels. Made by `from_logits` or `from_probabilities`.

    >>> predictions = MultiLabelPredictions.from_probabilities(
    ...     [[0.9, 0.2], [0.4, 0.6]], [["joy"], []], label_names=["joy", "anger"]
    ... )
    >>> predictions.targets.astype(int).tolist()
    [[1, 0], [0, 0]]
    >>> predictions.of_label(0).probabilities().round(2).tolist()
    [[0.1, 0.9], [0.6, 0.4]]
    """

    values: npt.NDArray[np.floating[Any]]
    kind: ScoreKind
    targets: Flags
    """[n, K]: which labels each row has."""
    ids: npt.NDArray[np.str_] | None
    label_names: tuple[str, ...]

    @classmethod
    def from_logits(
        cls,
        logits: npt.ArrayLike,
        labels: Any,
        *,
        ids: Sequence[str] | npt.NDArray[np.str_] | None = None,
        label_names: Sequence[Any] | None = None,
    ) -> MultiLabelPredictions:
        """Log-odds [n, K]. Labels are an array [n, K] of 0 and 1, or a list of names for every row."""
        return cls._checked(as_array(logits), "logits", labels, ids, label_names)

    @classmethod
    def from_probabilities(
        cls,
        probabilities: npt.ArrayLike,
        labels: Any,
        *,
        ids: Sequence[str] | npt.NDArray[np.str_] | None = None,
        label_names: Sequence[Any] | None = None,
    ) -> MultiLabelPredictions:
        """Probabilities [n, K], each between 0 and 1. Labels as for `from_logits`."""
        return cls._checked(as_array(probabilities), "probabilities", labels, ids, label_names)

    @classmethod
    def _checked(
        cls,
        values: npt.NDArray[Any],
        kind: ScoreKind,
        labels: Any,
        ids: Sequence[str] | npt.NDArray[np.str_] | None,
        label_names: Sequence[Any] | None,
    ) -> MultiLabelPredictions:
        scores = check_label_scores(values, kind)
        rows, count = scores.shape
        names = numbered_names(count) if label_names is None else tuple(map(label_name, label_names))
        if len(names) != count:
            raise ValueError(f"scores of {count} labels but {len(names)} label names")
        if len(set(names)) != count:
            raise ValueError(f"two labels of one name: {listed(names)}")
        targets = multi_hot(labels, names)
        if len(targets) != rows:
            raise ValueError(f"{rows} rows of scores but labels of {len(targets)} rows")
        checked_ids = None if ids is None else np.asarray(ids, dtype=np.str_)
        if checked_ids is not None and checked_ids.shape != (rows,):
            raise ValueError(f"{rows} rows of scores but {checked_ids.size} row ids")
        return cls(scores, kind, targets, checked_ids, names)

    def __len__(self) -> int:
        return len(self.values)

    @property
    def labels(self) -> int:
        """How many labels there are to choose from."""
        return int(self.values.shape[1])

    def probabilities(self) -> Floats:
        """[n, K] in float64."""
        wide = self.values.astype(np.float64)
        return wide if self.kind == "probabilities" else np.exp(-np.logaddexp(0.0, -wide))

    def log_odds(self) -> Floats:
        """[n, K] in float64; a probability of 0 or 1 counts as 2.2e-16 away from it."""
        wide = self.values.astype(np.float64)
        if self.kind == "logits":
            return wide
        inside = np.clip(wide, SMALLEST_PROBABILITY, 1 - SMALLEST_PROBABILITY)
        return np.asarray(np.log(inside) - np.log1p(-inside))

    def log_losses(self) -> Floats:
        """[n, K]: minus the log-probability of what each row has, or has not."""
        wide = self.values.astype(np.float64)
        if self.kind == "logits":
            return np.asarray(np.logaddexp(0.0, np.where(self.targets, -wide, wide)))
        stated = np.where(self.targets, wide, 1 - wide)
        return np.asarray(-np.log(np.maximum(stated, SMALLEST_PROBABILITY)))

    def of_label(self, place: int) -> Predictions:
        """One label as a problem of two classes, the second of which is to have it."""
        make = Predictions.from_logits if self.kind == "logits" else Predictions.from_probabilities
        name = self.label_names[place]
        has_it = self.targets[:, place].astype(np.int64)
        return make(self.values[:, place], has_it, ids=self.ids, class_names=(f"not {name}", name))

    def pooled_scores(self) -> tuple[Floats, Flags]:
        """The probabilities of all rows and labels, and whether each row has the label."""
        return self.probabilities().ravel(), self.targets.ravel()

    def scaled(self, scale: npt.ArrayLike, bias: npt.ArrayLike) -> MultiLabelPredictions:
        """The log-odds of every label times its scale plus its bias."""
        return replace(self, values=self.log_odds() * np.asarray(scale) + np.asarray(bias), kind="logits")

    def select(self, indices: npt.ArrayLike) -> MultiLabelPredictions:
        part = np.asarray(indices)
        ids = None if self.ids is None else self.ids[part]
        return replace(self, values=self.values[part], targets=self.targets[part], ids=ids)

    def with_label_order(self, label_names: Sequence[str]) -> MultiLabelPredictions:
        """The labels in this order; `DifferentClasses` where they are others."""
        order = class_order(self.label_names, label_names)
        return replace(
            self,
            values=np.ascontiguousarray(self.values[:, order]),
            targets=np.ascontiguousarray(self.targets[:, order]),
            label_names=tuple(label_names),
        )


def check_label_scores(values: npt.NDArray[Any], kind: ScoreKind) -> npt.NDArray[np.floating[Any]]:
    """[rows, labels] of finite numbers, probabilities between 0 and 1."""
    if values.ndim != 2 or values.shape[1] < 1 or values.dtype.kind not in "fiu":
        raise ValueError(f"scores must be numbers of the shape [rows, labels], not {values.shape}")
    if not len(values):
        raise ValueError("no rows")
    scores = values if values.dtype.kind == "f" else values.astype(np.float64)
    bad = ~np.isfinite(scores)
    if kind == "probabilities":
        bad |= (scores < 0) | (scores > 1)
    if bad.any():
        row, place = (int(index) for index in np.argwhere(bad)[0])
        wrong = scores[row, place]
        if np.isfinite(wrong):
            raise BadRow(f"a probability must lie in [0, 1], not {wrong:g}", row, "negative", place=place)
        raise BadRow(f"a score must be finite, not {wrong}", row, "not finite", place=place)
    return scores


def multi_hot(labels: Any, names: Sequence[str]) -> Flags:
    """[n, K] of truth values, from an array of 0 and 1 or from the names that each row has.

    >>> multi_hot([["b"], [], ["a", "b"]], ("a", "b")).astype(int).tolist()
    [[0, 1], [0, 0], [1, 1]]
    >>> multi_hot(np.array([[1, 0]]), ("a", "b")).tolist()
    [[True, False]]
    """
    if hasattr(labels, "dtype") or not any(isinstance(one, str) for row in labels for one in row):
        array = as_array(labels)
        if array.ndim == 2 and array.shape[1] == len(names) and array.dtype.kind in "biuf":
            wrong = np.argwhere((array != 0) & (array != 1))
            if len(wrong):
                row, place = (int(index) for index in wrong[0])
                raise BadRow(f"a label is 0 or 1, not {array[row, place]}", row, "label", place=place)
            return array.astype(np.bool_)
        if array.size:
            raise ValueError(
                f"labels must be 0 and 1 of the shape [rows, {len(names)}] or names, not {array.shape}"
            )
    if (text := next((row for row, one in enumerate(labels) if isinstance(one, str)), None)) is not None:
        # Its letters would be taken for labels.
        raise BadRow(f"a list of names is needed, not the text {labels[text]!r}", text, "label")
    lookup = ClassLookup(names)
    targets = np.zeros((len(labels), len(names)), dtype=np.bool_)
    for row, given in enumerate(labels):
        for one in given:
            known = lookup.find(label_name(one))
            if known is None:
                problem = f"label {label_name(one)!r} is none of the labels {listed(names)}"
                raise BadRow(problem, row, "label")
            targets[row, known] = True
    return targets
