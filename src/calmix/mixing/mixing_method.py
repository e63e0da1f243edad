"""What methods that mix share: λ, mixed targets, pairs of texts padded to one length, random pairs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from calmix.mixing.catalogue import check_alpha
from calmix.mixing.method import Method
from calmix.mixing.padding import PADDINGS, PaddedPairs, pad_pairs
from calmix.mixing.pairing import draw_ratio, random_involution
from calmix.mixing.step import EMBEDDINGS, Mix, PairMix, Step
from calmix.mixing.targets import mixed
from calmix.user_error import UserError

SCOPES = ("batch", "sample", "epoch")


@dataclass(frozen=True)
class MixingMethod(Method):
    """λ ~ Beta(α, α)."""

    alpha: float = 0.4
    """λ is drawn from Beta(α, α); 0 mixes nothing."""
    ratio_scope: str = "batch"
    """One λ for each optimiser step ("batch"), for each row ("sample") or for each epoch."""
    ratio_fold: bool = False
    """max(λ, 1 − λ) instead of λ."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_alpha(self.alpha)
        if self.ratio_scope not in SCOPES:
            raise UserError(
                f"ratio_scope is {self.ratio_scope!r}", remedy=f"choose one of {', '.join(SCOPES)}"
            )

    def draw_ratio(self, step: Step) -> Tensor:
        moment, scope = step.moment, self.ratio_scope
        if scope == "sample":
            generator, size = moment.of_batch("ratio"), step.rows
        else:
            generator, size = moment.of_step("ratio") if scope == "batch" else moment.of_epoch("ratio"), None
        return step.tensor(draw_ratio(self.alpha, generator, size=size, fold=self.ratio_fold))

    def mixed_targets(self, step: Step, partner: Tensor, ratio: Tensor) -> Tensor:
        return mixed(self.targets(step), partner, ratio)


@dataclass(frozen=True)
class PaddedMixing(MixingMethod):
    """Rows meet at any depth of the network: as an involution of the batch, or as pairs in one direction."""

    padding: str = "sep-pair"
    """How the texts of a pair get the same length where words are mixed."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.padding not in PADDINGS:
            raise UserError(f"padding is {self.padding!r}", remedy=f"choose one of {', '.join(PADDINGS)}")

    def forward_mixed(self, step: Step, depth: int, partner: Tensor, ratio: Tensor) -> Tensor:
        """Logits of the rows mixed at a depth with an involution of the batch: one encoding of the batch.

        Below the head the texts of a pair need one length.
        """
        if depth == step.head:
            return step.forward(Mix(depth, partner, ratio))
        padded = self._padded(step, step.inputs, partner, ratio)
        # Positions are distinguished at the words only; deeper down they have seen each other.
        return step.forward(Mix(depth, partner, padded.ratio if depth == 0 else ratio), padded.inputs)

    def forward_pairs(self, step: Step, depth: int, first: Tensor, second: Tensor, ratio: Tensor) -> Tensor:
        """Logits of λ `first` + (1 − λ) `second`, mixed at a depth below the head, [pairs, classes].

        A row may be in several pairs, each with a length of its own. At the inputs every pair is encoded
        once: words and pixels meet before the network sees them. At a layer both members come there on their
        own, so that a pair costs two encodings.
        """
        count = len(first)
        ratio = ratio if ratio.ndim else ratio.expand(count)
        rows = torch.cat([first, second])
        places = torch.arange(2 * count, device=rows.device).roll(count)
        padded = self._padded(step, _chosen(step, rows), places, torch.cat([ratio, 1 - ratio]))
        if depth != EMBEDDINGS:
            return step.forward(Mix(depth, places, torch.cat([ratio, 1 - ratio])), padded.inputs)[:count]
        here, others = ({n: _half(v, half, count) for n, v in padded.inputs.items()} for half in (0, 1))
        return step.forward(PairMix(others, padded.ratio[:count]), here)

    def _padded(self, step: Step, inputs: Mapping[str, Any], partner: Tensor, ratio: Tensor) -> PaddedPairs:
        return pad_pairs(
            inputs,
            partner,
            ratio,
            variant=self.padding,
            fillers=step.fillers,
            longest=step.longest,
            first_position=step.first_position,
        )


@dataclass(frozen=True)
class RandomPairs(PaddedMixing):
    """λ ~ Beta(α, α), partners by a random involution of the batch."""

    pairs: ClassVar[str] = "random involution"

    def draw_partner(self, step: Step) -> Tensor:
        if self.alpha == 0:
            return step.tensor(np.arange(step.rows))
        padding = step.rows - step.real_rows
        return step.tensor(random_involution(step.real_rows, step.moment.of_batch("pairs"), padding=padding))


def _chosen(step: Step, rows: Tensor) -> dict[str, Any]:
    """The inputs of some rows of the batch."""
    return {
        name: value[rows] if isinstance(value, Tensor) and len(value) == step.rows else value
        for name, value in step.inputs.items()
    }


def _half(value: Any, half: int, count: int) -> Any:
    is_of_rows = isinstance(value, Tensor) and len(value) == 2 * count
    return value[half * count : (half + 1) * count] if is_of_rows else value
