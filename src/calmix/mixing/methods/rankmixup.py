"""RankMixup: a mixed row has no more confidence than the rows it is made of.

Mixed rows have no targets of their own; what is trained is the order of confidences. The more a row is mixed,
the lower the confidence should be.

    loss = CE(rows) + w R
    "mndcg":  R = 1 − NDCG of the confidences, ranked by how little a row was mixed
              DCG = Σ_j c_j / log2(j + 1) over the row itself and its mixes, IDCG the same with the shares
              max(λ y + (1 − λ) y_partner) in place of confidences; NDCG = min(DCG/IDCG, IDCG/DCG)
    "mrl":    R = max(0, m + max logit of the mix − max logit of the row), 0 where a mix has one label only

At the head (the default) one encoding serves all mixes; at the inputs and at a layer each mix is encoded.
With `originals="none"` the cross-entropy is that of the mixes and their soft labels; the order still compares
them with the rows themselves.

Reference: Noh et al., ICCV 2023 (w = 0.1; m = 2 on CIFAR-10; images are mixed as pixels).
Needs: nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from calmix.mixing.chosen_depth import KEEP, NONE, ChosenDepth
from calmix.mixing.losses import cross_entropy
from calmix.mixing.mixing_method import RandomPairs
from calmix.mixing.pairing import draw_ratio
from calmix.mixing.step import RowLosses, Step
from calmix.mixing.targets import mixed, one_hot
from calmix.user_error import UserError


@dataclass(frozen=True)
class RankMixup(RandomPairs, ChosenDepth):
    name: ClassVar[str] = "rankmixup"
    summary: ClassVar[str] = "trains the order of confidences: the more mixed, the lower"
    citation: ClassVar[str] = "Noh et al., ICCV 2023"
    mix_point: ClassVar[str] = "head, input or layer"
    later_options: ClassVar[tuple[str, ...]] = ("layers", "originals")

    alpha: float = 1.0
    rank_loss: str = "mndcg"
    """"mndcg" (several mixes of each row) or "mrl" (a margin between a row and one mix)."""
    rank_weight: float = 0.1
    margin: float = 2.0
    """m of "mrl"."""
    mixes: int = 3
    """Mixes of each row, each with a λ of its own; "mrl" uses one."""
    originals: str = "keep"
    """Cross-entropy of the rows themselves ("keep"), or of their mixes ("none")."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check_choices({"rank_loss": ("mndcg", "mrl"), "originals": (KEEP, NONE)})
        if isinstance(self.mixes, bool) or not isinstance(self.mixes, int) or self.mixes < 1:
            raise UserError(f"mixes is {self.mixes!r}", remedy="give a whole number of at least 1")

        if self.ratio_scope != "batch":
            raise UserError(
                f"rankmixup has no ratio_scope={self.ratio_scope}: every mix has one λ for the whole step",
                remedy="leave ratio_scope out",
            )

    def losses(self, step: Step) -> RowLosses:
        count = self.mixes if self.rank_loss == "mndcg" else 1
        partner, ratios = self.draw_partner(step), self.draw_ratios(step, count)
        logits, mixes = self._logits(step, partner, ratios)
        hard = one_hot(step.labels, step.num_classes)
        shares = torch.stack([mixed(hard, partner, ratio).max(dim=-1).values for ratio in ratios])
        if self.rank_loss == "mndcg":
            rank = 1 - ndcg(confidence(logits), torch.stack([confidence(mix) for mix in mixes]), shares)
        else:
            over = mixes[0].float().max(dim=-1).values - logits.float().max(dim=-1).values
            rank = torch.relu(self.margin + over) * (shares[0] < 1)
        if self.originals == KEEP:
            losses = cross_entropy(logits, self.targets(step))
        else:
            goals = [self.mixed_targets(step, partner, ratio) for ratio in ratios]
            soft = [cross_entropy(mix, goal) for mix, goal in zip(mixes, goals, strict=True)]
            losses = torch.stack(soft).mean(dim=0)
        return RowLosses(losses + self.rank_weight * rank, logits)

    def draw_ratios(self, step: Step, count: int) -> list[Tensor]:
        generator = step.moment.of_step("ratio")
        return [step.tensor(draw_ratio(self.alpha, generator, fold=self.ratio_fold)) for _ in range(count)]

    def _logits(self, step: Step, partner: Tensor, ratios: list[Tensor]) -> tuple[Tensor, list[Tensor]]:
        if not self.is_at_head:
            depth = self.draw_depth(step)
            mixes = [self.forward_mixed(step, depth, partner, ratio) for ratio in ratios]
            return step.forward(), mixes
        every = step.forward(KeepAndMix(step.head, partner, ratios))
        return every[: step.rows], list(torch.split(every[step.rows :], step.rows))


@dataclass(frozen=True)
class KeepAndMix:
    """The rows as they are, and behind them a mix of all of them for every ratio."""

    depth: int
    partner: Tensor
    ratios: list[Tensor]

    def __call__(self, hidden: Tensor) -> Tensor:
        return torch.cat([hidden, *(mixed(hidden, self.partner, ratio) for ratio in self.ratios)])


def confidence(logits: Tensor) -> Tensor:
    return torch.softmax(logits.float(), dim=-1).max(dim=-1).values


def ndcg(own: Tensor, mixes: Tensor, shares: Tensor) -> Tensor:
    """How well the confidences of a row and of its mixes, [mixes, rows], follow their shares.

    A row stands first, its mixes by falling share. 1 is a sum as it should be; more and less both count.

    >>> ndcg(torch.tensor([1.0]), torch.tensor([[0.6], [0.8]]), torch.tensor([[0.6], [0.8]]))
    tensor([1.])
    """
    order = shares.argsort(dim=0, descending=True, stable=True)
    ranked = torch.cat([own.unsqueeze(0), mixes.gather(0, order)])
    ideal = torch.cat([torch.ones_like(own).unsqueeze(0), shares.gather(0, order)])
    discount = torch.log2(torch.arange(2, len(ranked) + 2, device=own.device)).unsqueeze(-1)
    gain, ideal_gain = (ranked / discount).sum(dim=0), (ideal / discount).sum(dim=0)
    return torch.minimum(gain / ideal_gain, ideal_gain / gain)
