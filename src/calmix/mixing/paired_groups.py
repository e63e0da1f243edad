"""What methods that mix rows of two groups, one with one, share."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from calmix.mixing.losses import cross_entropy
from calmix.mixing.mixing_method import MixingMethod
from calmix.mixing.step import MixedPairs, Step
from calmix.mixing.targets import blended

FIRST, SECOND = 0, 1
"""The numbers of the two groups that meet."""


@dataclass(frozen=True)
class PairedGroups(MixingMethod):
    """Rows of the first group meet rows of the second, each at most one, at random within the batch."""

    def mix_groups(self, step: Step, logits: Tensor, kind: str) -> tuple[Tensor, Tensor, MixedPairs]:
        """The rows of the first group that found a partner, the loss of each pair, and the pairs.

        At an affine head, mixing logits is mixing features. Where the groups have different counts in a
        batch, the rest of the larger one stays unmixed.
        """
        first, second = step.of_group(FIRST), step.of_group(SECOND)
        count = min(len(first), len(second))
        chosen = step.moment.of_batch("pairs").permutation(max(len(first), len(second)))[:count]
        longer_first = len(first) > len(second)
        left = step.tensor(first[chosen] if longer_first else first)
        right = step.tensor(second if longer_first else second[chosen])
        ratio = self.draw_ratio(step)
        share = (ratio[left] if ratio.ndim else ratio.expand(count)).unsqueeze(-1)
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
