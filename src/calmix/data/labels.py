"""Labels: the names of classes in a file, and their indices.

The classes of a file are sorted: as numbers if every label is a whole number, otherwise as texts. A
label means the same in every format: `1`, `"1"` and `1.0` are the class "1", a truth value is the class
"False" or "True", blanks around a name do not count. `0.5` is no class.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calmix.data.columns import option_name
from calmix.io.arrow_values import values_at
from calmix.io.table import DataTable, shorten
from calmix.user_error import UserError, argument

# "01" and "+1" stay names: to read them as numbers would merge classes that the file keeps apart.
WHOLE_NUMBER = re.compile(r"(-?(?:0|[1-9][0-9]{0,17}))(?:\.0+)?")
FRACTION = re.compile(r"-?[0-9]*\.[0-9]+")
LISTED_LABELS = 20


def label_text(value: Any) -> str | None:
    """The label as a text; None if it is missing. A fraction or a structure is a ValueError.

    >>> label_text(" positive "), label_text(True), label_text(3), label_text(3.0)
    ('positive', 'True', '3', '3')
    >>> label_text(None), label_text(""), label_text(float("nan"))
    (None, None, None)
    """
    if is_missing(value):
        return None
    if isinstance(value, str):
        return value.strip()
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float | Decimal) and math.isfinite(value) and value == int(value):
        return str(int(value))
    raise ValueError(f"{shorten(str(value))} is neither a name nor a whole number")


def is_missing(value: Any) -> bool:
    """Whether a cell is empty: null, blank, or the NaN that stands for null in columns of floats."""
    if isinstance(value, str):
        return not value.strip()
    return value is None or (isinstance(value, float) and math.isnan(value))


def whole_number_text(text: str) -> str | None:
    """A whole number in its shortest spelling; None for any other text.

    >>> whole_number_text("4.0"), whole_number_text("-1"), whole_number_text("04"), whole_number_text("x")
    ('4', '-1', None, None)
    """
    match = WHOLE_NUMBER.fullmatch(text)
    return None if match is None else str(int(match[1]))


def sorted_label_names(texts: Sequence[str]) -> tuple[str, ...]:
    """The classes among labels: in numerical order if all are whole numbers, else in alphabetical.

    >>> sorted_label_names(["10", "2", "2.0"]), sorted_label_names(["b", "10", "2", "2.0"])
    (('2', '10'), ('10', '2', 'b'))
    """
    classes = {whole_number_text(text) or text for text in set(texts)}
    are_numbers = all(whole_number_text(text) for text in classes)
    return tuple(sorted(classes, key=int if are_numbers else None))


def read_labels(
    table: DataTable, column: str, label_names: tuple[str, ...] | None = None
) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """The class index of every row and the class names: those given, or those of this file."""
    texts = read_label_texts(table, column)
    if label_names is None:
        _refuse_fractions(table, column, texts)
        label_names = sorted_label_names(texts)
    index = {name: position for position, name in enumerate(label_names)}
    indices = np.empty(len(texts), dtype=np.int64)
    for row, text in enumerate(texts, start=1):
        position = index.get(text)
        if position is None:
            position = index.get(whole_number_text(text) or text)
        if position is None:
            raise table.error(
                f"the label {shorten(text)!r} does not occur in training",
                row,
                column,
                f"the labels are: {_listed(label_names)}",
            )
        indices[row - 1] = position
    return indices, label_names


def read_choice_labels(table: DataTable, column: str, choice_count: int) -> NDArray[np.int64]:
    """The index of the right choice of every row, counted from 0."""
    indices = np.empty(table.row_count, dtype=np.int64)
    for row, text in enumerate(read_label_texts(table, column), start=1):
        number = whole_number_text(text)
        if number is None or not 0 <= int(number) < choice_count:
            raise table.error(
                f"the label {shorten(text)!r} is not the index of a choice",
                row,
                column,
                f"use 0 to {choice_count - 1}, 0 for the first choice",
            )
        indices[row - 1] = int(number)
    return indices


def read_label_texts(table: DataTable, column: str) -> list[str]:
    """The labels of a table as texts, none of them missing."""
    texts: list[str] = []
    for row, value in enumerate(table.column(column, option_name("label")), start=1):
        try:
            text = label_text(value)
        except ValueError as error:
            several = f"give {argument('multi_label')} where rows have several labels"
            remedy = several if isinstance(value, list) else None
            raise table.error(f"the label {error}", row, column, remedy) from None
        if text is None:
            raise table.error("no label", row, column, "remove the row or fill it in")
        texts.append(sys.intern(text))  # one object for each class, not for each row
    return texts


def map_labels(
    table: DataTable,
    column: str,
    labels: Mapping[str, str],
    *,
    drop: Sequence[str] = (),
    drops_missing: bool = False,
) -> DataTable:
    """The table with its labels renamed, without the rows whose label is in `drop` or missing.

    With a map, a label that is neither one of its keys nor of its values is an error: a class would otherwise
    be there twice. `dropped` of the table counts the rows that were left out.

    >>> values = {"text": ["a", "b", "c"], "label": [0, 1, -1]}
    >>> table = DataTable("x.csv", ("text", "label"), 3, values.__getitem__)
    >>> mapped = map_labels(table, "label", {"0": "no", "1": "yes"}, drop=["-1"])
    >>> mapped.read_column("label"), mapped.read_column("text"), mapped.dropped
    (['no', 'yes'], ['a', 'b'], 1)
    """
    if column not in table.names or not (labels or drop or drops_missing):
        return table
    targets = set(labels.values())
    kept: list[int] = []
    found: list[Any] = []
    for row, value in enumerate(table.read_column(column), start=1):
        try:
            text = label_text(value)
        except ValueError as error:
            raise table.error(f"the label {error}", row, column) from None
        if (text is None and drops_missing) or (text is not None and text in drop):
            continue
        if labels and text is not None:
            if text not in labels and text not in targets:
                known = ", ".join(shorten(name) for name in labels)
                problem = f"no label map knows the label {shorten(text)!r}"
                raise table.error(problem, row, column, f"the map has: {known}")
            text = labels.get(text, text)
        kept.append(row - 1)
        found.append(text if text is not None else value)

    def read_column(name: str) -> Sequence[Any]:
        if name == column:
            return found
        values = table.read_column(name)
        return values_at(values, kept) if len(kept) < table.row_count else values

    dropped = table.dropped + table.row_count - len(kept)
    numbers = [table.number(row + 1) for row in kept] if dropped else None
    return DataTable(table.source, table.names, len(kept), read_column, dropped, numbers)


def has_labels(table: DataTable, column: str) -> bool:
    """Whether the table has the column and a label in any row of it."""
    if column not in table.names:
        return False
    return not all(map(is_missing, table.column(column, option_name("label"))))


def check_class_count(label_names: tuple[str, ...], source: str, column: str) -> None:
    """Refuse training data of one class: there is nothing to learn."""
    if len(label_names) < 2:
        raise UserError(
            f"every row has the label {shorten(label_names[0])!r}",
            file=source,
            column=column,
            remedy="training needs at least two classes",
        )


def _refuse_fractions(table: DataTable, column: str, texts: Sequence[str]) -> None:
    # In csv 0.5 comes as a text. Where all labels are numbers it is a score to predict, not a class.
    classes = set(texts)
    fractions = {text for text in classes if FRACTION.fullmatch(text) and not whole_number_text(text)}
    if fractions and all(text in fractions or whole_number_text(text) for text in classes):
        row = next(row for row, text in enumerate(texts, start=1) if text in fractions)
        problem = f"the label {shorten(texts[row - 1])} is neither a name nor a whole number"
        raise table.error(problem, row, column)


def _listed(names: Sequence[str]) -> str:
    listed = ", ".join(shorten(name) for name in names[:LISTED_LABELS])
    rest = len(names) - LISTED_LABELS
    return f"{listed} and {rest} more" if rest > 0 else listed
