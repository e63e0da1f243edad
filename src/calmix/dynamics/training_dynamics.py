"""The training dynamics of every row in every epoch: plain arrays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from calmix.dynamics.margins import observe
from calmix.dynamics.row_index import RowIds, as_row_ids

LARGEST = 1e30
"""Of the logits, margins and AUMs that are read: sums and 32-bit copies of far larger ones are infinite."""


@dataclass(frozen=True, eq=False)
class TrainingDynamics:
    """N rows, E epochs. A row that was not seen in an epoch has NaN there (and a false, meaningless flag).

    `labels` are the labels the rows were trained with, −1 where unknown. `predicted_label` is −1 where
    unseen; it is None where a source tells right from wrong but not the class.
    """

    row_ids: npt.NDArray[Any]  # [N], strings or integers
    labels: npt.NDArray[np.int64]  # [N]
    gold_probability: npt.NDArray[np.float64]  # [N, E]
    margin: npt.NDArray[np.float64]  # [N, E]
    predicted_correctly: npt.NDArray[np.bool_]  # [N, E]
    predicted_label: npt.NDArray[np.int32] | None = None  # [N, E]
    class_names: tuple[str, ...] = ()
    logits: npt.NDArray[np.float32] | None = None  # [N, E, C], where they were kept

    def __post_init__(self) -> None:
        shape = self.gold_probability.shape
        if len(shape) != 2 or self.margin.shape != shape or self.predicted_correctly.shape != shape:
            raise ValueError("gold_probability, margin and predicted_correctly must share one [rows, epochs]")
        if len(self.row_ids) != shape[0] or len(self.labels) != shape[0]:
            raise ValueError(
                f"{shape[0]} rows of dynamics, {len(self.row_ids)} ids, {len(self.labels)} labels"
            )

    def __len__(self) -> int:
        return len(self.row_ids)

    @property
    def epochs(self) -> int:
        return int(self.gold_probability.shape[1])

    @property
    def seen(self) -> npt.NDArray[np.bool_]:
        """[N, E]: whether the row was seen in the epoch."""
        return ~np.isnan(self.gold_probability)

    @classmethod
    def from_logits(
        cls,
        logits: npt.ArrayLike,
        labels: npt.ArrayLike,
        *,
        row_ids: RowIds | None = None,
        class_names: tuple[str, ...] = (),
    ) -> TrainingDynamics:
        """From logits [N, E, C] that were kept elsewhere.

        >>> dynamics = TrainingDynamics.from_logits([[[2.0, 0.0], [0.0, 1.0]]], [0])
        >>> dynamics.margin.tolist(), dynamics.predicted_label.tolist()
        ([[2.0, -1.0]], [[0, 1]])
        """
        z = np.asarray(logits)
        if z.ndim != 3:
            raise ValueError(f"logits must be [rows, epochs, classes], got shape {z.shape}")
        y = np.asarray(labels)
        # One epoch at a time: the float64 working copies stay O(N).
        epochs = [observe(z[:, epoch], y) for epoch in range(z.shape[1])]
        columns = [np.stack(column, axis=1) for column in zip(*epochs, strict=True)]
        gold, margin, predicted = columns if columns else [np.empty((len(z), 0)) for _ in range(3)]
        ids = as_row_ids(range(len(z)) if row_ids is None else row_ids)
        return cls(
            ids,
            y.astype(np.int64),
            gold,
            margin,
            predicted == y[:, None],
            predicted.astype(np.int32),
            class_names,
        )
