"""What all methods with random pairs share: λ, partners and mixed targets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from torch import Tensor

from calmix.mixing.method import Method
from calmix.mixing.padding import PADDINGS, pad_pairs
from calmix.mixing.pairing import random_involution
from calmix.mixing.ratio import draw_ratio
from calmix.mixing.step import Mix, Step
from calmix.mixing.targets import mixed
from calmix.user_error import UserError

SCOPES = ("batch", "sample", "epoch")


@dataclass(frozen=True)
class RandomPairs(Method):
    """λ ~ Beta(α, α), partners by a random involution of the batch."""

    pairs: ClassVar[str] = "random involution"

    alpha: float = 0.4
    """λ is drawn from Beta(α, α); 0 mixes nothing."""
    ratio_scope: str = "batch"
    """One λ for each optimiser step ("batch"), for each row ("sample") or for each epoch."""
    ratio_fold: bool = False
    """max(λ, 1 − λ) instead of λ."""
    padding: str = "sep-pair"
    """How the texts of a pair get the same length where words are mixed."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not np.isfinite(self.alpha) or self.alpha < 0:
            raise UserError(f"alpha is {self.alpha}", remedy="give a number of at least 0, such as 0.4")
        if self.ratio_scope not in SCOPES:
            raise UserError(
                f"ratio_scope is {self.ratio_scope!r}", remedy=f"choose one of {', '.join(SCOPES)}"
            )
        if self.padding not in PADDINGS:
            raise UserError(f"padding is {self.padding!r}", remedy=f"choose one of {', '.join(PADDINGS)}")

    def draw_partner(self, step: Step) -> Tensor:
        if self.alpha == 0:
            return step.tensor(np.arange(step.rows))
        padding = step.rows - step.real_rows
        return step.tensor(random_involution(step.real_rows, step.moment.of_batch("pairs"), padding=padding))

    def draw_ratio(self, step: Step) -> Tensor:
        moment, scope = step.moment, self.ratio_scope
        if scope == "sample":
            generator, size = moment.of_batch("ratio"), step.rows
        else:
            generator, size = moment.of_step("ratio") if scope == "batch" else moment.of_epoch("ratio"), None
        return step.tensor(draw_ratio(self.alpha, generator, size=size, fold=self.ratio_fold))

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
        # Positions are told apart at the words only; deeper down they have seen each other.
        return step.forward(Mix(depth, partner, padded.ratio if depth == 0 else ratio), padded.inputs)

    def mixed_targets(self, step: Step, partner: Tensor, ratio: Tensor) -> Tensor:
        return mixed(self.targets(step), partner, ratio)
