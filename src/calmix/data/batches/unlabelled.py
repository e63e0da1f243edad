"""Labelled rows with unlabelled ones behind them, as one training set."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calmix.data.batches.encoding import EncodedRows
from calmix.user_error import UserError

NO_LABEL = -1


@dataclass(frozen=True)
class WithUnlabelled:
    """A map-style dataset; the label of an unlabelled row is −1. Only a teacher can say anything about it."""

    labelled: EncodedRows
    unlabelled: EncodedRows

    def __len__(self) -> int:
        return len(self.labelled) + len(self.unlabelled)

    def __getitem__(self, position: int) -> dict[str, Any]:
        known = len(self.labelled)
        if position < known:
            return self.labelled[position]
        return {**self.unlabelled[position - known], "labels": NO_LABEL}

    @property
    def labels(self) -> NDArray[np.int64]:
        assert self.labelled.labels is not None
        return np.concatenate([self.labelled.labels, np.full(len(self.unlabelled), NO_LABEL, np.int64)])

    @property
    def row_ids(self) -> NDArray[np.str_]:
        return np.concatenate([self.labelled.row_ids, self.unlabelled.row_ids])

    @property
    def lengths(self) -> NDArray[np.int64]:
        return np.concatenate([self.labelled.lengths, self.unlabelled.lengths])

    @property
    def is_choice(self) -> bool:
        return self.labelled.is_choice

    @property
    def sequences_per_row(self) -> int:
        return self.labelled.sequences_per_row


def labelled_count(labels: NDArray[np.int64]) -> int:
    """How many rows have a label. Those without stand last, so that positions of the others mean the same.

    >>> labelled_count(np.array([1, 0, -1])), labelled_count(np.array([1, 0]))
    (2, 2)
    """
    missing = np.flatnonzero(labels < 0)
    count = int(missing[0]) if len(missing) else len(labels)
    if len(missing) != len(labels) - count:
        raise UserError("rows without a label (−1) stand among those with one", remedy="put them last")
    return count
