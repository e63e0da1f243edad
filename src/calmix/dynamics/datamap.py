"""The data map: five numbers per row that summarise its training dynamics."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from calmix.dynamics.regions import Regions, partition_regions, top_fraction_regions
from calmix.dynamics.training_dynamics import TrainingDynamics
from calmix.user_error import UserError

if TYPE_CHECKING:
    from pathlib import Path

    from calmix.dynamics.recorder import DynamicsRecorder

CHUNK_ROWS = 1 << 18
"""Rows whose epochs are computed with at a time."""
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class DataMap:
    """Per row, over the epochs in which it was seen (NaN where it never was, or the source does not tell):

        confidence    μ = mean_e p_e(y)                   high: easy to learn
        variability   σ = sqrt(mean_e (p_e(y) − μ)²)      high: ambiguous; 0 if seen in one epoch only
        correctness   number of epochs predicted right
        forgetting    number of times right turned to wrong from one epoch to the next
        aum           mean_e M_e, the area under the margin; low: probably mislabelled

    A row that was never right has no forgetting events (correctness 0 tells it from one always right).

    Swayamdipta et al. 2020 (confidence, variability, correctness), Toneva et al. 2019 (forgetting),
    Pleiss et al. 2020 (AUM).

    >>> logits = [[[2.0, 0.0], [0.0, 1.0], [4.0, 0.0]]]  # one row, three epochs
    >>> datamap = DataMap.from_dynamics(TrainingDynamics.from_logits(logits, [0]))
    >>> datamap.correctness.tolist(), datamap.forgetting.tolist(), datamap.aum.round(4).tolist()
    ([2.0], [1.0], [1.6667])
    """

    row_ids: npt.NDArray[Any]
    labels: npt.NDArray[np.int64]  # −1 where unknown
    confidence: Floats
    variability: Floats
    correctness: Floats
    forgetting: Floats
    aum: Floats
    epochs_seen: npt.NDArray[np.int64]
    class_names: tuple[str, ...] = ()
    predicted_label: npt.NDArray[np.int64] | None = None  # the class predicted most often, −1 where unseen

    def __len__(self) -> int:
        return len(self.row_ids)

    @property
    def num_classes(self) -> int:
        """From the class names, or the largest label where there are none."""
        return len(self.class_names) or int(self.labels.max(initial=-1)) + 1

    @classmethod
    def from_dynamics(cls, dynamics: TrainingDynamics) -> DataMap:
        starts = range(0, max(len(dynamics), 1), CHUNK_ROWS)
        parts = [_scores(dynamics, slice(start, start + CHUNK_ROWS)) for start in starts]
        columns = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
        return cls(dynamics.row_ids, dynamics.labels, class_names=dynamics.class_names, **columns)

    @classmethod
    def from_recorder(cls, recorder: DynamicsRecorder) -> DataMap:
        return cls.from_dynamics(recorder.dynamics())

    @classmethod
    def unknown(cls, rows: int) -> DataMap:
        """A map that knows nothing about its rows."""
        nothing, none = np.full(rows, np.nan), np.zeros(rows, dtype=np.int64)
        return cls(np.arange(rows), none - 1, nothing, nothing, nothing, nothing, nothing, none)

    def select(self, positions: npt.NDArray[np.int64]) -> DataMap:
        """Some of the rows, in the order asked for."""
        changed = {
            field.name: getattr(self, field.name)[positions]
            for field in fields(self)
            if isinstance(getattr(self, field.name), np.ndarray)
        }
        return replace(self, **changed)

    def of_rows(self, row_ids: npt.ArrayLike, source: str | Path | None = None) -> DataMap:
        """The map of these rows, in their order; a `UserError`, which names the `source` of the map, if one
        of them is not on it."""
        wanted, known = (np.asarray(ids).astype(np.str_, copy=False) for ids in (row_ids, self.row_ids))
        places = pc.index_in(pa.array(wanted, pa.string()), value_set=pa.array(known, pa.string()))
        if places.null_count:
            missing = wanted[places.is_null().to_numpy(zero_copy_only=False)]
            raise UserError(
                f"{len(missing)} of {len(wanted)} training rows are not on the data map, "
                f"for example {str(missing[0])!r}",
                file=source,
                remedy="give the map of a plain run on the same rows",
            )
        return self.select(places.to_numpy().astype(np.int64))

    def regions(self, *, fraction: float = 1 / 3, stratify: bool = False, disjoint: bool = False) -> Regions:
        """Cartography's sets, which may overlap: `regions.top_fraction_regions`."""
        self._needs_two_epochs()
        return top_fraction_regions(
            self.confidence,
            self.variability,
            self.row_ids,
            fraction=fraction,
            labels=self.labels,
            stratify=stratify,
            disjoint=disjoint,
        )

    def partition(self, *, fraction: float = 1 / 3, stratify: bool = False) -> Regions:
        """Three distinct sets: `regions.partition_regions`."""
        self._needs_two_epochs()
        return partition_regions(
            self.confidence,
            self.variability,
            self.row_ids,
            fraction=fraction,
            labels=self.labels,
            stratify=stratify,
        )

    @property
    def has_regions(self) -> bool:
        """Whether any row was seen in two epochs: with one, every variability is 0."""
        return bool((self.epochs_seen >= 2).any())

    def _needs_two_epochs(self) -> None:
        if not self.has_regions:
            raise ValueError("regions need the gold probability of at least two epochs")


def forgetting_events(
    correct: npt.NDArray[np.bool_], seen: npt.NDArray[np.bool_] | None = None
) -> npt.NDArray[np.int64]:
    """How often a row goes from right to wrong between two consecutive epochs in which it was seen.

    >>> forgetting_events(np.array([[True, False, True, False], [False, False, True, True]])).tolist()
    [2, 0]
    """
    rows, epochs = correct.shape
    events = np.zeros(rows, dtype=np.int64)
    learnt = np.zeros(rows, dtype=np.bool_)
    for epoch in range(epochs):
        here = np.ones(rows, dtype=np.bool_) if seen is None else seen[:, epoch]
        events += here & learnt & ~correct[:, epoch]
        learnt = np.where(here, correct[:, epoch], learnt)
    return events


def most_predicted(predicted: npt.NDArray[np.int32]) -> npt.NDArray[np.int64]:
    """The class each row was predicted as in most epochs; −1 marks an unseen epoch.

    On ties the class that was predicted first, before a wrong label could be memorised.

    >>> most_predicted(np.array([[1, 0, 0], [1, 0, -1], [-1, -1, -1]])).tolist()
    [0, 1, -1]
    """
    rows, epochs = predicted.shape
    best = np.full(rows, -1, dtype=np.int64)
    votes = np.zeros(rows, dtype=np.int64)
    for epoch in range(epochs):
        candidate = predicted[:, epoch]
        count = np.where(candidate >= 0, (predicted == candidate[:, None]).sum(axis=1), 0)
        better = count > votes
        best[better], votes[better] = candidate[better], count[better]
    return best


def _scores(dynamics: TrainingDynamics, rows: slice) -> dict[str, npt.NDArray[Any]]:
    """The columns of the map for some of the rows."""
    gold, seen = dynamics.gold_probability[rows], ~np.isnan(dynamics.gold_probability[rows])
    times = seen.sum(axis=1)
    never = times == 0
    confidence = _mean(gold, seen, times)
    # Two passes: E[p²] − μ² cancels where p hardly varies.
    deviation = gold - confidence[:, None]
    correct = dynamics.predicted_correctly[rows] & seen
    found = {
        "confidence": confidence,
        "variability": np.sqrt(_mean(deviation * deviation, seen, times)),
        "correctness": np.where(never, np.nan, correct.sum(axis=1)),
        "forgetting": np.where(never, np.nan, forgetting_events(correct, seen)),
        "aum": _mean(dynamics.margin[rows], seen, times),
        "epochs_seen": times,
    }
    if dynamics.predicted_label is not None:
        found["predicted_label"] = most_predicted(dynamics.predicted_label[rows])
    return found


def _mean(values: Floats, seen: npt.NDArray[np.bool_], times: npt.NDArray[np.int64]) -> Floats:
    mean = np.full(len(values), np.nan)
    np.divide(np.where(seen, values, 0.0).sum(axis=1), times, out=mean, where=times > 0)
    return mean
