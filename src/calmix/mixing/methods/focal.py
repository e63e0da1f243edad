"""Focal loss: rows that are already right count for little.

    loss = −(1 − p_y)^γ log p_y

With smoothed targets t the terms of all classes are added: −Σ_k t_k (1 − p_k)^γ log p_k.

Reference: Lin et al., ICCV 2017; for calibration Mukhoti et al., NeurIPS 2020, with γ = 3.
Needs: nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from calmix.mixing.losses import focal_loss
from calmix.mixing.method import Method
from calmix.mixing.step import RowLosses, Step
from calmix.user_error import UserError


@dataclass(frozen=True)
class Focal(Method):
    name: ClassVar[str] = "focal"
    summary: ClassVar[str] = "focal loss: the calibration baseline without mixing"
    citation: ClassVar[str] = "Mukhoti et al., NeurIPS 2020"

    gamma: float = 3.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.gamma < 0:
            raise UserError(f"gamma is {self.gamma}", remedy="give a number of at least 0, such as 3")

    def losses(self, step: Step) -> RowLosses:
        logits = step.forward()
        targets = self.targets(step)
        return RowLosses(focal_loss(logits, targets, self.gamma), logits)
