"""Evaluate predictions that come in batches, and remember which rows they were about.

A file is read once, a few hundred thousand rows at a time. What stays in memory is a fixed number of sums,
from which the scores, the binned errors and all intervals follow, and eight bytes a row: confidence and
correctness, which the metrics that rank rows (AURC, E-AURC, AUGRC, bins of equal mass, KS) need to stay
exact. Sorting them takes as much again, so that twenty million rows take 320 MB however many classes they
have (`notion="classwise"` keeps eight bytes a row and class).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any

import numpy as np

from calmix.calibration.class_names import are_numbered
from calmix.calibration.evaluation import Measured, RunningEvaluation
from calmix.calibration.predictions import Predictions


class RowFingerprint:
    """Which rows went by: their number, their labels and their ids, as digests of a few bytes.

    >>> first, second = RowFingerprint(), RowFingerprint()
    >>> both = Predictions.from_logits([[0.0, 1.0], [2.0, 0.0]], [1, 0], ids=["a", "b"])
    >>> first.update(both)
    >>> for row in (0, 1):
    ...     second.update(both.rows(row, row + 1))
    >>> first.rows == second.rows, first.labels == second.labels, first.ids == second.ids
    (True, True, True)
    """

    def __init__(self) -> None:
        self.rows = 0
        self.class_names: tuple[str, ...] = ()
        self._labels = hashlib.blake2b(digest_size=16)
        self._ids = hashlib.blake2b(digest_size=16)
        self._has_ids = True

    def update(self, predictions: Predictions) -> None:
        self.rows += len(predictions)
        self.class_names = predictions.class_names
        self._labels.update(np.ascontiguousarray(predictions.labels).tobytes())
        if predictions.ids is None:
            self._has_ids = False
        elif self._has_ids:
            # A closing mark after every id, so that "ab", "c" is not "a", "bc", wherever a batch ends.
            joined = "\0".join(predictions.ids.tolist()) + "\0"
            self._ids.update(joined.encode(errors="surrogatepass"))

    @property
    def labels(self) -> bytes:
        return self._labels.digest()

    @property
    def ids(self) -> bytes | None:
        return self._ids.digest() if self._has_ids else None

    @property
    def has_named_classes(self) -> bool:
        """Whether the classes have names of their own, not just numbers."""
        return not are_numbered(self.class_names)


class StreamedEvaluation(RunningEvaluation):
    """A `RunningEvaluation` that knows which rows it has seen, and measures once however often asked."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.fingerprint = RowFingerprint()
        self._measured: dict[int, Measured] = {}

    def update(self, predictions: Predictions) -> None:
        super().update(predictions)
        self.fingerprint.update(predictions)
        self._measured.clear()

    def measure(self, seed: int, *, noise_floor: bool = True) -> Measured:
        if seed not in self._measured:
            self._measured[seed] = super().measure(seed)  # the one for the result has a noise floor anyway
        return self._measured[seed]


def evaluate_batches(batches: Iterable[Predictions], **settings: Any) -> StreamedEvaluation:
    """Take in all batches; `result()` then gives what `evaluate` gives for all rows at once, with the same
    settings.

    >>> rows = Predictions.from_probabilities([[0.9, 0.1], [0.8, 0.2]], [0, 1])
    >>> streamed = evaluate_batches([rows.rows(0, 1), rows.rows(1, 2)], bins=1).result()
    >>> streamed["n"], streamed["accuracy"], round(streamed["ece"], 4)
    (2, 0.5, 0.35)
    """
    evaluation = StreamedEvaluation(**settings)
    for batch in batches:
        evaluation.update(batch)
    return evaluation
