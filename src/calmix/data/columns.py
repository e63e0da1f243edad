"""Which columns of a table are what, and the input columns with every value checked.

A table is one of four tasks: `single` (a text), `pair` (a text and a second one), `choice` (a text and a
list of answers of which one is right) or `image`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from calmix.io.arrow_values import ArrowColumn
from calmix.io.json_records import decode_json
from calmix.io.table import DataTable, shorten
from calmix.user_error import UserError, argument

Task = Literal["single", "pair", "choice", "image"]

TASK_NAMES: dict[Task, str] = {
    "single": "single texts",
    "pair": "text pairs",
    "choice": "multiple choice",
    "image": "images",
}
NAMED = ("text", "pair", "choices", "label", "id", "image", "weight", "annotations")
IMAGE_COLUMN = "image"
PAIR_COLUMN = "text_pair"
CHOICES_COLUMN = "choices"
CHOICES_REMEDY = 'write a list of strings, such as ["yes", "no"]'


@dataclass(frozen=True)
class ColumnNames:
    """The names of the columns, as the column options give them.

    `pair` and `choices` of None mean: `text_pair` or `choices` if the file has such a column; `image` of
    None means `image` if the file has such a column and none of texts. `id` of None means that rows are
    numbered.

    >>> ColumnNames(text="sentence", label="sentence")
    Traceback (most recent call last):
    calmix.user_error.UserError: text_column and label_column both name 'sentence'
    """

    text: str = "text"
    pair: str | None = None
    choices: str | None = None
    label: str = "label"
    id: str | None = None
    image: str | None = None
    label_map: tuple[tuple[str, str], ...] = ()
    """What the file writes -> the class."""
    drop_unlabelled: bool = False
    """Leave out rows whose label is missing or -1."""
    weight: str | None = None
    """How much each row counts; None: all alike."""
    annotations: str | None = None
    """Lists of labels, one of each annotator."""
    slice: str | None = None
    """Whose values group the rows of validation and test sets; any column, the label too."""
    label_probs: tuple[str, ...] = ()
    """Columns of probabilities, one of each class, or one pattern such as `label_prob_*`."""
    multi_label: bool = False
    """Rows have several labels, or none."""
    label_separator: str | None = None
    """Between the labels of a row, where they are one text."""
    label_columns: tuple[str, ...] = ()
    """Columns of 0 and 1, one of each label, in place of the label column."""

    def __post_init__(self) -> None:
        if self.pair is not None and self.choices is not None:
            raise UserError(
                f"{argument('pair_column')} and {argument('choices_column')} exclude each other",
                remedy="give one of them",
            )
        if self.annotations is not None and self.label_probs:
            raise UserError(
                f"{argument('annotations_column')} and {argument('label_prob_columns')} exclude each other",
                remedy="give one of them",
            )
        if self.label_columns and (self.label != "label" or self.label_separator is not None):
            other = "label_separator" if self.label_separator is not None else "label_column"
            raise UserError(
                f"{argument('label_columns')} and {argument(other)} exclude each other",
                remedy="give one of them",
            )
        if self.label_separator == "":
            raise UserError(f"{argument('label_separator')} is empty", remedy="give a text such as ;")
        owner: dict[str, str] = {}
        for field in NAMED:
            name = getattr(self, field)
            option = option_name(field)
            if name is None:
                continue
            if not name:
                raise UserError(f"{option} is empty", remedy="give the name of a column")
            if name in owner:
                raise UserError(f"{owner[name]} and {option} both name {name!r}")
            owner[name] = option

    @classmethod
    def from_options(cls, **given: str | None) -> ColumnNames:
        """From options of which those not given are None.

        >>> ColumnNames.from_options(label="stars").label, ColumnNames.from_options().label
        ('stars', 'label')
        """
        named: dict[str, Any] = {field: name for field, name in given.items() if name is not None}
        return cls(**named)

    @property
    def has_label_sets(self) -> bool:
        """Whether rows have several labels, or none: as any of three options says."""
        return self.multi_label or self.label_separator is not None or bool(self.label_columns)

    def with_label_sets(
        self, multi_label: bool, label_separator: str | None, label_columns: tuple[str, ...]
    ) -> ColumnNames:
        """The same columns, with what says that rows have several labels."""
        given = {"multi_label": multi_label, "label_separator": label_separator}
        return replace(self, **given, label_columns=tuple(label_columns))  # type: ignore[arg-type]

    def with_soft_labels(self, annotations: str | None, label_probs: tuple[str, ...]) -> ColumnNames:
        """The same columns, with those of soft labels."""
        return replace(self, annotations=annotations, label_probs=label_probs)

    def with_labels(self, label_map: Mapping[str, Any], *, drop_unlabelled: bool) -> ColumnNames:
        """The same columns, with the labels under other names, or without rows that have none.

        >>> ColumnNames().with_labels({"0": "no"}, drop_unlabelled=True).label_map
        (('0', 'no'),)
        """
        mapped = tuple((str(name), str(value)) for name, value in label_map.items())
        return replace(self, label_map=mapped, drop_unlabelled=drop_unlabelled)


def option_name(field: str) -> str:
    """The option that sets a field of `ColumnNames`.

    >>> str(UserError(f"no {option_name('pair')}"))
    'no pair_column'
    """
    return argument(f"{field}_column")


def find_task(table: DataTable, columns: ColumnNames, expected: Task | None = None) -> Task:
    """The task that the columns of a table make; an error if it is not the expected one."""
    task = _task_of_columns(table, columns)
    if expected is None or task == expected:
        return task
    if expected == "pair":
        raise table.missing_column(columns.pair or PAIR_COLUMN, option_name("pair"))
    if expected == "choice":
        raise table.missing_column(columns.choices or CHOICES_COLUMN, option_name("choices"))
    if expected == "image":
        raise table.missing_column(columns.image or IMAGE_COLUMN, option_name("image"))
    if task == "image":
        raise table.missing_column(columns.text, option_name("text"))
    raise UserError(
        f"{TASK_NAMES[task]} where {TASK_NAMES[expected]} are expected, as in training",
        file=table.source,
        remedy=f"remove or rename the column {PAIR_COLUMN if task == 'pair' else CHOICES_COLUMN!r}",
    )


def _task_of_columns(table: DataTable, columns: ColumnNames) -> Task:
    if columns.pair is not None:
        return "pair"
    if columns.choices is not None:
        return "choice"
    if columns.image is not None or (IMAGE_COLUMN in table.names and columns.text not in table.names):
        return "image"
    has_pair, has_choices = PAIR_COLUMN in table.names, CHOICES_COLUMN in table.names
    if has_pair and has_choices:
        raise UserError(
            f"both a column {PAIR_COLUMN!r} and a column {CHOICES_COLUMN!r}",
            file=table.source,
            remedy=f"say which counts with {argument('pair_column')} or {argument('choices_column')}",
        )
    return "pair" if has_pair else "choice" if has_choices else "single"


def read_texts(table: DataTable, column: str, option: str) -> Sequence[str]:
    """A column of texts, none of them empty."""
    values = table.column(column, option)
    for row, value in enumerate(values, start=1):
        _check_text(table, value, row, column, "text")
    return values


def read_choices(table: DataTable, column: str) -> list[list[str]]:
    """A column of lists of texts, all equally long; in csv and tsv each is a JSON list in its cell."""
    lists: list[list[str]] = []
    for row, value in enumerate(table.column(column, option_name("choices")), start=1):
        choices = _parse_list(table, value, row, column)
        for choice in choices:
            _check_text(table, choice, row, column, "choice")
        if len(choices) < 2:
            raise table.error("fewer than 2 choices", row, column, CHOICES_REMEDY)
        if lists and len(choices) != len(lists[0]):
            raise table.error(
                f"{len(choices)} choices where row 1 has {len(lists[0])}",
                row,
                column,
                "every row needs the same number of choices",
            )
        lists.append(choices)
    return lists


def _parse_list(table: DataTable, value: Any, row: int, column: str) -> list[Any]:
    if isinstance(value, str):
        try:
            value = decode_json(value)
        except ValueError:
            raise table.error(f"not a list: {shorten(value)!r}", row, column, CHOICES_REMEDY) from None
    if not isinstance(value, list):
        problem = "no choices" if value is None else f"not a list: {shorten(str(value))}"
        raise table.error(problem, row, column, CHOICES_REMEDY)
    return value


def _check_text(table: DataTable, value: Any, row: int, column: str, noun: str) -> None:
    if not isinstance(value, str):
        if value is None:
            raise table.error(f"empty {noun}", row, column, "remove the row or fill it in")
        raise table.error(f"not a {noun}: {shorten(str(value))}", row, column, "put it in quotes")
    if not value.strip():
        raise table.error(f"empty {noun}", row, column, "remove the row or fill it in")


def read_ids(table: DataTable, columns: ColumnNames, split: str) -> Sequence[str]:
    """The id column, every id once, or `split-n` with n the row in the file."""
    if columns.id is None:
        # Rows keep their numbers where others are dropped: an id names one row in all files made from this.
        rows = np.arange(1, table.row_count + 1) if table.kept is None else np.asarray(table.kept, np.int64)
        numbers = pa.array(rows).cast(pa.string())
        named = pc.binary_join_element_wise(f"{split}-", numbers, "")
        return ArrowColumn(pa.chunked_array([named]), table.source, "row_id")
    ids: list[str] = []
    for row, value in enumerate(table.column(columns.id, option_name("id")), start=1):
        if isinstance(value, bool) or not isinstance(value, int | str):
            problem = "empty id" if value is None else f"not an id: {shorten(str(value))}"
            raise table.error(problem, row, columns.id, "use texts or whole numbers")
        row_id = str(value).strip()
        if not row_id:
            raise table.error("empty id", row, columns.id)
        if "\0" in row_id:  # arrays would drop it at the end of a text
            raise table.error("an id with a NUL character", row, columns.id, "remove the character")
        ids.append(row_id)
    if pc.count_distinct(pa.array(ids)).as_py() < len(ids):
        first_row: dict[str, int] = {}
        for row, row_id in enumerate(ids, start=1):
            if first_row.setdefault(row_id, row) != row:
                raise table.error(
                    f"the id {shorten(row_id)!r} is already in row {table.number(first_row[row_id])}",
                    row,
                    columns.id,
                    "every row needs an id of its own",
                )
    return ids
