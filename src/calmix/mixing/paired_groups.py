"""What methods that mix rows of two groups, one with one, share."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from calmix.mixing.chosen_depth import ChosenDepth
from calmix.mixing.losses import cross_entropy
from calmix.mixing.pairing import apart
from calmix.mixing.step import MixedPairs, RowLosses, Step
from calmix.mixing.targets import blended

FIRST, SECOND = 0, 1
"""The numbers of the two groups that meet."""


@dataclass(frozen=True)
class GroupMix:
    """The pairs of a batch, and their logits."""

    logits: Tensor | None
    """Of the rows as they are; None where they were not forwarded."""
    first: Tensor
    """The rows of the first group that found a partner."""
    losses: Tensor
    """Of each pair."""
    pairs: MixedPairs
    nothing: Tensor
    """0 for every row, with a gradient."""


@dataclass(frozen=True)
class PairedGroups(ChosenDepth):
    """Rows of the first group meet rows of the second, each at most one, at random within the batch.

    A row that is in both groups does not meet itself: a pair of equals would not be mixed at all.
    """

    def mix_groups(self, step: Step, kind: str, *, with_originals: bool = True) -> GroupMix:
        """Mix the two groups of a batch, and forward the rows themselves where they are asked for.

        At an affine head, mixing logits is mixing features. Where the groups have different counts in a
        batch, the rest of the larger one stays unmixed.
        """
        logits = step.forward() if with_originals or self.is_at_head else None
        left, right = self.choose_pairs(step)
        ratio = self.draw_ratio(step)
        share = (ratio[left] if ratio.ndim else ratio.expand(len(left))).unsqueeze(-1)
        targets = self.targets(step)
        goals = blended(targets[left], targets[right], share)
        nothing = targets.new_zeros(step.rows)
        if self.is_at_head:
            assert logits is not None
            both, nothing = blended(logits[left], logits[right], share), nothing + logits.sum() * 0.0
        elif len(left):
            both = self.forward_pairs(step, self.draw_depth(step), left, right, share.squeeze(-1))
        else:
            # All processes run the network as often as each other, and every step has a gradient.
            own = torch.zeros(1, dtype=torch.int64, device=targets.device)
            alone = self.forward_pairs(step, self.draw_depth(step), own, own, ratio.new_ones(1))
            both, nothing = alone[:0], nothing + alone.sum() * 0.0
        losses = cross_entropy(both, goals)
        pairs = MixedPairs(kind, left, right, share.squeeze(-1), goals)
        return GroupMix(logits, left, losses, pairs, nothing)

    def mixed_alone(self, step: Step, mix: GroupMix) -> RowLosses:
        """The mean loss of the pairs, and nothing of the rows themselves."""
        losses = weighted_means(mix.nothing, step.real_rows, [(1.0, mix.first, mix.losses)])
        return RowLosses(losses, mix.logits, (mix.pairs,))

    def choose_pairs(self, step: Step) -> tuple[Tensor, Tensor]:
        """Places in the batch of the two rows of every pair."""
        first, second = step.of_group(FIRST), step.of_group(SECOND)
        longer_first = len(first) > len(second)
        fewer, more = (second, first) if longer_first else (first, second)
        order = step.moment.of_batch("pairs").permutation(len(more))
        differ = np.ones(len(fewer), dtype=np.bool_)
        if step.positions is not None:
            order, differ = apart(step.positions[fewer], step.positions[more], order)
        fewer, more = fewer[differ], more[order[: len(fewer)]][differ]
        left, right = map(step.tensor, (more, fewer) if longer_first else (fewer, more))
        # λ = 1 mixes nothing, and then a text is not padded to the length of another either.
        return left, left if self.alpha == 0 and not self.is_at_head else right


def weighted_means(original: Tensor, real: int, parts: list[tuple[float, Tensor, Tensor]]) -> Tensor:
    """Losses per row whose mean over the first `real` rows is Σ_k w_k mean(losses_k).

    Each part is (weight, the rows its losses belong to, losses); a part without losses adds nothing.
    `original` are the losses of all rows: they give the sum a gradient where a batch is all padding.

    >>> import torch
    >>> original = torch.tensor([1.0, 2.0, 3.0, 2.0])
    >>> parts = [(0.5, torch.tensor([0]), torch.tensor([8.0])), (0.5, torch.arange(4), original)]
    >>> weighted_means(original, 4, parts).mean()
    tensor(5.)
    """
    total = original * 0.0
    for weight, places, losses in parts:
        if len(losses):
            total = total.index_add(0, places, losses * (weight * real / len(losses)))
    return total
