"""Mixup at a depth that is drawn for every step.

One depth k is drawn uniformly from a set S: 0 mixes the word embeddings, k = 1..n the output of encoder
layer k, n + 1 the features before the last layer. Where words or layers are mixed, the texts of a pair are
padded to one length as in input mixup; at the head they are not. Only mixed rows are trained on.

    h~_k = λ h_k + (1 − λ) h_k[partner],   loss = CE(h~_k, λ y + (1 − λ) y[partner])

S = {0} is input mixup and S = {n + 1} is CLS mixup, draw for draw.

Reference: Zhang & Vaidya 2021; Verma et al., ICML 2019. The paper does not state S; all depths by default.
Needs: nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from calmix.mixing.mixing_method import RandomPairs
from calmix.mixing.step import MixedRows, RowLosses, Step
from calmix.user_error import UserError


@dataclass(frozen=True)
class ManifoldMixup(RandomPairs):
    name: ClassVar[str] = "manifold-mixup"
    summary: ClassVar[str] = "mixes at a random depth: embeddings, a layer, or the head"
    citation: ClassVar[str] = "Zhang & Vaidya 2021; Verma et al., ICML 2019"
    multi_label: ClassVar[bool] = True
    mix_point: ClassVar[str] = "one of 0..n+1 per step"

    layers: tuple[int, ...] | None = None
    """The set S of depths; all of 0..n+1 if left out."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.layers is not None:
            if not self.layers:
                raise UserError(
                    "layers is empty", remedy="name at least one depth, such as layers=[7, 9, 12]"
                )
            object.__setattr__(self, "layers", tuple(int(layer) for layer in self.layers))

    def depths(self, head: int) -> Sequence[int]:
        return range(head + 1) if self.layers is None else self.layers

    def draw_depth(self, step: Step) -> int:
        return int(step.moment.of_step("depth").choice(self.depths(step.head)))

    def losses(self, step: Step) -> RowLosses:
        partner, ratio = self.draw_partner(step), self.draw_ratio(step)
        logits = self.forward_mixed(step, self.draw_depth(step), partner, ratio)
        losses = step.losses_of(logits, self.mixed_targets(step, partner, ratio))
        return RowLosses(losses, logits=None, mixed=MixedRows(logits, partner, ratio))
