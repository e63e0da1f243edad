"""The targets of training rows that carry weights: a mass for every class in place of a distribution.

    m_ik = v_i w_k t_ik,        loss of row i = −Σ_k m_ik log p_ik

t is the target of the row (one-hot or a soft label, smoothed), v its weight, w that of a class. Mixing is
linear, so the mass of a mixed row is the mix of the masses, and its loss is −Σ_k w_k t~_k log p_k for the
mixed target t~ of rows of equal weight. The mean mass of a training row is 1: the mean loss is that of the
whole set, Σ_i Σ_k m_ik (−log p_ik) / Σ_i Σ_k m_ik, as scikit-learn and torch (`CrossEntropyLoss(weight=...)`)
have it, without the noise of dividing by the weights of each batch, and the learning rate keeps its meaning.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from calmix.mixing.targets import one_hot, smoothed


@dataclass(frozen=True, eq=False)
class TargetMass:
    """The soft labels of all training rows, and what their targets are multiplied with.

    >>> mass = TargetMass(2, class_weights=np.array([0.5, 2.0]), row_weights=np.array([1.0, 3.0]))
    >>> mass.of(torch.tensor([0, 1]), np.array([0, 1]))
    tensor([[0.5000, 0.0000],
            [0.0000, 6.0000]])
    """

    num_classes: int
    class_weights: NDArray[np.float64] | None = None
    """[classes]"""
    row_weights: NDArray[np.float64] | None = None
    """[training rows]"""
    soft_labels: NDArray[np.float64] | None = None
    """[training rows, classes]"""

    def of(
        self, labels: Tensor, positions: NDArray[np.int64] | None = None, smoothing: float = 0.0
    ) -> Tensor:
        """[rows, classes], of training rows with these labels and positions."""

        def tensor(values: NDArray[np.float64]) -> Tensor:
            return torch.from_numpy(np.ascontiguousarray(values)).float().to(labels.device)

        if self.soft_labels is None:
            targets = one_hot(labels, self.num_classes)
        else:
            assert positions is not None
            targets = tensor(self.soft_labels[positions])
        targets = smoothed(targets, smoothing)
        if self.class_weights is not None:
            targets = targets * tensor(self.class_weights)
        if self.row_weights is not None:
            assert positions is not None
            targets = targets * tensor(self.row_weights[positions]).unsqueeze(-1)
        return targets
