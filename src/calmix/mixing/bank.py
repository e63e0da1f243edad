"""The saliency of all training rows in the previous epoch: partners from the whole of the other half.

The tree answers "nearest to u" among unit vectors, so the most similar row is the nearest to u and the most
dissimilar one the nearest to −u: O(log N) each, where comparing all pairs is O(N²).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import KDTree

from calmix.mixing.partner_search import TIE

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class SaliencyBank:
    """Rows with their logits and saliency, by group.

    With `is_direction` the saliency vectors are compared by cosine, else by distance as they are.
    """

    logits: NDArray[np.float32]
    """[training rows, classes]; NaN where a row was not seen."""
    labels: NDArray[np.int64]
    saliency: Floats
    groups: tuple[NDArray[np.int64], ...]
    """Positions of the rows of each group."""
    is_direction: bool = True

    @cached_property
    def seen(self) -> tuple[NDArray[np.int64], ...]:
        known = np.asarray(~np.isnan(self.logits).any(axis=1))
        return tuple(rows[known[rows]] for rows in self.groups)

    @cached_property
    def trees(self) -> tuple[KDTree, ...]:
        return tuple(KDTree(self._points(self.saliency[rows])) for rows in self.seen)

    def _points(self, saliency: Floats) -> Floats:
        if not self.is_direction:
            return saliency
        norms = np.linalg.norm(saliency, axis=1, keepdims=True)
        return np.asarray(saliency / np.where(norms == 0, 1.0, norms))

    def partners(
        self, saliency: Floats, group: int, generator: np.random.Generator, *, similar: bool
    ) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """For each saliency vector a row of the group: its position, and whether chance chose it.

        >>> logits, labels = np.zeros((3, 3), np.float32), np.zeros(3, np.int64)
        >>> saliency = np.array([[1.0, 1.0, 0.0], [1.0, 0.0, 1.0], [1.0, 0.6, 0.4]])
        >>> bank = SaliencyBank(logits, labels, saliency, (np.array([2]), np.array([0, 1])))
        >>> bank.partners(saliency[2:], 1, np.random.default_rng(0), similar=True)[0].tolist()
        [0]
        >>> bank.partners(saliency[2:], 1, np.random.default_rng(0), similar=False)[0].tolist()
        [1]
        """
        anchors, rows = self._points(saliency), self.seen[group]
        if not self.is_direction and not similar:
            candidates = self._farthest(anchors, self.saliency[rows])
        else:
            tree, asked = self.trees[group], anchors if similar else -anchors
            distance, _ = tree.query(asked)
            # On the sphere |u − v|² = 2 − 2 cos: equal cosines are equal squared distances.
            slack = np.sqrt(distance**2 + 2 * TIE) if self.is_direction else distance + TIE
            candidates = tree.query_ball_point(asked, slack, return_sorted=True)
        chosen = np.array([int(generator.choice(found)) for found in candidates], dtype=np.int64)
        return rows[chosen], np.array([len(found) > 1 for found in candidates])

    @staticmethod
    def _farthest(anchors: Floats, points: Floats) -> list[NDArray[np.int64]]:
        distance = np.sqrt(((anchors[:, None, :] - points[None, :, :]) ** 2).sum(axis=2))
        return [np.flatnonzero(row >= row.max() - TIE) for row in distance]
