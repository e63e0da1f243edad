"""Losses per row; the trainer takes their mean over the rows of an optimiser step.

Logits are lifted to float32 first, so that half-precision training sums in full precision.
"""

from __future__ import annotations

import torch
from torch import Tensor


def log_softmax(logits: Tensor) -> Tensor:
    return torch.log_softmax(logits.float(), dim=-1)


def cross_entropy(logits: Tensor, targets: Tensor) -> Tensor:
    """−Σ_k t_k log p_k for each row: the sum goes over classes. The gradient in z is p − t.

    Integer targets are class indices, floating ones are distributions; never anything else.

    >>> cross_entropy(torch.zeros(1, 2), torch.tensor([1]))
    tensor([0.6931])
    >>> cross_entropy(torch.zeros(1, 4), torch.tensor([[0.5, 0.5, 0.0, 0.0]]))
    tensor([1.3863])
    """
    log_probabilities = log_softmax(logits)
    if targets.is_floating_point():
        return -(targets * log_probabilities).sum(dim=-1)
    return -log_probabilities.gather(-1, targets.unsqueeze(-1)).squeeze(-1)


def binary_cross_entropy(logits: Tensor, targets: Tensor) -> Tensor:
    """−1/K Σ_k t_k log σ(z_k) + (1 − t_k) log(1 − σ(z_k)) for each row: the mean goes over labels.

    Its mean over rows is torch's `BCEWithLogitsLoss`. Mixed targets are numbers between 0 and 1.

    >>> binary_cross_entropy(torch.zeros(1, 3), torch.tensor([[1.0, 0.25, 0.0]]))
    tensor([0.6931])
    """
    losses = torch.nn.functional.binary_cross_entropy_with_logits(
        logits.float(), targets.float(), reduction="none"
    )
    return losses.mean(dim=-1)


def entropy(logits: Tensor) -> Tensor:
    """H(p) = −Σ_k p_k log p_k of each row, in nats; a probability of 0 adds nothing.

    >>> entropy(torch.tensor([[0.0, 0.0], [200.0, 0.0]]))
    tensor([0.6931, 0.0000])
    """
    log_probabilities = log_softmax(logits)
    # log p is finite where p underflows to 0, so the product is 0 and not NaN.
    return (log_probabilities.exp() * -log_probabilities).sum(dim=-1)


def focal_loss(logits: Tensor, targets: Tensor, gamma: float) -> Tensor:
    """−Σ_k t_k (1 − p_k)^γ log p_k for each row.

    >>> focal_loss(torch.zeros(1, 2), torch.tensor([[1.0, 0.0]]), 2.0)  # (1/2)² log 2
    tensor([0.1733])
    """
    log_probabilities = log_softmax(logits)
    # −expm1(log p) is 1 − p, exact where p is near 1. A power of 0 has no slope: keep off it.
    others = (-torch.expm1(log_probabilities)).clamp(min=torch.finfo(torch.float32).tiny)
    return -(targets * others**gamma * log_probabilities).sum(dim=-1)
