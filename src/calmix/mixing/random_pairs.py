"""What all methods with random pairs share: partners, and pairs of texts of one length."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from torch import Tensor

from calmix.mixing.mixing_method import MixingMethod
from calmix.mixing.padding import PADDINGS, pad_pairs
from calmix.mixing.pairing import random_involution
from calmix.mixing.step import Mix, Step
from calmix.user_error import UserError


@dataclass(frozen=True)
class RandomPairs(MixingMethod):
    """λ ~ Beta(α, α), partners by a random involution of the batch."""

    pairs: ClassVar[str] = "random involution"

    padding: str = "sep-pair"
    """How the texts of a pair get the same length where words are mixed."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.padding not in PADDINGS:
            raise UserError(f"padding is {self.padding!r}", remedy=f"choose one of {', '.join(PADDINGS)}")

    def draw_partner(self, step: Step) -> Tensor:
        if self.alpha == 0:
            return step.tensor(np.arange(step.rows))
        padding = step.rows - step.real_rows
        return step.tensor(random_involution(step.real_rows, step.moment.of_batch("pairs"), padding=padding))

    def forward_mixed(self, step: Step, depth: int, partner: Tensor, ratio: Tensor) -> Tensor:
        """Logits of the rows mixed at a depth. Below the head the texts of a pair need one length."""
        if depth == step.head:
            return step.forward(Mix(depth, partner, ratio))
        padded = pad_pairs(
            step.inputs,
            partner,
            ratio,
            variant=self.padding,
            fillers=step.fillers,
            longest=step.longest,
            first_position=step.first_position,
        )
        # Positions are distinguished at the words only; deeper down they have seen each other.
        return step.forward(Mix(depth, partner, padded.ratio if depth == 0 else ratio), padded.inputs)
