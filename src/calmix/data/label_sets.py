"""Labels of rows that have several, or none.

    label                ["joy", "anger"]      a list of names (in csv a JSON list)
    label                joy;anger             one text, with `label_separator` between the names
    joy,anger            1,0                   `label_columns`: columns of 0 and 1, one of each label

The labels are those of the training file, sorted as classes are; columns keep the order they are given in.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from calmix.data.columns import ColumnNames, option_name
from calmix.data.labels import is_missing, label_text, sorted_label_names, whole_number_text
from calmix.io.arrow_values import listed_values
from calmix.io.table import DataTable, shorten
from calmix.user_error import UserError, argument

LISTED = 20

LabelSets = tuple[list[list[int]], tuple[str, ...]]
"""The indices of every row's labels in order, and the names of all labels."""


def has_label_sets(table: DataTable, columns: ColumnNames) -> bool:
    """Whether the table says which labels its rows have."""
    if columns.label_columns:
        return all(name in table.names for name in columns.label_columns)
    return columns.label in table.names


def read_label_sets(
    table: DataTable, columns: ColumnNames, label_names: tuple[str, ...] | None = None
) -> LabelSets:
    """The labels of every row; `label_names` are those of the training data."""
    if columns.label_columns:
        return _from_columns(table, columns.label_columns, label_names)
    column = columns.label
    given = [
        _names_of(table, value, row, column, columns.label_separator)
        for row, value in enumerate(table.column(column, option_name("label")), start=1)
    ]
    names = label_names or sorted_label_names([one for row in given for one in row])
    if label_names is None:
        check_label_count(names, table.source, column)
    places = {name: place for place, name in enumerate(names)}
    sets = []
    for row, labels in enumerate(given, start=1):
        unknown = next((one for one in labels if one not in places), None)
        if unknown is not None:
            listed = ", ".join(names[:LISTED]) + (" ..." if len(names) > LISTED else "")
            raise table.error(
                f"the label {shorten(unknown)!r} does not occur in training",
                row,
                column,
                f"the labels are: {listed}",
            )
        sets.append(sorted({places[one] for one in labels}))
    return sets, names


def check_label_count(names: Sequence[str], source: str, column: str) -> None:
    """Refuse training data without a choice of labels."""
    if len(names) < 2:
        problem = f"the only label is {shorten(names[0])!r}" if names else "no row has a label"
        remedy = "training needs at least two labels; with one, name its absence and train two classes"
        raise UserError(problem, file=source, column=column, remedy=remedy)


def _names_of(table: DataTable, value: Any, row: int, column: str, separator: str | None) -> list[str]:
    option = argument("label_separator", ";")
    try:
        # A missing value is NaN in columns of floats.
        listed = listed_values(None if is_missing(value) else value, separator)
        texts = [label_text(one) for one in listed]
    except ValueError as error:
        remedy = f'write ["a", "b"], [] where there is none, or give {option}'
        raise table.error(str(error), row, column, remedy) from None
    if None in texts:
        raise table.error("an empty name among the labels", row, column, "remove it or fill it in")
    return [whole_number_text(text) or text for text in texts if text is not None]


def _from_columns(table: DataTable, columns: Sequence[str], label_names: tuple[str, ...] | None) -> LabelSets:
    names = label_names or tuple(columns)
    if set(names) != set(columns):
        raise UserError(
            f"the columns of labels are {', '.join(columns[:LISTED])}, the labels of training "
            f"{', '.join(names[:LISTED])}",
            file=table.source,
            remedy=f"name the columns of the same labels with {argument('label_columns')}",
        )
    sets: list[list[int]] = [[] for _ in range(table.row_count)]
    check_label_count(columns, table.source, columns[0])
    for place, column in enumerate(names):
        for row, value in enumerate(table.column(column, argument("label_columns")), start=1):
            if _is_set(table, value, row, column):
                sets[row - 1].append(place)
    if label_names is None and not any(sets):
        raise UserError("no row has a label", file=table.source, column=columns[0])
    return sets, names


def _is_set(table: DataTable, value: Any, row: int, column: str) -> bool:
    text = str(value).strip().lower() if not is_missing(value) else ""
    known = {"1": True, "1.0": True, "true": True, "0": False, "0.0": False, "false": False}
    if text not in known:
        problem = "no value" if not text else f"a label is 0 or 1, not {shorten(str(value))!r}"
        raise table.error(problem, row, column, "write 1 where the row has the label, else 0")
    return known[text]
