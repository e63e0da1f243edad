"""The table that `calmix predict` writes: the columns of the input, then the predictions.

row_id, the columns of the input, then predicted_label, prob_<class>.., confidence [, accept] [, reject_ood]

Where a row may have several labels: row_id, the columns of the input, then predicted_labels (a list; in csv a
JSON list) and prob_<label>.., each between 0 and 1 on its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from scipy.special import expit, softmax

from calmix.calibration.conformal import ConformalSets
from calmix.calibration.multi_label.label_thresholds import threshold_array
from calmix.inference.acceptance import Acceptance
from calmix.inference.prediction_sets import set_columns

ROW_ID, PREDICTED, PREDICTED_LABELS = "row_id", "predicted_label", "predicted_labels"


@dataclass(frozen=True)
class Answers:
    """What a classifier says about rows: calibrated logits [rows, classes] and which rows were cut."""

    row_ids: NDArray[np.str_]
    logits: NDArray[np.floating[Any]]
    label_names: tuple[str, ...]
    truncated: NDArray[np.bool_]
    max_length: int | None
    multi_label: bool = False
    thresholds: Mapping[str, float] = field(default_factory=dict)
    """Of several labels: from which probability on each is predicted; 0.5 where none is known."""

    def probabilities(self) -> NDArray[np.float64]:
        if self.multi_label:
            return np.asarray(expit(self.logits.astype(np.float64)))
        return np.asarray(softmax(self.logits.astype(np.float64), axis=1))

    def predicted_labels(self) -> list[list[str]]:
        """Of several labels: those of every row whose probability reaches their threshold."""
        has_it = self.probabilities() >= threshold_array(self.thresholds, self.label_names)
        return [[self.label_names[place] for place in np.flatnonzero(row)] for row in has_it]

    def columns(self, acceptance: Acceptance, sets: ConformalSets | None = None) -> dict[str, Any]:
        probabilities = self.probabilities()
        if self.multi_label:
            lists = pa.array(self.predicted_labels(), pa.list_(pa.string()))
            columns = {f"prob_{name}": probabilities[:, k] for k, name in enumerate(self.label_names)}
            return {PREDICTED_LABELS: lists, **columns}
        found: dict[str, Any] = {
            PREDICTED: [self.label_names[index] for index in probabilities.argmax(axis=1)],
            **{f"prob_{name}": probabilities[:, index] for index, name in enumerate(self.label_names)},
            "confidence": probabilities.max(axis=1),
        }
        accepted, rejected = acceptance.accepts(self.logits), acceptance.rejects(self.logits)
        if accepted is not None:
            found["accept"] = accepted
        if rejected is not None:
            found["reject_ood"] = rejected
        if sets is not None:
            found |= set_columns(sets, probabilities, self.label_names)
        return found


def answer_table(
    answers: Answers,
    acceptance: Acceptance,
    beside: Mapping[str, pa.Array],
    *,
    id_column: str | None = None,
    sets: ConformalSets | None = None,
) -> tuple[pa.Table, dict[str, str]]:
    """The table, and the columns of the input that had to be renamed, {old: new}: the name of an answer
    belongs to the answer. `id_column` is where the row ids come from, if it is a column of the input."""
    own = answers.columns(acceptance, sets)
    # The same values under the same name stand there once.
    beside = {name: values for name, values in beside.items() if not name == id_column == ROW_ID}
    renamed = renamed_columns(list(beside), [ROW_ID, *own])
    columns: dict[str, Any] = {ROW_ID: answers.row_ids}
    columns |= {renamed.get(name, name): values for name, values in beside.items()}
    return pa.table(columns | own), renamed


def renamed_columns(given: Sequence[str], taken: Iterable[str]) -> dict[str, str]:
    """New names for those of `given` that are taken.

    >>> renamed_columns(["text", "confidence", "input_confidence"], ["confidence"])
    {'confidence': 'input_confidence_2'}
    """
    clashing = set(taken)
    used = {*given, *clashing}
    new: dict[str, str] = {}
    for name in given:
        if name not in clashing:
            continue
        candidate, number = f"input_{name}", 2
        while candidate in used:
            candidate, number = f"input_{name}_{number}", number + 1
        used.add(candidate)
        new[name] = candidate
    return new
