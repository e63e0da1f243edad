"""What a student learns from a teacher, beside the labels.

    L = α L_hard + (1 − α) τ² KL(p_t^τ ‖ p_s^τ),   p^τ = softmax(z/τ)

Teacher and student are tempered alike; the factor τ² keeps the gradient of the same size for every τ.

    ∂L/∂z_s = α ∂L_hard/∂z_s + (1 − α) τ (p_s^τ − p_t^τ)
    τ² KL → (1/2C) Σ_k (d_k − mean d)²,   d = z_t − z_s,   as τ → ∞

Where a method forwards mixed rows only, the teacher's softened probabilities are mixed like the labels:
λ p_t^τ(row) + (1 − λ) p_t^τ(partner) is the target of the mixed row.

Reference: Hinton, Vinyals & Dean 2015; Hosseini & Caragea 2022, who do not say α and τ (τ = 1, α = 0.5 here).
"""

from __future__ import annotations

import torch
from torch import Tensor


def tempered(logits: Tensor, tau: float) -> Tensor:
    """log softmax(z/τ) of each row, in single precision at least.

    >>> tempered(torch.tensor([[2.0, 0.0]]), 2.0).exp()
    tensor([[0.7311, 0.2689]])
    """
    lifted = logits if logits.dtype == torch.float64 else logits.float()
    return torch.log_softmax(lifted / tau, dim=-1)


def mixed_targets(log_targets: Tensor, partner: Tensor, ratio: Tensor) -> Tensor:
    """log(λ t + (1 − λ) t[partner]) from log t; λ is one number, or one for each row.

    >>> targets = torch.tensor([[0.9, 0.1], [0.5, 0.5]]).log()
    >>> mixed_targets(targets, torch.tensor([1, 0]), torch.tensor(0.75)).exp()
    tensor([[0.8000, 0.2000],
            [0.6000, 0.4000]])
    """
    share = ratio.to(log_targets.dtype).reshape(-1, 1)
    # With λ = 1 the second term is −∞ and the first one itself: nothing is rounded.
    return torch.logaddexp(log_targets + share.log(), log_targets[partner] + (1 - share).log())


def distillation_loss(logits: Tensor, log_targets: Tensor, tau: float) -> Tensor:
    """τ² KL(t ‖ softmax(z/τ)) of each row, from log t. The gradient in z is τ (softmax(z/τ) − t).

    >>> teacher, student = torch.tensor([[2.0, 0.0]]), torch.tensor([[0.0, 0.0]])
    >>> distillation_loss(student, tempered(teacher, 1.0), 1.0)  # log 2 − H(0.8808)
    tensor([0.3278])
    >>> distillation_loss(teacher, tempered(teacher, 4.0), 4.0)
    tensor([0.])
    """
    # log t is finite where t underflows to 0, so the product is 0 and not NaN.
    return tau**2 * (log_targets.exp() * (log_targets - tempered(logits, tau))).sum(dim=-1)
