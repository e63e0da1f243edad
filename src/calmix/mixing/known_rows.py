"""What is known about the training rows before a guided run: the data map of the plain run before it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from calmix.dynamics.datamap import DataMap
from calmix.dynamics.regions import Regions
from calmix.user_error import UserError, argument

Positions = NDArray[np.int64]


@dataclass(frozen=True)
class LabelFilter:
    """How rows with doubtful labels are told: by the AUM of rows with a label that is certainly wrong.

    A row is kept if its AUM is above the ⌊k·m⌋-th smallest of the m threshold samples'. The threshold samples
    of a pass are not judged by it: `unscored` says what becomes of them; two passes judge every row.
    """

    percentile: float = 0.8
    passes: int = 1
    unscored: str = "drop"

    def __post_init__(self) -> None:
        if not 0 < self.percentile <= 1:
            raise UserError(f"the AUM percentile is {self.percentile}", remedy="give a share such as 0.8")
        if self.passes not in (1, 2):
            raise UserError(f"{self.passes} threshold passes", remedy="choose 1 or 2")
        if self.unscored not in ("drop", "keep"):
            raise UserError(f"unscored is {self.unscored!r}", remedy="choose drop or keep")


@dataclass(frozen=True, eq=False)
class KnownRows:
    """The data map of the training rows, in their order."""

    datamap: DataMap
    seed: int = 0
    filter_labels: Callable[[Positions, LabelFilter], Positions] | None = None
    """The rows whose labels stand the test; trains the threshold passes that it takes."""

    def regions(self, *, fraction: float = 1 / 3, stratify: bool = False, disjoint: bool = False) -> Regions:
        """Cartography's sets, which may overlap."""
        self._check()
        return self.datamap.regions(fraction=fraction, stratify=stratify, disjoint=disjoint)

    def partition(self, *, fraction: float = 1 / 3, stratify: bool = False) -> Regions:
        """Three distinct sets."""
        self._check()
        return self.datamap.partition(fraction=fraction, stratify=stratify)

    def clean(self, rows: Positions, rule: LabelFilter) -> Positions:
        if self.filter_labels is None:
            raise UserError(
                "the labels cannot be filtered here: that takes threshold passes",
                remedy="run it with 'calmix train', give data_map=filtered_data_map(plain, make_model), or "
                "turn the filter off with aum_filter=false",
            )
        return self.filter_labels(rows, rule)

    def _check(self) -> None:
        if not self.datamap.has_regions:
            raise UserError(
                "regions need a plain run of at least two epochs",
                remedy=f"give {argument('epochs', '2')} or more",
            )
