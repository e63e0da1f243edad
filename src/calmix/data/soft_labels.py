"""Soft labels and weights of rows: probabilities in columns, the labels of several annotators, numbers.

    label_prob_no,label_prob_yes        0.2,0.8            columns of probabilities, one of each class
    annotations                         ["no", "yes"]      lists of labels: their shares are the soft label

The label of such a row, for accuracy-like summaries, dynamics and stratified splits, is the class with the
largest share; of equal shares the first class in the order of the classes.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calmix.data.columns import ColumnNames, option_name
from calmix.data.labels import is_missing, label_text, sorted_label_names, whole_number_text
from calmix.io.json_records import decode_json
from calmix.io.table import DataTable, shorten
from calmix.user_error import UserError, argument

PREFIX = "label_prob_"
# Files rounded to three digits sum to 1 within this; anything further off is no distribution.
TOLERANCE = 1e-2


@dataclass(frozen=True, eq=False)
class SoftLabels:
    """A distribution over classes for every row."""

    probabilities: NDArray[np.float64]
    label_names: tuple[str, ...]

    def as_table(self, table: DataTable, column: str) -> DataTable:
        """The table with the most probable class of every row in the label column."""
        labels = [self.label_names[place] for place in self.probabilities.argmax(axis=1)]

        def read_column(name: str) -> Sequence[Any]:
            return labels if name == column else table.read_column(name)

        names = table.names if column in table.names else (*table.names, column)
        return DataTable(table.source, names, table.row_count, read_column, table.dropped, table.kept)


def has_probability_columns(table: DataTable, columns: ColumnNames) -> bool:
    return bool(probability_columns(table.names, columns.label_probs))


def has_soft_labels(table: DataTable, columns: ColumnNames, *, is_train: bool) -> bool:
    """Whether a table has the soft labels that were asked for. One with hard labels may stand in for them,
    but for the training file."""
    if columns.annotations is None and not columns.label_probs:
        return False
    if columns.annotations is not None:
        is_there = columns.annotations in table.names
    else:
        is_there = has_probability_columns(table, columns)
    if not is_there and (is_train or columns.label not in table.names):
        if columns.annotations is not None:
            raise table.missing_column(columns.annotations, argument("annotations_column"))
        raise table.missing_column(columns.label_probs[0], argument("label_prob_columns"))
    return is_there


def probability_columns(names: Sequence[str], wanted: Sequence[str]) -> dict[str, str]:
    """Class -> column. A class is what a column is called, without the prefix or the fixed part of a pattern.

    >>> probability_columns(["text", "label_prob_no", "label_prob_yes"], ["label_prob_*"])
    {'no': 'label_prob_no', 'yes': 'label_prob_yes'}
    >>> probability_columns(["text", "p_no", "p_yes"], ["p_no", "p_yes"])
    {'p_no': 'p_no', 'p_yes': 'p_yes'}
    """
    found: dict[str, str] = {}
    for pattern in wanted:
        before, star, after = pattern.partition("*")
        for name in names:
            if star and fnmatch.fnmatchcase(name, pattern):
                label = name[len(before) : len(name) - len(after)]
            elif name == pattern:
                label = name.removeprefix(PREFIX)
            else:
                continue
            label = whole_number_text(label) or label
            if found.setdefault(label, name) != name:
                raise UserError(
                    f"{argument('label_prob_columns')}: {shorten(found[label])!r} and {shorten(name)!r} are "
                    f"both the probability of the class {shorten(label)!r}",
                    remedy="name one column for each class",
                )
    return found


def read_soft_labels(
    table: DataTable, columns: ColumnNames, label_names: tuple[str, ...] | None
) -> SoftLabels:
    """The soft labels of a table; `label_names` are those of the training data."""
    if columns.annotations is not None:
        return _read_annotations(table, columns.annotations, label_names)
    return _read_probabilities(table, columns, label_names)


def _read_annotations(table: DataTable, column: str, label_names: tuple[str, ...] | None) -> SoftLabels:
    option = argument("annotations_column")
    given: list[list[str]] = []
    for row, value in enumerate(table.column(column, option), start=1):
        labels = _annotations_of(table, value, row, column)
        given.append([whole_number_text(label) or label for label in labels])
    names = label_names or sorted_label_names([label for labels in given for label in labels])
    places = {name: place for place, name in enumerate(names)}
    counts = np.zeros((len(given), len(names)))
    for row, labels in enumerate(given):
        for label in labels:
            if label not in places:
                problem = f"the annotation {shorten(label)!r} does not occur in training"
                raise table.error(problem, row + 1, column, f"the labels are: {', '.join(names[:20])}")
            counts[row, places[label]] += 1
    return SoftLabels(counts / counts.sum(axis=1, keepdims=True), names)


def _annotations_of(table: DataTable, value: Any, row: int, column: str) -> list[str]:
    remedy = 'write a list of labels, such as ["yes", "no", "yes"]'
    if isinstance(value, str):
        try:
            value = decode_json(value)
        except ValueError:
            raise table.error(f"not a list: {shorten(value)!r}", row, column, remedy) from None
    if not isinstance(value, list):
        problem = "no annotations" if is_missing(value) else f"not a list: {shorten(str(value))}"
        raise table.error(problem, row, column, remedy)
    labels = []
    for part in value:
        try:
            text = label_text(part)
        except ValueError as error:
            raise table.error(f"the annotation {error}", row, column, remedy) from None
        if text is not None:  # an annotator who did not answer
            labels.append(text)
    if not labels:
        raise table.error("no annotations", row, column, "remove the row or fill it in")
    return labels


def _read_probabilities(
    table: DataTable, columns: ColumnNames, label_names: tuple[str, ...] | None
) -> SoftLabels:
    option = argument("label_prob_columns")
    for name in columns.label_probs:
        if "*" not in name and name not in table.names:
            raise table.missing_column(name, option)
    found = probability_columns(table.names, columns.label_probs)
    if len(found) < 2:
        raise UserError(
            f"{option}: {len(found)} columns of probabilities",
            file=table.source,
            remedy="name one column for each class",
        )
    names = sorted_label_names(list(found))
    if label_names is not None and set(names) != set(label_names):
        raise UserError(
            f"probabilities of the classes {', '.join(names)} where training has {', '.join(label_names)}",
            file=table.source,
            remedy="give every file the same columns of probabilities",
        )
    names = label_names or names
    values = np.column_stack([read_numbers(table, found[name], option) for name in names])
    outside = np.argwhere((values < 0) | (values > 1 + TOLERANCE))
    if len(outside):
        row, place = (int(index) for index in outside[0])
        problem = f"a probability must lie in [0, 1], not {values[row, place]:g}"
        raise table.error(problem, row + 1, found[names[place]], "give shares of the annotators")
    sums = values.sum(axis=1)
    wrong = np.flatnonzero(np.abs(sums - 1) > TOLERANCE)
    if len(wrong):
        row = int(wrong[0])
        raise table.error(
            f"the probabilities of the classes sum to {sums[row]:g}, not to 1",
            row + 1,
            found[names[0]],
            "divide every row by its sum",
        )
    return SoftLabels(values / sums[:, None], names)


def read_weights(table: DataTable, column: str) -> NDArray[np.float64]:
    """How much each row counts: finite numbers of at least 0, not all of them 0."""
    weights = read_numbers(table, column, option_name("weight"))
    negative = np.flatnonzero(weights < 0)
    if len(negative):
        row = int(negative[0])
        raise table.error(f"a negative weight, {weights[row]:g}", row + 1, column, "give 0 or more")
    if not weights.any():
        raise UserError(
            "all weights are 0", file=table.source, column=column, remedy="give some row a weight above 0"
        )
    return weights


def read_numbers(table: DataTable, column: str, option: str) -> NDArray[np.float64]:
    """A column of finite numbers."""
    values = np.empty(table.row_count)
    for row, value in enumerate(table.column(column, option), start=1):
        try:
            # Python's own spelling 1_000 is in no file a number.
            number = np.nan if isinstance(value, bool) or "_" in str(value) else float(value)
        except (TypeError, ValueError):
            number = np.nan
        if not np.isfinite(number):
            problem = "no value" if is_missing(value) else f"not a number: {shorten(str(value))}"
            raise table.error(problem, row, column, "remove the row or write a finite number")
        values[row - 1] = number
    return values
