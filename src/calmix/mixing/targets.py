"""The target of a row: one-hot, smoothed, mixed."""

from __future__ import annotations

import torch
from torch import Tensor


def one_hot(labels: Tensor, num_classes: int, *, dtype: torch.dtype = torch.float32) -> Tensor:
    """e_y, [rows, classes]."""
    return torch.nn.functional.one_hot(labels, num_classes).to(dtype)


def smoothed(targets: Tensor, smoothing: float) -> Tensor:
    """Label smoothing of the papers: the true class keeps 1 − ε, every other class gets ε/(C − 1).

        t' = (1 − ε) t + ε (1 − t)/(C − 1)

    The map is affine, so smoothing and mixing commute. It is not torch's `label_smoothing`, which spreads
    ε over all C classes; torch's argument for the same targets is ε C/(C − 1).

    >>> smoothed(one_hot(torch.tensor([0]), 3), 0.1)
    tensor([[0.9000, 0.0500, 0.0500]])
    """
    if smoothing == 0:
        return targets
    others = targets.shape[-1] - 1
    return (1 - smoothing) * targets + smoothing / others * (1 - targets)


def blended(first: Tensor, second: Tensor, ratio: Tensor) -> Tensor:
    """λ a + (1 − λ) b, with a λ that can be spread over both.

    >>> blended(torch.tensor([1.0, 0.0]), torch.tensor([0.0, 1.0]), torch.tensor(0.75))
    tensor([0.7500, 0.2500])
    """
    return ratio * first + (1 - ratio) * second


def mixed(values: Tensor, partner: Tensor, ratio: Tensor) -> Tensor:
    """λ v + (1 − λ) v[partner]; λ is one number, one for each row, or one for each position.

    Rows of a multiple-choice batch pass a network as `choices` sequences each: where `values` has more rows
    than `partner`, row i of the batch is a run of consecutive ones.

    >>> mixed(torch.tensor([[1.0, 0.0], [0.0, 1.0]]), torch.tensor([1, 0]), torch.tensor(0.75))
    tensor([[0.7500, 0.2500],
            [0.2500, 0.7500]])
    """
    rows = len(partner)
    per_row = values.reshape(rows, -1, *values.shape[1:])
    return blended(per_row, per_row[partner], _spread(ratio, per_row)).reshape(values.shape)


def mixed_pairs(values: Tensor, rows: int, ratio: Tensor) -> Tensor:
    """λ a + (1 − λ) b, where `values` are those of `rows` rows a and behind them of their partners b.

    >>> mixed_pairs(torch.tensor([[1.0, 0.0], [0.0, 1.0]]), 1, torch.tensor([0.75]))
    tensor([[0.7500, 0.2500]])
    """
    first, second = (half.reshape(rows, -1, *half.shape[1:]) for half in values.chunk(2))
    return blended(first, second, _spread(ratio, first)).reshape(-1, *values.shape[1:])


def _spread(ratio: Tensor, per_row: Tensor) -> Tensor:
    """λ in the form of values [rows, sequences, ...]: one number, one for each row or for each position."""
    # In the values' own precision: a float32 λ must not promote half-precision activations.
    weight = ratio.to(per_row.dtype)
    if weight.dim() == 1:
        return weight.reshape(len(per_row), *[1] * (per_row.dim() - 1))
    if weight.dim() > 1:
        return weight.reshape(len(per_row), -1, weight.shape[-1], *[1] * (per_row.dim() - 3))
    return weight
