"""From a file, a directory of splits or a hub name to `Rows`."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import replace
from pathlib import Path
from typing import Literal, NamedTuple

import pyarrow as pa

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
from calmix.data.images.sources import read_images
from calmix.data.label_sets import has_label_sets, read_label_sets
from calmix.data.labels import has_labels, is_missing, map_labels, read_choice_labels, read_labels
from calmix.data.rows import Rows
from calmix.data.soft_labels import (
    has_probability_columns,
    has_soft_labels,
    read_soft_labels,
    read_weights,
)
from calmix.data.sources import read_source, source_file
from calmix.io.memory_tables import is_in_memory
from calmix.io.table import DataTable
from calmix.user_error import UserError, argument

# The rows of a command's files: training, validation and some test sets.
MOST_PARSED = 8
SETTLED_NANOSECONDS = 100_000_000
_parsed: OrderedDict[Hashable, Rows] = OrderedDict()


class Request(NamedTuple):
    """What is asked of a table; see `read_rows`."""

    name: str
    columns: ColumnNames
    label_names: tuple[str, ...] | None = None
    labelled: bool | Literal["auto"] = True
    task: Task | None = None


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

    A file is parsed once in a process: the stages of a command share its rows as long as it does not change.
    """
    request = Request(name or split, columns or ColumnNames(), label_names, labelled, task)
    file = source_file(source, split)
    # Where rows are in memory, their name says what they hold.
    state = (split,) if is_in_memory(source) else _file_state(file)
    if state is None:
        return rows_from_table(read_source(source, split), request)
    key = (str(file or source), state, request)
    if key in _parsed:
        _parsed.move_to_end(key)
        return _parsed[key]
    rows = rows_from_table(read_source(source, split), request)
    # The images that a file names by their paths may change without it.
    if not (rows.task == "image" and rows.table.column("image").type == pa.string()):
        _parsed[key] = rows
        if len(_parsed) > MOST_PARSED:
            _parsed.popitem(last=False)
    return rows


def _file_state(file: Path | None) -> tuple[Hashable, ...] | None:
    """What changes when a file does; None where that is unknown.

    A file that was written a moment ago may be written again within one tick of the file system's clock.
    """
    try:
        found = None if file is None else file.stat()
    except (OSError, ValueError):
        return None
    if found is None or time.time_ns() - found.st_mtime_ns < SETTLED_NANOSECONDS:
        return None
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


def rows_from_table(table: DataTable, request: Request) -> Rows:
    """The rows of a table."""
    columns = request.columns
    if columns.has_label_sets:
        return _with_label_sets(table, request)
    if _reads_labels(table, request) and columns.label in table.names:
        unlabelled = ("-1",) if columns.drop_unlabelled else ()
        mapping = dict(columns.label_map)
        table = map_labels(
            table, columns.label, mapping, drop=unlabelled, drops_missing=columns.drop_unlabelled
        )
        if not table.row_count:
            raise UserError("no row has a label", file=table.source, column=columns.label)
    soft = None
    is_train = request.label_names is None
    if _reads_labels(table, request) and has_soft_labels(table, columns, is_train=is_train):
        soft = read_soft_labels(table, columns, request.label_names)
        table = soft.as_table(table, columns.label)
        request = request._replace(label_names=soft.label_names)
    rows = _rows_of(table, request)
    if soft is not None:
        rows = rows.with_column("label_probs", soft.probabilities.tolist())
    if columns.weight is not None and rows.is_labelled:
        rows = rows.with_column("weight", read_weights(table, columns.weight))
    # Rows that are only trained on need no group.
    is_needed = rows.is_labelled and request.name not in ("train", "validation")
    if columns.slice is not None and (columns.slice in table.names or is_needed):
        values = table.column(columns.slice, argument("slice"))
        rows = rows.with_column("slice", ["" if is_missing(value) else str(value) for value in values])
    return replace(rows, dropped=table.dropped)


def _with_label_sets(table: DataTable, request: Request) -> Rows:
    """Rows that have several labels, or none."""
    if find_task(table, request.columns, request.task) == "choice":
        raise UserError(
            "one choice of every row is right: multiple choice has no rows of several labels",
            file=table.source,
            remedy=f"leave {argument('multi_label')} out",
        )
    sets, label_names = None, request.label_names
    if request.labelled is True or (request.labelled == "auto" and has_label_sets(table, request.columns)):
        sets, label_names = read_label_sets(table, request.columns, label_names)
    rows = _rows_of(table, request._replace(label_names=label_names, labelled=False))
    return rows if sets is None else rows.with_column("label_set", sets)


def _rows_of(table: DataTable, request: Request) -> Rows:
    columns, label_names, task = request.columns, request.label_names, request.task
    if task == "image" or (task is None and find_task(table, columns) == "image"):
        return _image_rows(table, request)
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
    if _reads_labels(table, request):
        if choices is not None:
            labels = read_choice_labels(table, columns.label, len(choices[0]))
        else:
            labels, label_names = read_labels(table, columns.label, label_names)
    return Rows.from_columns(
        read_ids(table, columns, request.name),
        texts,
        pairs=pairs,
        choices=choices,
        labels=labels,
        label_names=label_names or (),
        source=table.source,
    )


def _image_rows(table: DataTable, request: Request) -> Rows:
    columns, label_names = request.columns, request.label_names
    images, facts = read_images(table, columns.image or IMAGE_COLUMN, option_name("image"))
    labels = None
    if _reads_labels(table, request):
        if Path(table.source).is_dir() and columns.label not in table.names:
            raise UserError(
                "no labels: the images lie in no folders of classes",
                file=table.source,
                remedy="put them into one folder per class",
            )
        labels, label_names = read_labels(table, columns.label, label_names)
    return Rows.from_images(
        read_ids(table, columns, request.name),
        images,
        facts=facts,
        labels=labels,
        label_names=label_names or (),
        source=table.source,
    )


def _reads_labels(table: DataTable, request: Request) -> bool:
    if request.labelled != "auto":
        return request.labelled
    columns = request.columns
    if columns.annotations in table.names or has_probability_columns(table, columns):
        return True
    # A label column that was asked for by name must be there.
    asked_for = columns.label != ColumnNames().label
    return asked_for or has_labels(table, columns.label)
