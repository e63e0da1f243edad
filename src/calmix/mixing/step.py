"""What a method sees of one micro-batch, and what it gives back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from calmix.mixing.bank import SaliencyBank
from calmix.mixing.losses import binary_cross_entropy, cross_entropy
from calmix.mixing.target_mass import TargetMass
from calmix.mixing.targets import mixed, mixed_pairs
from calmix.runtime.randomness import stream

EMBEDDINGS = 0
"""The depth of the word embeddings, or of the pixels."""


@dataclass(frozen=True)
class Moment:
    """When a micro-batch is trained on. All draws are functions of it, and of nothing else."""

    seed: int
    epoch: int
    step: int
    """Optimiser steps done so far: the same for all micro-batches and processes of a step."""
    batch: int
    """The micro-batch's number in the epoch: different in every process."""

    def of_epoch(self, purpose: str) -> np.random.Generator:
        return stream(self.seed, purpose, self.epoch)

    def of_step(self, purpose: str) -> np.random.Generator:
        return stream(self.seed, purpose, self.step)

    def of_batch(self, purpose: str) -> np.random.Generator:
        return stream(self.seed, purpose, self.epoch, self.batch)


@dataclass(frozen=True)
class Mix:
    """Rows meet at a depth of the network: h becomes λ h + (1 − λ) h[partner].

    Depth 0 is the embeddings, k the output of layer k, and `Step.head` the features before the last layer.
    With `keep_originals` the network goes on with both, the rows as they were and the mixed ones behind
    them: logits [2 rows, classes] for the price of one encoding.
    """

    depth: int
    partner: Tensor
    ratio: Tensor
    keep_originals: bool = False

    def __call__(self, hidden: Tensor) -> Tensor:
        if len(hidden) == 1 < len(self.partner):
            return hidden  # one embedding, such as that of a segment, spread over all rows later
        both = mixed(hidden, self.partner, self.ratio)
        return torch.cat([hidden, both]) if self.keep_originals else both


@dataclass(frozen=True)
class PairMix:
    """Rows meet the rows of `others` at the inputs: h becomes λ h + (1 − λ) h(others).

    The network embeds both and goes on with as many rows as there are pairs.
    """

    others: Mapping[str, Any]
    """Inputs of the same form as those that are forwarded: the partner of every row."""
    ratio: Tensor
    """One for each pair, or one for each position."""
    depth: int = EMBEDDINGS

    def __call__(self, hidden: Tensor) -> Tensor:
        """`hidden`: the rows, and behind them their partners."""
        return mixed_pairs(hidden, len(self.ratio), self.ratio)


@dataclass
class Watch:
    """Passes activations through unchanged at a depth and keeps the first: the words, not the segments."""

    depth: int
    seen: Tensor | None = None

    def __call__(self, hidden: Tensor) -> Tensor:
        if self.seen is None:
            self.seen = hidden
        return hidden


@dataclass
class Shift:
    """Adds to what passes first at a depth: h becomes h + by."""

    depth: int
    by: Tensor
    is_done: bool = False

    def __call__(self, hidden: Tensor) -> Tensor:
        if self.is_done:
            return hidden
        self.is_done = True
        return hidden + self.by


class HiddenTransform(Protocol):
    """Changes, or looks at, the hidden states at a depth."""

    @property
    def depth(self) -> int: ...
    def __call__(self, hidden: Tensor, /) -> Tensor: ...


class ForwardPass(Protocol):
    """The network in training, on the rows of a micro-batch."""

    def __call__(
        self,
        cut: HiddenTransform | Sequence[HiddenTransform] | None = None,
        inputs: Mapping[str, Any] | None = None,
    ) -> Tensor:
        """Logits [rows, classes] of the rows as they are, or with what passes at some depths changed."""
        ...

    def evaluating(self) -> AbstractContextManager[None]:
        """Without dropout, and outside of what is trained: for gradients in the inputs."""
        ...

    @property
    def last_weight(self) -> Tensor:
        """The weight of the last linear layer, [classes, features]."""
        ...


@dataclass(frozen=True)
class Step:
    """One micro-batch in training."""

    labels: Tensor
    """Class indices, [rows]; of rows with several labels 0 and 1, [rows, labels]."""
    num_classes: int
    forward: ForwardPass
    """`forward()`, `forward(mix)` or `forward(mix, inputs)`: logits [rows, classes]."""
    moment: Moment = Moment(0, 0, 0, 0)
    inputs: Mapping[str, Any] = field(default_factory=dict)
    real: int | None = None
    """The first `real` rows count; what follows is padding. None: all do."""
    head: int = 1
    """The depth of the features that go into the last layer."""
    fillers: Mapping[str, int] = field(default_factory=dict)
    """Tokens to pad pairs with: "sep", "unused" and "pad"."""
    longest: int | None = None
    """Tokens of the longest training row."""
    first_position: int | None = None
    """The padding index from which a network numbers positions, where it does so."""
    groups: NDArray[np.int64] | None = None
    """The number of the group that each row stands for, where the method has groups."""
    positions: NDArray[np.int64] | None = None
    """Which training row each row is: one may be in a batch twice, as a row of two groups."""
    bank: SaliencyBank | None = None
    """The logits of all rows in the epoch before, if the method needs them."""
    mass: TargetMass | None = None
    """What the targets are multiplied with, where rows or classes have weights."""

    is_multi_label: bool = False
    """Whether rows have several labels, or none: each label has a probability of its own."""

    def losses_of(self, logits: Tensor, targets: Tensor) -> Tensor:
        """The loss of every row: cross-entropy over classes, or the mean over labels."""
        return (binary_cross_entropy if self.is_multi_label else cross_entropy)(logits, targets)

    @property
    def plain_targets(self) -> Tensor:
        """The targets without smoothing: class indices, or masses of classes where there are weights."""
        return self.labels if self.mass is None else self.mass.of(self.labels, self.positions)

    @property
    def rows(self) -> int:
        return len(self.labels)

    @property
    def real_rows(self) -> int:
        return self.rows if self.real is None else self.real

    def of_group(self, number: int) -> NDArray[np.int64]:
        """The real rows of a group, as places in the batch."""
        assert self.groups is not None
        return np.flatnonzero(self.groups[: self.real_rows] == number)

    def tensor(self, values: Any) -> Tensor:
        """Numbers as a tensor on the device of the batch; floating ones in single precision."""
        made = torch.as_tensor(values)
        # Single precision before the move: not every device has double.
        return (made.float() if made.is_floating_point() else made).to(self.labels.device)


@dataclass(frozen=True)
class MixedPairs:
    """Rows that were mixed at the head, for the report: λ of `first` and 1 − λ of `second`."""

    kind: str
    first: Tensor
    """Places in the batch."""
    second: Tensor
    """Places in the batch, or positions of training rows if `from_bank`."""
    ratio: Tensor
    targets: Tensor
    from_bank: bool = False


@dataclass(frozen=True)
class MixedRows:
    """Logits of rows that were forwarded mixed, each standing for λ of itself and 1 − λ of its partner."""

    logits: Tensor
    partner: Tensor
    ratio: Tensor
    """One number, or one for each row."""


@dataclass(frozen=True)
class RowLosses:
    """The loss of every row, and the logits of the unmixed rows."""

    losses: Tensor
    """[rows]; the trainer takes the mean over all rows of the optimiser step."""
    logits: Tensor | None
    """Logits of the original rows, for the dynamics; None where only mixed rows were forwarded."""
    pairs: tuple[MixedPairs, ...] = ()
    """Some of them are kept for the report."""
    tally: Mapping[str, Tensor | int] = field(default_factory=dict)
    """Counts that are summed over an epoch, such as ties."""
    mixed: MixedRows | None = None
    """Where only mixed rows were forwarded: their logits. A student learns from them."""
