"""Batches that hold rows of several groups side by side: easy and ambiguous, high and low AUM.

A guided method mixes rows of different groups, so every batch needs rows of each. As for plain batches, the
order is a pure function of (seed, epoch) and rows of similar length stand together.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from calmix.data.batches.epoch_order import BUCKET_BATCHES
from calmix.runtime.randomness import stream

Positions = NDArray[np.int64]
Cover = Literal["all", "shortest", "longest", "even"]


@dataclass(frozen=True, eq=False)
class RowGroups:
    """Positions of training rows, group by group. A row may be in several groups.

    `cover` says how long an epoch is. "all": every row of every group once. "shortest": as many rows of each
    group as the smallest one has, drawn each epoch. "longest": as many as the largest one has; the
    smaller groups are gone through again, in a new order each time. "even": as long as "all", with as
    many rows of each group.
    """

    names: tuple[str, ...]
    positions: tuple[Positions, ...]
    cover: Cover = "all"

    def __post_init__(self) -> None:
        if len(self.names) != len(self.positions):
            raise ValueError(f"{len(self.names)} names for {len(self.positions)} groups")

    def fingerprint(self) -> str:
        """A hash of which rows are in which group."""
        digest = hashlib.sha256(repr((self.names, self.cover)).encode())
        for rows in self.positions:
            digest.update(np.int64(len(rows)).tobytes() + rows.astype(np.int64).tobytes())
        return digest.hexdigest()

    @property
    def sizes(self) -> dict[str, int]:
        return {name: len(rows) for name, rows in zip(self.names, self.positions, strict=True)}

    @property
    def rows_per_epoch(self) -> int:
        return sum(self.rows_per_group)

    @property
    def rows_per_group(self) -> list[int]:
        """How many rows of each group an epoch has.

        >>> RowGroups(("rare", "common"), (np.arange(1), np.arange(1, 6)), cover="even").rows_per_group
        [3, 3]
        """
        sizes = [len(rows) for rows in self.positions]
        if self.cover == "all":
            return sizes
        if self.cover == "even":
            share, rest = divmod(sum(sizes), len(sizes))
            return [share + (place < rest) for place in range(len(sizes))]
        return [min(sizes) if self.cover == "shortest" else max(sizes)] * len(sizes)


@dataclass(frozen=True, eq=False)
class GroupedBatch:
    """Positions of rows, and the number of the group that each stands for."""

    positions: Positions
    groups: Positions


def grouped_epoch_batches(
    groups: RowGroups,
    batch_size: int,
    *,
    seed: int,
    epoch: int,
    lengths: NDArray[np.int64] | None = None,
) -> list[GroupedBatch]:
    """Batches in which every group has its share, give or take a row; a short batch comes last.

    The j-th of the n rows of a group stands at (j + ½)/n of the epoch, which is then cut into batches.

    >>> groups = RowGroups(("low", "high"), (np.array([0, 1, 2]), np.array([3, 4, 5])))
    >>> batches = grouped_epoch_batches(groups, 2, seed=0, epoch=0)
    >>> [batch.groups.tolist() for batch in batches]
    [[0, 1], [0, 1], [0, 1]]
    """
    generator = stream(seed, "order", epoch)
    total = groups.rows_per_epoch
    orders: list[Positions] = []
    places, numbers = [], []
    for number, (rows, count) in enumerate(zip(groups.positions, groups.rows_per_group, strict=True)):
        if count == 0:
            continue
        rounds = [rows[one] for one in _rounds(len(rows), count, generator)]
        if lengths is not None:
            # Windows of the same share of the epoch in every group: their rows meet in the same batches.
            # None crosses a round: sorted by length, a row and its copy would be neighbours.
            window = max(-(-count * BUCKET_BATCHES * batch_size // total), 1)
            rounds = [_longest_first(part, lengths) for one in rounds for part in _windows(one, window)]
        orders.append(np.concatenate(rounds))
        places.append((np.arange(count) + 0.5) / count)
        numbers.append(np.full(count, number))
    if not orders:
        return []
    group_of = np.concatenate(numbers)
    order = np.lexsort((group_of, np.concatenate(places)))
    positions, group_of = np.concatenate(orders)[order], group_of[order]
    batches = [
        GroupedBatch(positions[start : start + batch_size], group_of[start : start + batch_size])
        for start in range(0, total, batch_size)
    ]
    whole = total // batch_size
    return [batches[i] for i in generator.permutation(whole)] + batches[whole:]


def _rounds(rows: int, count: int, generator: np.random.Generator) -> list[Positions]:
    """`count` of the numbers below `rows`, in rounds: none comes a second time before all have come once.

    >>> [sorted(one.tolist()) for one in _rounds(2, 4, np.random.default_rng(0))]
    [[0, 1], [0, 1]]
    """
    starts = range(0, count, rows)
    return [generator.permutation(rows)[: count - start] for start in starts]


def _windows(order: Positions, size: int) -> list[Positions]:
    return [order[start : start + size] for start in range(0, len(order), size)]


def _longest_first(rows: Positions, lengths: NDArray[np.int64]) -> Positions:
    return rows[np.argsort(-lengths[rows], kind="stable")]
