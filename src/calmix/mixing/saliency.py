"""Saliency: what a row's loss says about its logits or features, in closed form.

The gradient of the cross-entropy in the logits is p − e_y, so no backward pass is needed. Its size, 1 − p_y,
says how wrong the network is; its direction, which classes it confuses. Directions are divided by that size
before they are computed, not after: p − e_y is a zero vector once p_y rounds to 1.

All results are float64, which distinguishes ties between directions from differences of 1e-9. They are on the
CPU if the device of the logits has no float64.
"""

from __future__ import annotations

import torch
from torch import Tensor

from calmix.mixing.targets import one_hot
from calmix.runtime.double_precision import in_double


def confusion(logits: Tensor, labels: Tensor) -> Tensor:
    """q: the softmax of the logits without the label's own, 0 at the label. q = p/(1 − p_y) elsewhere.

    >>> confusion(torch.tensor([[2.0, 1.0, 0.0]]), torch.tensor([0]))
    tensor([[0.0000, 0.7311, 0.2689]], dtype=torch.float64)
    """
    values = in_double(logits)
    own = one_hot(labels.to(values.device), logits.shape[-1], dtype=torch.bool)
    return torch.softmax(values.masked_fill(own, -torch.inf), dim=-1)


def saliency_map(logits: Tensor, labels: Tensor) -> Tensor:
    """S = |∂CE/∂z| = |p − e_y|.

    >>> saliency_map(torch.tensor([[2.0, 1.0, 0.0]]), torch.tensor([0]))
    tensor([[0.3348, 0.2447, 0.0900]], dtype=torch.float64)
    """
    probabilities = torch.softmax(in_double(logits), dim=-1)
    return (probabilities - _labels_like(probabilities, labels)).abs()


def saliency_direction(logits: Tensor, labels: Tensor) -> Tensor:
    """S/(1 − p_y) = e_y + q, finite where S underflows. With two classes it is (1, 1) for every row.

    >>> saliency_direction(torch.tensor([[2.0, 1.0, 0.0]]), torch.tensor([0]))
    tensor([[1.0000, 0.7311, 0.2689]], dtype=torch.float64)
    """
    confused = confusion(logits, labels)
    return _labels_like(confused, labels) + confused


def gradient_times_input(logits: Tensor, labels: Tensor, features: Tensor, weight: Tensor) -> Tensor:
    """h ∘ Wᵀ(p − e_y)/(1 − p_y) = h ∘ Wᵀ(q − e_y): how each feature h pulls a row from its label.

    `features` are what the last linear layer sees, `weight` is its W, [classes, features]. A multiple-choice
    head has one output, and a row is as many feature vectors as choices: they stand end to end.

    >>> features, weight = torch.tensor([[2.0, 3.0]]), torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    >>> gradient_times_input(torch.tensor([[1.0, 0.0]]), torch.tensor([0]), features, weight)
    tensor([[-2.,  3.]], dtype=torch.float64)
    """
    confused = confusion(logits, labels)
    pull = confused - _labels_like(confused, labels)
    hidden, w = in_double(features), in_double(weight)
    if len(hidden) == len(pull):
        return hidden * (pull @ w)
    rows, choices = pull.shape
    return (hidden.reshape(rows, choices, -1) * pull.unsqueeze(-1) * w).reshape(rows, -1)


def _labels_like(values: Tensor, labels: Tensor) -> Tensor:
    """e_y where the values are, in their precision."""
    return one_hot(labels.to(values.device), values.shape[-1], dtype=values.dtype)


def cosines(directions: Tensor) -> Tensor:
    """The cosine of every pair of rows, by one matrix product.

    >>> cosines(torch.tensor([[1.0, 0.0], [3.0, 3.0]]).double())
    tensor([[1.0000, 0.7071],
            [0.7071, 1.0000]], dtype=torch.float64)
    """
    norms: Tensor = torch.linalg.vector_norm(directions, dim=-1, keepdim=True)
    # A row of zeros has no direction: its cosines are 0.
    unit = directions / norms.masked_fill(norms == 0, 1.0)
    return unit @ unit.T


def nearness(saliency: Tensor) -> Tensor:
    """−|S_i − S_j| of every pair of rows.

    >>> nearness(torch.tensor([[0.0, 0.0], [3.0, 4.0]]).double())
    tensor([[-0., -5.],
            [-5., -0.]], dtype=torch.float64)
    """
    distance: Tensor = torch.linalg.vector_norm(saliency[:, None] - saliency[None, :], dim=-1)
    return -distance
