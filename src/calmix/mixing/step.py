"""What a method sees of one micro-batch, and what it gives back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from calmix.mixing.targets import mixed
from calmix.randomness import stream

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
class Step:
    """One micro-batch in training."""

    labels: Tensor
    """Class indices, [rows]."""
    num_classes: int
    forward: Callable[..., Tensor]
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

    @property
    def rows(self) -> int:
        return len(self.labels)

    @property
    def real_rows(self) -> int:
        return self.rows if self.real is None else self.real

    def tensor(self, values: Any) -> Tensor:
        """Numbers as a tensor on the device of the batch; floating ones in single precision."""
        made = torch.as_tensor(values)
        # Single precision before the move: not every device has double.
        return (made.float() if made.is_floating_point() else made).to(self.labels.device)


@dataclass(frozen=True)
class RowLosses:
    """The loss of every row, and what the network said about the rows themselves."""

    losses: Tensor
    """[rows]; the trainer takes the mean over all rows of the optimiser step."""
    logits: Tensor | None
    """Logits of the original rows, for the dynamics; None where only mixed rows were forwarded."""
