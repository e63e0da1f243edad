"""What methods that mix rows of two groups, one with one, share."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from torch import Tensor

from calmix.mixing.losses import cross_entropy
from calmix.mixing.mixing_method import MixingMethod
from calmix.mixing.pairing import apart
from calmix.mixing.step import MixedPairs, Step
from calmix.mixing.targets import blended

FIRST, SECOND = 0, 1
"""The numbers of the two groups that meet."""


@dataclass(frozen=True)
class PairedGroups(MixingMethod):
    """Rows of the first group meet rows of the second, each at most one, at random within the batch.

    A row that is in both groups does not meet itself: a pair of equals would not be mixed at all.
    """

    def mix_groups(self, step: Step, logits: Tensor, kind: str) -> tuple[Tensor, Tensor, MixedPairs]:
        """The rows of the first group that found a partner, the loss of each pair, and the pairs.

        At an affine head, mixing logits is mixing features. Where the groups have different counts in a
        batch, the rest of the larger one stays unmixed.
        """
        first, second = step.of_group(FIRST), step.of_group(SECOND)
        longer_first = len(first) > len(second)
        fewer, more = (second, first) if longer_first else (first, second)
        order = step.moment.of_batch("pairs").permutation(len(more))
        differ = np.ones(len(fewer), dtype=np.bool_)
        if step.positions is not None:
            order, differ = apart(step.positions[fewer], step.positions[more], order)
        fewer, more = fewer[differ], more[order[: len(fewer)]][differ]
        left, right = map(step.tensor, (more, fewer) if longer_first else (fewer, more))
        ratio = self.draw_ratio(step)
        share = (ratio[left] if ratio.ndim else ratio.expand(len(left))).unsqueeze(-1)
        targets = self.targets(step)
        goals = blended(targets[left], targets[right], share)
        losses = cross_entropy(blended(logits[left], logits[right], share), goals)
        return left, losses, MixedPairs(kind, left, right, share.squeeze(-1), goals)


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
