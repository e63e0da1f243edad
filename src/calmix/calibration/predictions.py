"""Predictions that know what they are: logits or probabilities, with labels, row ids and class names.

    log p_k = z_k - z_max - log sum_j exp(z_j - z_max)
    confidence = max_k p_k, predicted = argmax_k p_k (the lowest index on ties)

Nothing here guesses from the values whether they are logits; the constructor's name says it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from calmix.calibration.class_names import (
    ClassLookup,
    class_order,
    find_labels,
    label_name,
    listed,
    numbered_names,
)
from calmix.calibration.input_checks import (
    BadRow,
    Floats,
    Integers,
    as_array,
    both_classes,
    check_labels,
    check_logits,
    check_probabilities,
    check_weights,
)

ScoreKind = Literal["logits", "probabilities"]
Notion = Literal["top_label", "classwise", "positive"]

# What a probability counts as, at least, when its logarithm is taken; the same for every precision, so that
# the log loss of a number does not depend on the type that stores it.
SMALLEST_PROBABILITY = float(np.finfo(np.float64).eps)


@dataclass(frozen=True, eq=False)
class Predictions:
    """The predictions of a model for n rows with C classes. Made by `from_logits` or `from_probabilities`.

    >>> predictions = Predictions.from_logits([[0.0, 1.0986122886681098], [0.0, 0.0]], [1, 1])
    >>> predictions.probabilities().round(4).tolist()
    [[0.25, 0.75], [0.5, 0.5]]
    >>> predictions.predicted().tolist(), predictions.correct().tolist()
    ([1, 0], [True, False])
    """

    values: npt.NDArray[np.floating[Any]]
    kind: ScoreKind
    labels: Integers
    ids: npt.NDArray[np.str_] | None
    class_names: tuple[str, ...]
    weights: Floats | None = None
    """How much each row counts; None: all alike."""
    targets: Floats | None = None
    """Soft labels [n, C], such as shares of annotators; `labels` are then their argmax. None: hard ones."""

    @classmethod
    def from_logits(
        cls,
        logits: npt.ArrayLike,
        labels: npt.ArrayLike,
        *,
        ids: Sequence[str] | npt.NDArray[np.str_] | None = None,
        class_names: Sequence[Any] | None = None,
    ) -> Predictions:
        """Logits [n, C], or [n]: the log-odds of the second of two classes. Minus infinity rules a class out.

        Labels are class indices or, as texts, names among `class_names`. Where these are no texts, such as
        the `classes_` of a scikit-learn estimator, labels are matched to them by value.

        >>> Predictions.from_logits([2.0, -1.0], ["yes", "no"], class_names=["no", "yes"]).labels.tolist()
        [1, 0]
        """
        array = as_array(logits)
        array = both_classes(array, "logits") if array.ndim == 1 else array
        return cls._checked(check_logits(array, ruled_out=True), "logits", labels, ids, class_names)

    @classmethod
    def from_probabilities(
        cls,
        probabilities: npt.ArrayLike,
        labels: npt.ArrayLike,
        *,
        ids: Sequence[str] | npt.NDArray[np.str_] | None = None,
        class_names: Sequence[Any] | None = None,
    ) -> Predictions:
        """Probabilities [n, C], or [n]: those of the second of two classes. Labels as for `from_logits`.

        >>> Predictions.from_probabilities([0.25, 0.75], [0, 1]).values.tolist()
        [[0.75, 0.25], [0.25, 0.75]]
        """
        array = as_array(probabilities)
        array = both_classes(array, "probabilities") if array.ndim == 1 else array
        return cls._checked(check_probabilities(array), "probabilities", labels, ids, class_names)

    @classmethod
    def _checked(
        cls,
        values: npt.NDArray[np.floating[Any]],
        kind: ScoreKind,
        labels: npt.ArrayLike,
        ids: Sequence[str] | npt.NDArray[np.str_] | None,
        class_names: Sequence[Any] | None,
    ) -> Predictions:
        rows, classes = values.shape
        if class_names is not None and len(class_names) != classes:
            raise ValueError(f"{classes} classes but {len(class_names)} class names")
        names = numbered_names(classes) if class_names is None else tuple(map(label_name, class_names))
        if len(set(names)) != classes:
            raise ValueError(f"two classes of one name: {listed(names)}")
        by_value = class_names is not None and not all(isinstance(name, str) for name in class_names)
        indices = labels_by_name(labels, names, by_value=by_value)
        checked_labels = check_labels(indices, rows=rows, classes=classes)
        checked_ids = None if ids is None else np.asarray(ids, dtype=np.str_)
        if checked_ids is not None and checked_ids.shape != (rows,):
            raise ValueError(f"{rows} rows of scores but {checked_ids.size} row ids")
        return cls(values, kind, checked_labels, checked_ids, names)

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def classes(self) -> int:
        return int(self.values.shape[1])

    def log_probabilities(self) -> Floats:
        """[n, C] in float64. A probability of exactly 0, or a logit of minus infinity, counts as 2.2e-16 (the
        smallest step of float64, as in scikit-learn's `log_loss`) in any precision, so that one such row does
        not make the mean infinite."""
        if self.kind == "probabilities":
            return _float64(np.log(np.maximum(self.values.astype(np.float64), SMALLEST_PROBABILITY)))
        shifted = self._shifted_logits()
        shifted -= np.log(np.exp(shifted).sum(axis=1, keepdims=True))
        return _ruled_out_floor(shifted)

    def probabilities(self) -> Floats:
        """[n, C] in float64."""
        if self.kind == "probabilities":
            return self.values.astype(np.float64)
        exponentials = _float64(np.exp(self._shifted_logits()))
        exponentials /= exponentials.sum(axis=1, keepdims=True)
        return exponentials

    def log_confidence(self) -> Floats:
        """log max_k p_k = -log1p(sum of p_k / p_max over the others): still distinct where the confidence
        itself has become exactly 1."""
        rows, best = np.arange(len(self)), self.predicted()
        if self.kind == "probabilities":
            others = self.values.astype(np.float64)
            others /= others[rows, best][:, None].copy()
        else:
            others = np.exp(self._shifted_logits())
        others[rows, best] = 0.0
        return _float64(-np.log1p(others.sum(axis=1)))

    def confidence(self) -> Floats:
        """max_k p_k of every row, in float64."""
        if self.kind == "probabilities":
            # The tolerance of the sum lets a single entry exceed 1 by rounding; a confidence may not.
            return _float64(np.minimum(self.values.max(axis=1), 1.0))
        return _float64(1.0 / np.exp(self._shifted_logits()).sum(axis=1))

    def predicted(self) -> Integers:
        """argmax_k, the lowest index on ties."""
        return np.asarray(self.values.argmax(axis=1), dtype=np.int64)

    def correct(self) -> npt.NDArray[np.bool_]:
        return np.asarray(self.predicted() == self.labels)

    def gold_log_probability(self) -> Floats:
        """log p of the label of every row."""
        rows = np.arange(len(self))
        if self.kind == "probabilities":
            gold_probability = self.values[rows, self.labels].astype(np.float64)
            return _float64(np.log(np.maximum(gold_probability, SMALLEST_PROBABILITY)))
        shifted = self._shifted_logits()
        gold = shifted[rows, self.labels]
        return _ruled_out_floor(gold - np.log(np.exp(shifted, out=shifted).sum(axis=1)))

    def with_temperature(self, temperature: float) -> Predictions:
        """softmax(z / T). Probabilities are taken as logits log p, which is the same softmax at T = 1."""
        if not (np.isfinite(temperature) and temperature > 0):
            raise ValueError(f"temperature must be finite and above 0, not {temperature}")
        logits = self.log_probabilities() if self.kind == "probabilities" else self.values.astype(np.float64)
        return replace(self, values=logits / temperature, kind="logits")

    def select(self, indices: npt.ArrayLike) -> Predictions:
        """These rows, in this order: indices, a slice's worth of them, or a boolean mask."""
        return self._at(np.asarray(indices))

    def rows(self, start: int, stop: int) -> Predictions:
        """The rows start..stop-1, without a copy."""
        return self._at(slice(start, stop))

    def _at(self, part: Any) -> Predictions:
        return replace(
            self,
            values=self.values[part],
            labels=self.labels[part],
            ids=None if self.ids is None else self.ids[part],
            weights=None if self.weights is None else self.weights[part],
            targets=None if self.targets is None else self.targets[part],
        )

    @property
    def is_weighted(self) -> bool:
        """Whether rows count differently or have soft labels."""
        return self.weights is not None or self.targets is not None

    def with_rows(
        self, *, weights: npt.ArrayLike | None = None, targets: npt.ArrayLike | None = None
    ) -> Predictions:
        """The same predictions of rows with these weights and soft labels.

        >>> given = Predictions.from_logits([[0.0, 1.0]], [1])
        >>> given.with_rows(targets=[[0.25, 0.75]]).weighted_rows()[1].tolist()
        [0.25, 0.75]
        """
        soft = None if targets is None else check_probabilities(targets).astype(np.float64)
        if soft is not None and soft.shape != self.values.shape:
            raise ValueError(f"soft labels of the shape {soft.shape} for scores of {self.values.shape}")
        labels = self.labels if soft is None else np.asarray(soft.argmax(axis=1), dtype=np.int64)
        if soft is not None:  # rounded shares: a row counts by its weight, not by the sum of its shares
            soft = soft / soft.sum(axis=1, keepdims=True)
        return replace(self, weights=check_weights(weights, rows=len(self)), targets=soft, labels=labels)

    def soft_targets(self) -> Floats:
        """[n, C]: the soft labels, or the hard ones as distributions."""
        return np.eye(self.classes)[self.labels] if self.targets is None else self.targets

    def weighted_rows(self) -> tuple[Predictions, Floats]:
        """Rows of one hard label each, and their weights: a row for every class that its soft label holds."""
        weights = np.ones(len(self)) if self.weights is None else self.weights
        rows, labels = self._copies()
        share = np.ones(len(rows)) if self.targets is None else self.targets[rows, labels]
        plain = replace(self._at(rows), weights=None, targets=None, labels=labels)
        return plain, weights[rows] * share

    def row_of_copy(self) -> Integers:
        """The row that each of `weighted_rows` is a copy of.

        >>> given = Predictions.from_logits([[0.0, 1.0], [0.0, 1.0]], [1, 1])
        >>> given.with_rows(targets=[[0.25, 0.75], [0.0, 1.0]]).row_of_copy().tolist()
        [0, 0, 1]
        """
        return self._copies()[0]

    def _copies(self) -> tuple[Integers, Integers]:
        """Row and label of every class that counts in a row, row by row."""
        weights = np.ones(len(self)) if self.weights is None else self.weights
        rows, labels = np.nonzero(self.soft_targets() * weights[:, None] > 0)
        return rows.astype(np.int64), labels.astype(np.int64)

    def with_class_order(self, class_names: Sequence[str]) -> Predictions:
        """The same predictions with the classes in this order; `DifferentClasses` where they are others.

        >>> given = Predictions.from_probabilities([[0.7, 0.2, 0.1]], [2], class_names=["fox", "cat", "dog"])
        >>> ordered = given.with_class_order(["cat", "dog", "fox"])
        >>> ordered.values.tolist(), ordered.labels.tolist()
        ([[0.2, 0.1, 0.7]], [1])
        """
        order = class_order(self.class_names, class_names)
        if np.array_equal(order, np.arange(self.classes)):
            return replace(self, class_names=tuple(class_names))
        place = np.argsort(order)
        # Row by row in memory, so that sums over classes round as those of any other predictions do.
        values = np.ascontiguousarray(self.values[:, order])
        targets = None if self.targets is None else np.ascontiguousarray(self.targets[:, order])
        return replace(
            self, values=values, labels=place[self.labels], class_names=tuple(class_names), targets=targets
        )

    def _shifted_logits(self) -> Floats:
        """z - z_max in float64, so that exp neither overflows nor loses the largest term."""
        logits = self.values.astype(np.float64)
        logits -= logits.max(axis=1, keepdims=True)
        return logits


def labels_by_name(
    labels: npt.ArrayLike, names: tuple[str, ...], *, by_value: bool
) -> npt.NDArray[Any] | npt.ArrayLike:
    """Class indices of labels that are names; labels that are indices stay as they are.

    >>> labels_by_name(["b", "a"], ("a", "b"), by_value=False).tolist()
    [1, 0]
    >>> labels_by_name(np.array([True, False]), ("True", "False"), by_value=False).tolist()
    [0, 1]
    """
    array = as_array(labels)
    if array.dtype.kind not in "OUST" and not by_value:
        is_truth = array.dtype == np.bool_ and None not in map(ClassLookup(names).find, ("True", "False"))
        if not is_truth:
            return array
    if array.ndim != 1:
        raise ValueError(f"labels must have shape [rows], not {array.shape}")
    indices, unknown = find_labels(array, names)
    if unknown is not None:
        raise BadRow(
            f"label {label_name(array[unknown])!r} is none of the classes {listed(names)}", unknown, "label"
        )
    return indices


def _ruled_out_floor(log_probabilities: npt.NDArray[Any]) -> Floats:
    """Minus infinity as the logarithm of the smallest probability."""
    ruled_out = np.isneginf(log_probabilities)
    if ruled_out.any():
        log_probabilities[ruled_out] = np.log(SMALLEST_PROBABILITY)
    return _float64(log_probabilities)


def _float64(values: npt.NDArray[Any]) -> Floats:
    return np.asarray(values, dtype=np.float64)
