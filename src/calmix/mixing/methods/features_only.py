"""Mixed inputs with a hard label: the control experiment of mixup.

The inputs are mixed as in input mixup, but a mixed row keeps one hard label, that of the row it holds more
of. What calibration gain is left does not come from soft targets.

    e~ = λ e + (1 − λ) e[partner],   target = y if λ >= 1/2 else y[partner]

Reference: Thulasidasan et al., NeurIPS 2019, section on mixing features only.
Needs: nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch

from calmix.mixing.losses import cross_entropy
from calmix.mixing.mixing_method import RandomPairs
from calmix.mixing.step import EMBEDDINGS, MixedRows, RowLosses, Step


@dataclass(frozen=True)
class FeaturesOnly(RandomPairs):
    name: ClassVar[str] = "features-only"
    summary: ClassVar[str] = "mixes inputs but keeps the hard label of the nearer row: mixup's control"
    citation: ClassVar[str] = "Thulasidasan et al., NeurIPS 2019"
    mix_point: ClassVar[str] = "embeddings"

    def losses(self, step: Step) -> RowLosses:
        partner, ratio = self.draw_partner(step), self.draw_ratio(step)
        logits = self.forward_mixed(step, EMBEDDINGS, partner, ratio)
        own = self.targets(step)
        targets = torch.where((ratio >= 0.5).reshape(-1, 1), own, own[partner])
        # A teacher's prediction is that of the nearer row, too.
        whole = MixedRows(logits, partner, (ratio >= 0.5).float())
        return RowLosses(cross_entropy(logits, targets), logits=None, mixed=whole)
