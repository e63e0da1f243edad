"""From a file, a directory of splits or a hub name to `Rows`."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from calmix.data.columns import (
    CHOICES_COLUMN,
    IMAGE_COLUMN,
    PAIR_COLUMN,
    ColumnNames,
    Task,
    find_task,
    option_name,
    read_choices,
    read_ids,
    read_texts,
)
from calmix.data.image_sources import read_images
from calmix.data.labels import has_labels, read_choice_labels, read_labels
from calmix.data.rows import Rows
from calmix.data.sources import read_source
from calmix.io.table import Table
from calmix.user_error import UserError


def read_rows(
    source: str | Path,
    split: str = "input",
    columns: ColumnNames | None = None,
    label_names: tuple[str, ...] | None = None,
    labelled: bool | Literal["auto"] = True,
    task: Task | None = None,
    name: str | None = None,
) -> Rows:
    """The rows of one split, every value checked.

    `split` picks the file where `source` is a directory or a hub name. Row ids begin with `name`, by
    default the split.
    `label_names` and `task` are those of the training data: another label or task is then an error.
    `labelled="auto"` takes the labels if there are any.
    """
    return rows_from_table(
        read_source(source, split), name or split, columns or ColumnNames(), label_names, labelled, task
    )


def rows_from_table(
    table: Table,
    name: str,
    columns: ColumnNames,
    label_names: tuple[str, ...] | None = None,
    labelled: bool | Literal["auto"] = True,
    task: Task | None = None,
) -> Rows:
    """The rows of a table; see `read_rows`."""
    if task == "image" or (task is None and find_task(table, columns) == "image"):
        return _image_rows(table, name, columns, label_names, labelled)
    texts = read_texts(table, columns.text, option_name("text"))
    found = find_task(table, columns, task)
    pairs = choices = labels = None
    if found == "pair":
        pairs = read_texts(table, columns.pair or PAIR_COLUMN, option_name("pair"))
    elif found == "choice":
        choices = read_choices(table, columns.choices or CHOICES_COLUMN)
        if label_names is not None and len(choices[0]) != len(label_names):
            raise UserError(
                f"{len(choices[0])} choices in every row where training has {len(label_names)}",
                file=table.source,
                column=columns.choices or CHOICES_COLUMN,
            )
        label_names = tuple(str(index) for index in range(len(choices[0])))
    if _reads_labels(table, columns, labelled):
        if choices is not None:
            labels = read_choice_labels(table, columns.label, len(choices[0]))
        else:
            labels, label_names = read_labels(table, columns.label, label_names)
    return Rows.from_columns(
        read_ids(table, columns, name),
        texts,
        pairs=pairs,
        choices=choices,
        labels=labels,
        label_names=label_names or (),
        source=table.source,
    )


def _image_rows(
    table: Table,
    name: str,
    columns: ColumnNames,
    label_names: tuple[str, ...] | None,
    labelled: bool | Literal["auto"],
) -> Rows:
    images, facts = read_images(table, columns.image or IMAGE_COLUMN, option_name("image"))
    labels = None
    if _reads_labels(table, columns, labelled):
        if Path(table.source).is_dir() and columns.label not in table.names:
            raise UserError(
                "no labels: the images lie in no folders of classes",
                file=table.source,
                remedy="put them into one folder per class",
            )
        labels, label_names = read_labels(table, columns.label, label_names)
    return Rows.from_images(
        read_ids(table, columns, name),
        images,
        facts=facts,
        labels=labels,
        label_names=label_names or (),
        source=table.source,
    )


def _reads_labels(table: Table, columns: ColumnNames, labelled: bool | Literal["auto"]) -> bool:
    if labelled != "auto":
        return labelled
    # A label column that was asked for by name must be there.
    asked_for = columns.label != ColumnNames().label
    return asked_for or has_labels(table, columns.label)
