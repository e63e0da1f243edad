"""The partners of each row in the other half: the most similar and the most dissimilar one."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

TIE = 1e-9
"""Similarities that differ by less are equal; among equals, chance decides."""


@dataclass(frozen=True)
class Partners:
    """For each row the partner it meets; a row that nobody may meet has itself."""

    partner: Tensor
    """[rows], places in the batch."""
    tied: Tensor
    """[rows], whether chance decided."""


def opposite(groups: Tensor, real: int) -> Tensor:
    """Who may meet whom, [rows, rows]: rows of different groups, and no padding (rows from `real` on).

    >>> opposite(torch.tensor([0, 1, 1]), real=2).int()
    tensor([[0, 1, 0],
            [1, 0, 0],
            [0, 0, 0]], dtype=torch.int32)
    """
    is_real = torch.arange(len(groups), device=groups.device) < real
    return (groups[:, None] != groups[None, :]) & is_real[:, None] & is_real[None, :]


def most_similar(similarity: Tensor, allowed: Tensor, keys: Tensor) -> Partners:
    """The allowed row of greatest similarity; the greatest of the random `keys` where there are several.

    >>> similarity = torch.tensor([[0.0, 0.5, 0.5], [0.5, 0.0, 0.1], [0.5, 0.1, 0.0]])
    >>> keys = torch.tensor([[0.0, 0.2, 0.9]] * 3)
    >>> found = most_similar(similarity, similarity > 0, keys)
    >>> found.partner.tolist(), found.tied.tolist()
    ([2, 0, 0], [True, False, False])
    """
    best = similarity.masked_fill(~allowed, -torch.inf)
    equal = allowed & (best >= best.max(dim=1, keepdim=True).values - TIE)
    partner = torch.where(equal, keys, -1.0).argmax(dim=1)
    alone = ~allowed.any(dim=1)
    own = torch.arange(len(partner), device=partner.device)
    return Partners(torch.where(alone, own, partner), equal.sum(dim=1) > 1)


def most_dissimilar(similarity: Tensor, allowed: Tensor, keys: Tensor) -> Partners:
    """The allowed row of least similarity."""
    return most_similar(-similarity, allowed, keys)


def any_allowed(allowed: Tensor, keys: Tensor) -> Partners:
    """An allowed row at random."""
    found = most_similar(torch.zeros_like(keys), allowed, keys)
    return Partners(found.partner, torch.zeros_like(found.tied))
