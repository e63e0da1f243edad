"""Mixup of the word embeddings (of the pixels, for images).

The two texts of a pair are padded to the longer one with separator tokens that the network attends to, and
their word embeddings are mixed position by position, before positions are added. Only mixed rows are
trained on.

    e~ = λ e + (1 − λ) e[partner],   loss = CE(f(e~), λ y + (1 − λ) y[partner]),   λ ~ Beta(α, α)

Partners form an involution, so that both members of a pair share one length and are encoded once.

Reference: Zhang & Vaidya 2021 (Input MixUp); for images and text CNNs, Thulasidasan et al., NeurIPS 2019.
Needs: nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from calmix.mixing.mixing_method import RandomPairs
from calmix.mixing.step import EMBEDDINGS, MixedRows, RowLosses, Step


@dataclass(frozen=True)
class InputMixup(RandomPairs):
    name: ClassVar[str] = "input-mixup"
    summary: ClassVar[str] = "mixes word embeddings (or pixels), texts padded to the length of their pair"
    citation: ClassVar[str] = "Zhang & Vaidya 2021; Thulasidasan et al., NeurIPS 2019"
    multi_label: ClassVar[bool] = True
    mix_point: ClassVar[str] = "embeddings"

    def losses(self, step: Step) -> RowLosses:
        partner, ratio = self.draw_partner(step), self.draw_ratio(step)
        logits = self.forward_mixed(step, EMBEDDINGS, partner, ratio)
        losses = step.losses_of(logits, self.mixed_targets(step, partner, ratio))
        return RowLosses(losses, logits=None, mixed=MixedRows(logits, partner, ratio))
