"""Mixup as a regulariser: the rows themselves are trained on too.

    loss = CE(rows, y) + η CE(mixed rows, λ y + (1 − λ) y[partner]),   λ ~ Beta(α, α)

At the head (the default) one encoding serves both terms. Elsewhere the batch is encoded twice. With λ = 1
it is (1 + η) times plain, not plain.

Reference: Pinto et al., NeurIPS 2022; they use α = 10, so that λ stays near one half.
Needs: nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from calmix.mixing.chosen_depth import ChosenDepth
from calmix.mixing.mixing_method import RandomPairs
from calmix.mixing.step import Mix, RowLosses, Step


@dataclass(frozen=True)
class RegMixup(RandomPairs, ChosenDepth):
    name: ClassVar[str] = "regmixup"
    summary: ClassVar[str] = "cross-entropy on the rows plus cross-entropy on mixed rows"
    citation: ClassVar[str] = "Pinto et al., NeurIPS 2022"
    multi_label: ClassVar[bool] = True
    mix_point: ClassVar[str] = "head, input or layer"
    later_options: ClassVar[tuple[str, ...]] = ("layers",)

    alpha: float = 10.0
    eta: float = 1.0
    """The weight of the mixed rows."""

    def losses(self, step: Step) -> RowLosses:
        partner, ratio = self.draw_partner(step), self.draw_ratio(step)
        original, mixed = self._logits(step, partner, ratio)
        targets = self.targets(step)
        mixed_loss = step.losses_of(mixed, self.mixed_targets(step, partner, ratio))
        return RowLosses(step.losses_of(original, targets) + self.eta * mixed_loss, original)

    def _logits(self, step: Step, partner: Tensor, ratio: Tensor) -> tuple[Tensor, Tensor]:
        if self.is_at_head:
            both = step.forward(Mix(step.head, partner, ratio, keep_originals=True))
            return both[: step.rows], both[step.rows :]
        return step.forward(), self.forward_mixed(step, self.draw_depth(step), partner, ratio)
