"""The sampler of training batches, and the keys that rows carry through a batch.

The batches do not depend on the number of processes or of accumulation steps: process r of w takes batches
r, r + w, r + 2w, ..., which is what one process with w accumulation steps takes in one step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import cycle, islice, repeat
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from calmix.data.batches.epoch_order import epoch_batches
from calmix.data.batches.grouped import RowGroups, grouped_epoch_batches


class RowKey(NamedTuple):
    """How a sampler asks for a row, and what the row must know about its place in the epoch."""

    position: int
    batch: int
    is_padding: bool = False
    """A repeated row that only fills up the last batches of several processes: trained with weight 0."""
    group: int = 0
    """The group of rows that it stands for, where a method has groups."""
    epoch: int = 0
    """Decides how an image is cropped, flipped and turned."""


class RowDataset(Protocol):
    def __len__(self) -> int: ...
    def __getitem__(self, position: int, /) -> dict[str, Any]: ...


@dataclass
class EpochBatchSampler:
    """A batch sampler whose epoch is set from outside and whose batches depend on (seed, epoch) alone.

    With several processes every batch must be full and their number divisible: repeated rows, marked as
    padding, fill them up. They are trained with weight 0 and never recorded. They are different rows all the
    same: batch normalisation sees them.
    """

    rows: int
    batch_size: int
    seed: int
    lengths: NDArray[np.int64] | None = None
    processes: int = 1
    drop_last: bool = False
    groups: RowGroups | None = None
    """Groups of rows that stand side by side in every batch; `rows` is then those of an epoch."""
    epoch: int = field(default=0, init=False)

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def __len__(self) -> int:
        batches = self.rows // self.batch_size if self.drop_last else -(-self.rows // self.batch_size)
        if self.processes > 1:
            whole = batches // self.processes
            batches = (whole if self.drop_last else -(-batches // self.processes)) * self.processes
        return batches

    def __iter__(self) -> Iterator[list[RowKey]]:
        batches = self._batches()
        for number in range(len(self)):
            rows = _pairs(batches[number]) if number < len(batches) else []
            keys = [RowKey(position, number, epoch=self.epoch, group=group) for position, group in rows]
            if self.processes > 1:
                keys += [
                    RowKey(position, number, is_padding=True, epoch=self.epoch, group=group)
                    for position, group in islice(cycle(_pairs(batches[0])), self.batch_size - len(keys))
                ]
            yield keys

    def _batches(self) -> Sequence[tuple[NDArray[np.int64], NDArray[np.int64] | None]]:
        """Positions and groups of the rows of every batch, as arrays: an epoch may hold millions."""
        drawn: dict[str, Any] = {"seed": self.seed, "epoch": self.epoch, "lengths": self.lengths}
        if self.groups is None:
            plain = epoch_batches(self.rows, self.batch_size, drop_last=self.drop_last, **drawn)
            return [(batch, None) for batch in plain]
        grouped = grouped_epoch_batches(self.groups, self.batch_size, **drawn)
        return [(batch.positions, batch.groups) for batch in grouped]


def _pairs(batch: tuple[NDArray[np.int64], NDArray[np.int64] | None]) -> list[tuple[int, int]]:
    """(position, group) of the rows of a batch."""
    positions, groups = batch
    return list(zip(positions.tolist(), repeat(0) if groups is None else groups.tolist(), strict=False))


@dataclass(frozen=True)
class KeyedRows:
    """Any map-style dataset, asked with `RowKey`s; each row comes with its key.

    A dataset whose rows look different in every epoch has `in_epoch(position, epoch)`.
    """

    rows: RowDataset

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, key: RowKey) -> tuple[RowKey, dict[str, Any]]:
        in_epoch = getattr(self.rows, "in_epoch", None)
        return key, self.rows[key.position] if in_epoch is None else in_epoch(key.position, key.epoch)


@dataclass(frozen=True)
class BatchKeys:
    """Where the rows of a batch come from.

    Plain arrays, not tensors: they stay on the CPU, where they are used, without a copy from the device.
    """

    positions: NDArray[np.int64]
    number: int
    real: int
    """The first `real` rows count; what follows is padding."""
    groups: NDArray[np.int64]
    """The number of the group that each row stands for."""

    NAME: ClassVar[str] = "row_keys"
    """Under this name the keys travel in a batch."""


@dataclass(frozen=True)
class KeyedCollator:
    """Any collator, plus the `BatchKeys` of the rows."""

    collator: Callable[[list[dict[str, Any]]], Mapping[str, Any]]
    accepted: frozenset[str] | None = None
    """The names of features to keep; None keeps all."""

    def __call__(self, keyed: Sequence[tuple[RowKey, dict[str, Any]]]) -> dict[str, Any]:
        keys = [key for key, _ in keyed]
        features = [
            {name: value for name, value in row.items() if self.accepted is None or name in self.accepted}
            for _, row in keyed
        ]
        batch_keys = BatchKeys(
            positions=np.array([key.position for key in keys], dtype=np.int64),
            number=keys[0].batch,
            real=sum(not key.is_padding for key in keys),
            groups=np.array([key.group for key in keys], dtype=np.int64),
        )
        return {**self.collator(features), BatchKeys.NAME: batch_keys}


def row_lengths(rows: RowDataset) -> NDArray[np.int64] | None:
    """Token counts of a dataset's rows, where it can tell them without being read row by row."""
    lengths = getattr(rows, "lengths", None)
    if lengths is not None:
        return np.asarray(lengths, dtype=np.int64)
    column_names = getattr(rows, "column_names", None)
    if isinstance(column_names, list) and "input_ids" in column_names:
        column = rows["input_ids"]  # type: ignore[index]
        return np.fromiter((len(ids) for ids in column), dtype=np.int64, count=len(rows))
    return None
