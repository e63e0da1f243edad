"""Easy, ambiguous and hard rows; low and high AUM.

Two rules divide a data map, and they answer different questions:

* `top_fraction_regions` (dataset cartography): easy = the most confident third, ambiguous = the most
  variable third, hard = the least confident third. The three sets may overlap, and on real data often do.
* `partition_regions`: ambiguous = the most variable third; of the rest, the upper half by confidence is
  easy, the lower half hard. Every row has exactly one region.

Neither looks at the labels, so a region can be nearly one class: `class_balance` shows it, `stratify` takes
the fractions within each class instead. Rows without a score (NaN) belong to no region.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]

REGION_NAMES = ("easy", "ambiguous", "hard")


@dataclass(frozen=True, eq=False)
class Regions:
    """Three masks over the rows."""

    easy: Mask
    ambiguous: Mask
    hard: Mask

    def sizes(self) -> dict[str, int]:
        return {name: int(getattr(self, name).sum()) for name in REGION_NAMES}

    def overlap(self) -> dict[str, int]:
        """How many rows are in two sets at once."""
        return {
            "easy_and_ambiguous": int((self.easy & self.ambiguous).sum()),
            "hard_and_ambiguous": int((self.hard & self.ambiguous).sum()),
            "easy_and_hard": int((self.easy & self.hard).sum()),
        }

    def class_balance(self, labels: npt.ArrayLike, num_classes: int) -> dict[str, list[int]]:
        """Rows of each class in each set; rows with an unknown label (−1) are left out.

        >>> mask = np.array
        >>> regions = Regions(mask([True, True, False]), mask([False, False, True]), mask([False] * 3))
        >>> regions.class_balance([0, 0, 1], 2)
        {'easy': [2, 0], 'ambiguous': [0, 1], 'hard': [0, 0]}
        """
        y = np.asarray(labels)
        counts = {name: y[getattr(self, name) & (y >= 0)] for name in REGION_NAMES}
        return {name: np.bincount(of, minlength=num_classes).tolist() for name, of in counts.items()}


def top_fraction_regions(
    confidence: npt.ArrayLike,
    variability: npt.ArrayLike,
    row_ids: npt.ArrayLike,
    *,
    fraction: float = 1 / 3,
    labels: npt.ArrayLike | None = None,
    stratify: bool = False,
    disjoint: bool = False,
) -> Regions:
    """Cartography's sets: the top `fraction` by confidence, by variability, and by lack of confidence.

    n = round(fraction · N) rows each, N the scored rows (the original code takes int(0.3319 · N) + 1).
    Ties: less variable first, then by id, so the sets do not depend on the order of the rows.
    `disjoint` takes from easy what is also ambiguous.

    >>> regions = top_fraction_regions([0.9, 0.8, 0.2], [0.0, 0.3, 0.1], ["a", "b", "c"])
    >>> regions.easy.tolist(), regions.ambiguous.tolist(), regions.hard.tolist()
    ([True, False, False], [False, True, False], [False, False, True])
    """
    mu, sigma, ids = _arrays(confidence, variability, row_ids)

    def within(rows: npt.NDArray[np.int64]) -> list[npt.NDArray[np.int64]]:
        count = _share(fraction, len(rows))
        easy = _first(rows, (-mu[rows], sigma[rows]), ids, count)
        ambiguous = _first(rows, (-sigma[rows],), ids, count)
        hard = _first(rows, (mu[rows], sigma[rows]), ids, count)
        return [easy, ambiguous, hard]

    regions = _collect(within, _scored_groups(mu, labels, stratify), len(mu))
    if disjoint:
        return Regions(regions.easy & ~regions.ambiguous, regions.ambiguous, regions.hard)
    return regions


def partition_regions(
    confidence: npt.ArrayLike,
    variability: npt.ArrayLike,
    row_ids: npt.ArrayLike,
    *,
    fraction: float = 1 / 3,
    labels: npt.ArrayLike | None = None,
    stratify: bool = False,
) -> Regions:
    """Three distinct sets: the top `fraction` by variability, then the rest cut in half by confidence.

    If the rest is odd, its middle row is easy.

    >>> regions = partition_regions([0.9, 0.8, 0.2], [0.3, 0.0, 0.1], ["a", "b", "c"])
    >>> regions.easy.tolist(), regions.ambiguous.tolist(), regions.hard.tolist()
    ([False, True, False], [True, False, False], [False, False, True])
    """
    mu, sigma, ids = _arrays(confidence, variability, row_ids)

    def within(rows: npt.NDArray[np.int64]) -> list[npt.NDArray[np.int64]]:
        ambiguous = _first(rows, (-sigma[rows],), ids, _share(fraction, len(rows)))
        rest = np.setdiff1d(rows, ambiguous, assume_unique=True)
        easy = _first(rest, (-mu[rest], sigma[rest]), ids, (len(rest) + 1) // 2)
        return [easy, ambiguous, np.setdiff1d(rest, easy, assume_unique=True)]

    return _collect(within, _scored_groups(mu, labels, stratify), len(mu))


def median_split(aum: npt.ArrayLike) -> tuple[Mask, Mask]:
    """(low, high): AUM below the median, and at or above it. Rows at the median are all high.

    >>> low, high = median_split([3.0, 1.0, 2.0, 2.0, float("nan")])
    >>> low.tolist(), high.tolist()
    ([False, True, False, False, False], [True, False, True, True, False])
    """
    scores = np.asarray(aum, dtype=np.float64)
    scored = ~np.isnan(scores)
    if not scored.any():
        raise ValueError("no row has an AUM")
    median = np.median(scores[scored])
    return scored & (scores < median), scored & (scores >= median)


def _arrays(
    confidence: npt.ArrayLike, variability: npt.ArrayLike, row_ids: npt.ArrayLike
) -> tuple[Floats, Floats, npt.NDArray[Any]]:
    mu = np.asarray(confidence, dtype=np.float64)
    sigma = np.asarray(variability, dtype=np.float64)
    ids = np.asarray(row_ids)
    if mu.ndim != 1 or sigma.shape != mu.shape or ids.shape != mu.shape:
        raise ValueError(f"shapes differ: confidence {mu.shape}, variability {sigma.shape}, ids {ids.shape}")
    return mu, sigma, ids


def _scored_groups(mu: Floats, labels: npt.ArrayLike | None, stratify: bool) -> list[npt.NDArray[np.int64]]:
    scored = np.flatnonzero(~np.isnan(mu))
    if not stratify:
        return [scored]
    if labels is None:
        raise ValueError("stratify needs labels")
    y = np.asarray(labels)[scored]
    return [scored[y == one] for one in np.unique(y)]


def _share(fraction: float, count: int) -> int:
    """round(fraction · N), halves up.

    >>> [_share(1 / 3, n) for n in (1, 2, 3, 4, 5)], _share(0.25, 2)
    ([0, 1, 1, 1, 2], 1)
    """
    if not 0 < fraction <= 1:
        raise ValueError(f"fraction must lie in (0, 1], got {fraction}")
    return math.floor(fraction * count + 0.5)


def _first(
    rows: npt.NDArray[np.int64], keys: tuple[Floats, ...], ids: npt.NDArray[Any], count: int
) -> npt.NDArray[np.int64]:
    """The `count` rows that come first by `keys`, then by id.

    Ids are compared only in the tie that the cut goes through: sorting all of them costs more than the rest.
    """
    order: npt.NDArray[np.int64] = np.lexsort(keys[::-1])
    taken = order[:count]
    if count == 0 or count == len(rows):
        return rows[taken]
    last, tied = order[count - 1], np.ones(len(rows), dtype=np.bool_)
    for key in keys:
        tied &= key == key[last]
    if not tied[order[count]]:
        return rows[taken]
    certain = taken[~tied[taken]]
    candidates = np.flatnonzero(tied)
    chosen = candidates[np.argsort(ids[rows[candidates]], kind="stable")[: count - len(certain)]]
    taken = np.concatenate([certain, chosen])
    return rows[taken]


def _collect(
    within: Callable[[npt.NDArray[np.int64]], list[npt.NDArray[np.int64]]],
    groups: list[npt.NDArray[np.int64]],
    size: int,
) -> Regions:
    masks = [np.zeros(size, dtype=np.bool_) for _ in REGION_NAMES]
    for rows in groups:
        for mask, chosen in zip(masks, within(rows), strict=True):
            mask[chosen] = True
    return Regions(*masks)
