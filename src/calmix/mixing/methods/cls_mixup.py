"""Mixup of the sentence features, right before the last layer.

Each row is mixed with a random row of its batch after the encoder (and the pooler, where there is one) and
before the last dropout and the last linear layer. Only mixed rows are trained on.

    h~ = λ h + (1 − λ) h[partner],   loss = CE(h~, λ y + (1 − λ) y[partner]),   λ ~ Beta(α, α)

It costs what plain fine-tuning costs: the batch is encoded once, as it is.

Reference: Zhang & Vaidya 2021 (CLS MixUp, with α = 1); M-mixup in Park & Caragea, ACL 2022 (α = 0.4).
Needs: nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from calmix.mixing.mixing_method import RandomPairs
from calmix.mixing.step import MixedRows, RowLosses, Step


@dataclass(frozen=True)
class ClsMixup(RandomPairs):
    name: ClassVar[str] = "cls-mixup"
    summary: ClassVar[str] = "mixes the features before the last layer (M-mixup)"
    citation: ClassVar[str] = "Zhang & Vaidya 2021"
    multi_label: ClassVar[bool] = True
    mix_point: ClassVar[str] = "head"

    def losses(self, step: Step) -> RowLosses:
        partner, ratio = self.draw_partner(step), self.draw_ratio(step)
        logits = self.forward_mixed(step, step.head, partner, ratio)
        losses = step.losses_of(logits, self.mixed_targets(step, partner, ratio))
        return RowLosses(losses, logits=None, mixed=MixedRows(logits, partner, ratio))
