"""Plain fine-tuning: no mixing, hard or smoothed targets.

    loss = CE(p, t(y))

Every guided method starts from this run: it is the baseline, and its recorded dynamics give the area
under the margin and the data map. With label smoothing it is the ε-LS baseline of the papers.

Reference: the baseline of all; label smoothing in the form of Thulasidasan et al., NeurIPS 2019.
Needs: nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from calmix.mixing.method import Method
from calmix.mixing.step import RowLosses, Step


@dataclass(frozen=True)
class Plain(Method):
    name: ClassVar[str] = "plain"
    summary: ClassVar[str] = "cross-entropy without mixing: baseline and first stage of guided methods"
    citation: ClassVar[str] = "Guo et al., On Calibration of Modern Neural Networks, ICML 2017 (as baseline)"
    multi_label: ClassVar[bool] = True

    def losses(self, step: Step) -> RowLosses:
        logits = step.forward()
        if self.label_smoothing == 0:
            return RowLosses(step.losses_of(logits, step.plain_targets), logits)
        targets = self.targets(step)
        return RowLosses(step.losses_of(logits, targets), logits)
