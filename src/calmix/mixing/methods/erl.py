"""Entropy-regularised loss: a penalty on confident predictions.

    loss = CE(p, y) − β H(p),   H(p) = −Σ_k p_k log p_k

Reference: Pereyra et al. 2017 (confidence penalty); a baseline of Thulasidasan et al., NeurIPS 2019, where
β = 0.1 was best.
Needs: nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from calmix.mixing.losses import cross_entropy, entropy
from calmix.mixing.method import Method
from calmix.mixing.step import RowLosses, Step


@dataclass(frozen=True)
class EntropyRegularised(Method):
    name: ClassVar[str] = "erl"
    summary: ClassVar[str] = "cross-entropy minus β times the entropy of the prediction"
    citation: ClassVar[str] = "Pereyra et al. 2017; Thulasidasan et al., NeurIPS 2019"

    beta: float = 0.1

    def losses(self, step: Step) -> RowLosses:
        logits = step.forward()
        targets = self.targets(step)
        return RowLosses(cross_entropy(logits, targets) - self.beta * entropy(logits), logits)
