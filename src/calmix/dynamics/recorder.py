"""Records the training dynamics of every row, step by step.

Nothing here knows a trainer: `record(ids, logits, labels)` takes arrays from any loop.

    recorder = DynamicsRecorder(row_ids, labels, epochs=3, num_classes=2)
    for epoch in range(3):
        for batch in batches:
            logits = forward(batch)
            recorder.record(batch.ids, logits)
        recorder.next_epoch()
    datamap = DataMap.from_recorder(recorder)

The rules:

* The logits are those of the training forward pass, before that step's update, against the label the row
  is trained with.
* A row seen more than once in an epoch: its probability and margin are averaged over the times, its
  prediction is the latest. A row not seen in an epoch has no value there.
* Storage is O(N·E), 24 bytes for each row and epoch, plus 4·C with `keep_logits`. The sums are float64: a
  float32 would round probabilities near 1 together, and every later number is computed in float64 anyway.
  One observation is stored as it is, so a run that was resumed from `state()` holds the same bits.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from calmix.dynamics.margins import observe
from calmix.dynamics.row_index import RowIds, RowIndex
from calmix.dynamics.training_dynamics import TrainingDynamics
from calmix.runtime.large_arrays import zeros

ROWS_HASHED = 1 << 14
"""Ids that are Python objects at a time."""
State = Mapping[str, npt.NDArray[Any]]


class DynamicsRecorder:
    """Gold probability, margin and prediction of N rows over `epochs` epochs.

    `row_ids` are unique strings or integers (`range(n)` for plain positions). `labels` are the labels the
    rows are trained with; left out, they are taken from the first `record` of each row. For multiple choice
    `num_classes` is the number of choices and a label is a choice's position.

    >>> recorder = DynamicsRecorder(["a", "b", "c"], epochs=2, num_classes=2)
    >>> recorder.record(["a", "b"], [[2.0, 0.0], [0.0, 1.0]], [0, 0])
    >>> recorder.next_epoch()
    >>> recorder.record(["b", "a", "b"], [[1.0, 0.0], [3.0, 0.0], [2.0, 0.0]], [0, 0, 0])
    >>> recorder.dynamics().margin.tolist()  # b was seen twice in the second epoch, c never
    [[2.0, 3.0], [-1.0, 1.5], [nan, nan]]
    """

    def __init__(
        self,
        row_ids: RowIds,
        labels: npt.ArrayLike | None = None,
        *,
        epochs: int,
        num_classes: int,
        keep_logits: bool = False,
        class_names: Sequence[str] = (),
    ) -> None:
        if epochs < 1:
            raise ValueError(f"epochs must be at least 1, got {epochs}")
        if num_classes < 2:
            raise ValueError(f"num_classes must be at least 2, got {num_classes}")
        if class_names and len(class_names) != num_classes:
            raise ValueError(f"{num_classes} classes, {len(class_names)} class names")
        self._index = RowIndex(row_ids)
        rows = len(self._index)
        self.epochs = epochs
        self.num_classes = num_classes
        self.class_names = tuple(class_names)
        self.epoch = 0
        self._labels = np.full(rows, -1, dtype=np.int64)
        self._gold_sum = zeros((rows, epochs))
        self._margin_sum = zeros((rows, epochs))
        self._times = zeros((rows, epochs), np.int32)
        self._predicted = zeros((rows, epochs), np.int32)
        self._predicted[:] = -1
        self._logit_sum = zeros((rows, epochs, num_classes), np.float32) if keep_logits else None
        if labels is not None:
            self._assign(np.arange(rows), np.asarray(labels))

    def __len__(self) -> int:
        return len(self._index)

    @property
    def row_ids(self) -> npt.NDArray[Any]:
        return self._index.ids

    @property
    def labels(self) -> npt.NDArray[np.int64]:
        """The label each row is trained with, −1 where not known yet."""
        return self._labels.copy()

    def record(
        self,
        ids: RowIds,
        logits: npt.ArrayLike,
        labels: npt.ArrayLike | None = None,
        *,
        epoch: int | None = None,
    ) -> None:
        """One batch by row id: logits [B, C]; `epoch` counts from 0 and is the current one if left out."""
        self.record_positions(self._index.positions(ids), logits, labels, epoch=epoch)

    def record_positions(
        self,
        positions: npt.ArrayLike,
        logits: npt.ArrayLike,
        labels: npt.ArrayLike | None = None,
        *,
        epoch: int | None = None,
    ) -> None:
        """One batch by the rows' places in `row_ids`: the same without the look-up."""
        rows = np.asarray(positions)
        z = np.asarray(logits)
        at = self.epoch if epoch is None else epoch
        if not 0 <= at < self.epochs:
            raise ValueError(f"epoch {at} is outside the {self.epochs} epochs of this recorder (0-based)")
        if rows.ndim != 1 or (len(rows) and rows.dtype.kind not in "iu"):
            raise ValueError(f"positions must be a flat array of integers, got {rows.dtype} {rows.shape}")
        if z.shape != (len(rows), self.num_classes):
            expected = f"[{len(rows)}, {self.num_classes}]"
            raise ValueError(f"logits must be {expected} (rows, classes), got {list(z.shape)}")
        if not len(rows):
            return
        if rows.min() < 0 or rows.max() >= len(self):
            raise ValueError(f"positions must lie in 0..{len(self) - 1}, got {rows.min()}..{rows.max()}")
        y = self._labels[rows] if labels is None else np.asarray(labels)
        if labels is None and y.min() < 0:
            unknown = self.row_ids[rows[np.argmin(y)]].item()
            raise ValueError(f"the label of row {unknown!r} is not known: give labels")
        seen = observe(z, y)
        if labels is not None:
            self._assign(rows, y)
        # `add.at` and not `+=`: a row may stand twice in a batch.
        np.add.at(self._gold_sum[:, at], rows, seen.gold_probability)
        np.add.at(self._margin_sum[:, at], rows, seen.margin)
        np.add.at(self._times[:, at], rows, 1)
        self._predicted[rows, at] = seen.predicted
        if self._logit_sum is not None:
            np.add.at(self._logit_sum[:, at], rows, z.astype(np.float32))

    def next_epoch(self) -> None:
        """The following `record` calls belong to the next epoch."""
        self.epoch += 1

    def dynamics(self) -> TrainingDynamics:
        """What was recorded so far, up to the last epoch with an observation."""
        recorded = np.flatnonzero(self._times.any(axis=0))
        end = int(recorded[-1]) + 1 if len(recorded) else 0
        times = self._times[:, :end]
        # 0/0 is the NaN of an unseen row; a sum over one observation is that observation, bit for bit.
        with np.errstate(invalid="ignore"):
            gold = np.divide(self._gold_sum[:, :end], times, out=zeros(times.shape))
            margin = np.divide(self._margin_sum[:, :end], times, out=zeros(times.shape))
            logits = None if self._logit_sum is None else self._logit_sum[:, :end] / times[..., None]
        predicted = self._predicted[:, :end].copy()
        correct = (predicted == self._labels[:, None]) & (times > 0)
        kept = None if logits is None else logits.astype(np.float32)
        return TrainingDynamics(
            self.row_ids, self.labels, gold, margin, correct, predicted, self.class_names, kept
        )

    def latest_logits(self, before: int | None = None) -> npt.NDArray[np.float32]:
        """The logits of the latest epoch in which each row was seen, [N, C]; NaN where it never was.

        With `before`, of the epochs before that one: what an epoch under way has recorded so far is left out.

        >>> recorder = DynamicsRecorder(["a", "b"], [0, 0], epochs=2, num_classes=2, keep_logits=True)
        >>> recorder.record(["a"], [[2.0, 0.0]])
        >>> recorder.record(["a"], [[3.0, 0.0]], epoch=1)
        >>> recorder.latest_logits().tolist(), recorder.latest_logits(before=1).tolist()
        ([[3.0, 0.0], [nan, nan]], [[2.0, 0.0], [nan, nan]])
        """
        if self._logit_sum is None:
            raise ValueError("the logits were not kept: make the recorder with keep_logits=True")
        seen = self._times > 0
        seen[:, self.epochs if before is None else before :] = False
        last = self.epochs - 1 - np.argmax(seen[:, ::-1], axis=1)
        every = np.arange(len(self))
        times = self._times[every, last].astype(np.float32)
        with np.errstate(invalid="ignore"):
            logits = np.asarray(self._logit_sum[every, last] / times[:, None], dtype=np.float32)
        logits[~seen.any(axis=1)] = np.nan
        return logits

    def state(self) -> dict[str, npt.NDArray[Any]]:
        """Everything recorded, as numeric arrays for a checkpoint (`np.savez` or safetensors)."""
        state: dict[str, npt.NDArray[Any]] = {
            "rows": self._fingerprint.copy(),
            "num_classes": np.array([self.num_classes]),
            "epoch": np.array([self.epoch]),
            "labels": self._labels.copy(),
            "gold_sum": self._gold_sum.copy(),
            "margin_sum": self._margin_sum.copy(),
            "times": self._times.copy(),
            "predicted": self._predicted.copy(),
        }
        if self._logit_sum is not None:
            state["logit_sum"] = self._logit_sum.copy()
        return state

    def load_state(self, state: State) -> None:
        """Continue from `state()`: the recorder holds the same bits as the one that wrote it."""
        self._check(state)
        self.epoch = int(state["epoch"][0])
        self._labels[:] = state["labels"]
        self._gold_sum[:] = state["gold_sum"]
        self._margin_sum[:] = state["margin_sum"]
        self._times[:] = state["times"]
        self._predicted[:] = state["predicted"]
        if self._logit_sum is not None:
            self._logit_sum[:] = state["logit_sum"]

    def merge(self, others: Iterable[DynamicsRecorder | State]) -> None:
        """Add what other processes recorded about the same rows: recorders, or their `state()`.

        A row that several processes saw in one epoch is averaged over all of them; rows that a sampler
        repeats only to fill a batch must not be recorded in the first place.
        """
        for other in others:
            state = other.state() if isinstance(other, DynamicsRecorder) else other
            self._check(state)
            known = np.flatnonzero(np.asarray(state["labels"]) >= 0)
            self._assign(known, np.asarray(state["labels"])[known])
            self._gold_sum += state["gold_sum"]
            self._margin_sum += state["margin_sum"]
            self._times += state["times"]
            np.copyto(self._predicted, state["predicted"], where=np.asarray(state["times"]) > 0)
            if self._logit_sum is not None:
                self._logit_sum += state["logit_sum"]
            self.epoch = max(self.epoch, int(state["epoch"][0]))

    def _assign(self, rows: npt.NDArray[Any], labels: npt.NDArray[Any]) -> None:
        if labels.shape != rows.shape or (len(labels) and labels.dtype.kind not in "iu"):
            raise ValueError(f"labels must be {len(rows)} integers, got {labels.dtype} {labels.shape}")
        if not len(labels):
            return
        if labels.min() < 0 or labels.max() >= self.num_classes:
            span = f"{labels.min()}..{labels.max()}"
            raise ValueError(f"labels must lie in 0..{self.num_classes - 1}, got {span}")
        before = self._labels[rows]
        self._labels[rows] = np.where(before < 0, labels, before)
        conflict = np.flatnonzero(self._labels[rows] != labels)
        if len(conflict):
            row = rows[conflict[0]]
            given, other = int(labels[conflict[0]]), int(self._labels[row])
            self._labels[rows] = before
            # A margin against two different labels is the margin of neither.
            raise ValueError(f"row {self.row_ids[row].item()!r} has label {other}, {given} was given")

    @cached_property
    def _fingerprint(self) -> npt.NDArray[np.uint8]:
        digest, rows = hashlib.sha256(), len(self)
        for start in range(0, rows, ROWS_HASHED):
            part = self.row_ids[start : start + ROWS_HASHED].tolist()
            end = "\n" if start + ROWS_HASHED < rows else ""
            digest.update(("\n".join(map(str, part)) + end).encode())
        return np.frombuffer(digest.digest(), dtype=np.uint8).copy()

    def _check(self, state: State) -> None:
        if not np.array_equal(state["rows"], self._fingerprint):
            raise ValueError("the state was recorded on other rows")
        if state["gold_sum"].shape != self._gold_sum.shape:
            ours, theirs = self._gold_sum.shape[1], state["gold_sum"].shape[1]
            raise ValueError(f"the state was recorded for {theirs} epochs, this recorder has {ours}")
        ours_kept, theirs_kept = self._logit_sum is not None, "logit_sum" in state
        if ours_kept != theirs_kept:
            raise ValueError("keep_logits must be the same in the state and in this recorder")
        if int(state["num_classes"][0]) != self.num_classes:
            # The margins of a head widened by a fake class are not those of the plain head.
            theirs = int(state["num_classes"][0])
            raise ValueError(f"the state was recorded with {theirs} classes, here are {self.num_classes}")
