"""What all methods that mix share: λ and mixed targets."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from calmix.mixing.catalogue import check_alpha
from calmix.mixing.method import Method
from calmix.mixing.ratio import draw_ratio
from calmix.mixing.step import Step
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
