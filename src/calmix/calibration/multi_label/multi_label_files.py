"""Predictions files with several labels per row, ours or anyone's.

Scores are columns or lists as in any predictions file (`prediction_layout`), one of each label: `logit_joy`,
`prob_joy`, or `logits`, `probs` with the names in the file or from `class_names`. Labels are one of

    label            a list of names in every row (parquet, json, jsonl), or a JSON list as text (csv)
    label            names in one text, with `label_separator` between them; an empty cell is no label
    label_columns    columns of 0 and 1, one of each label

A list in the label column says that rows have several labels. In csv and tsv nothing but the user can say it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from calmix.calibration.class_names import ClassLookup, label_name, listed, numbered_names
from calmix.calibration.files.column_mapping import ColumnMapping
from calmix.calibration.files.prediction_columns import ScoreColumns
from calmix.calibration.files.prediction_files import KIND_KEY, text_columns
from calmix.calibration.files.prediction_layout import LABELS, PredictionLayout
from calmix.calibration.input_checks import BadRow
from calmix.calibration.multi_label.multi_label_predictions import Flags, MultiLabelPredictions
from calmix.calibration.predictions import ScoreKind
from calmix.io.arrow_values import listed_values
from calmix.io.formats import file_format
from calmix.io.parquet_files import CLASS_NAMES_KEY, stored_class_names
from calmix.io.replacing import replacing
from calmix.io.tables import read_arrow, table_batches
from calmix.user_error import UserError, argument

LABEL_PREFIX = "label_"


def has_several_labels(path: str | Path, mapping: ColumnMapping) -> bool:
    """Whether the rows of a predictions file have several labels: as the user says, or by lists of labels."""
    if mapping.has_label_lists:
        return True
    file = Path(path)
    if not file.is_file() or file_format(file) not in (".parquet", ".json", ".jsonl"):
        return False
    schema = next(iter(table_batches(file, batch_rows=1))).schema
    names = (
        [mapping.label_column] if mapping.label_column else [name for name in LABELS if name in schema.names]
    )
    return any(name in schema.names and is_list(schema.field(name).type) for name in names)


def is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def read_multi_label_predictions(
    path: str | Path, columns: ColumnMapping | None = None
) -> MultiLabelPredictions:
    """All rows of a predictions file, or a `UserError` that names file, row and column."""
    file, mapping = Path(path), columns or ColumnMapping()
    if mapping.weight_column or mapping.positive_class:
        option = "weight_column" if mapping.weight_column else "positive_class"
        raise UserError(f"{argument(option)} is for rows of one label", remedy="leave it out")
    # Labels and ids of csv files are texts, whatever they look like.
    label = mapping.label_column or "label"
    as_text = text_columns(mapping) + (() if mapping.label_columns else (label, *LABELS))
    table = read_arrow(file, text_columns=as_text)
    found = _score_columns(file, table, mapping)
    scores = found.scores(file, table, first_row=0)
    names = found.class_names or numbered_names(scores.shape[1])
    if scores.shape[1] != len(names) or len(names) < 2:
        raise UserError(
            f"{len(names)} label names, but {scores.shape[1]} scores",
            file=file,
            column=found.title,
            remedy=f"give one score for each of at least two labels; see {argument('class_names')}",
        )
    if mapping.label_columns:
        targets, place = _from_columns(file, table, mapping.label_columns, names), mapping.label_columns[0]
    else:
        place = _label_column(file, table, mapping)
        targets = _from_lists(file, table, place, names, mapping.label_separator)
    make = (
        MultiLabelPredictions.from_logits
        if found.kind == "logits"
        else MultiLabelPredictions.from_probabilities
    )
    try:
        return make(scores, targets, ids=found.row_ids(file, table, first_row=0), label_names=names)
    except BadRow as bad:
        raise UserError(
            bad.problem,
            file=file,
            row=bad.row + 1,
            column=found.name_of(bad.place),
            remedy="probabilities lie in [0, 1]; scores before a sigmoid are named logits",
        ) from None
    except ValueError as error:
        raise UserError(str(error), file=file, remedy="write one score per label in every row") from None


class _LabelLayout(PredictionLayout):
    """One score of every label: a single one is not that of two classes."""

    def _single(self, kind: ScoreKind, name: str, suffix: str | None, label: str | None) -> ScoreColumns:
        raise self._problem(
            f"scores of one label alone, {name!r}",
            f"give one score for each of at least two labels; see {argument('class_names')}",
        )


def _score_columns(file: Path, table: pa.Table, mapping: ColumnMapping) -> ScoreColumns:
    layout = _LabelLayout(
        file,
        table.schema,
        mapping,
        lambda name: [],
        stored_names=stored_class_names(table.schema, file),
        labelled=False,
    )
    return layout.find()


def _label_column(file: Path, table: pa.Table, mapping: ColumnMapping) -> str:
    names = table.column_names
    if mapping.label_column is not None:
        present = [mapping.label_column] if mapping.label_column in names else []
    else:
        present = [name for name in LABELS if name in names]
    if len(present) == 1:
        return present[0]
    problem = f"several columns of labels: {', '.join(present)}" if present else "no column of labels"
    remedy = (
        f"name it with {argument('label_column')}, or columns of 0 and 1 with {argument('label_columns')}"
    )
    raise UserError(problem, file=file, remedy=f"{remedy}; the columns are: {listed(names)}")


def _from_lists(
    file: Path, table: pa.Table, column: str, names: Sequence[str], separator: str | None
) -> Flags:
    lookup = ClassLookup(names)
    targets = np.zeros((len(table), len(names)), dtype=np.bool_)
    for row, value in enumerate(table.column(column).to_pylist()):
        try:
            given = listed_values(value, separator)
        except ValueError as error:
            remedy = f'write ["a", "b"], or give {argument("label_separator", ";")}'
            raise UserError(str(error), file=file, row=row + 1, column=column, remedy=remedy) from None
        for one in given:
            place = lookup.find(label_name(one))
            if place is None:
                raise UserError(
                    f"unknown label {label_name(one)!r}",
                    file=file,
                    row=row + 1,
                    column=column,
                    remedy=f"the labels of this file are: {listed(names)}",
                )
            targets[row, place] = True
    return targets


def _from_columns(file: Path, table: pa.Table, columns: Sequence[str], names: Sequence[str]) -> Flags:
    for column in columns:
        if column not in table.column_names:
            remedy = f"{argument('label_columns')} names columns; there are: {listed(table.column_names)}"
            raise UserError(f"no column {column!r}", file=file, remedy=remedy)
    order = _order_of(file, columns, names)
    values = ScoreColumns("logits", tuple(columns[place] for place in order), False, None, True)
    hot = values.scores(file, table, first_row=0)
    wrong = np.argwhere((hot != 0) & (hot != 1))
    if len(wrong):
        row, place = (int(index) for index in wrong[0])
        raise UserError(
            f"a label is 0 or 1, not {hot[row, place]:g}",
            file=file,
            row=row + 1,
            column=columns[order[place]],
            remedy="write 1 where the row has the label",
        )
    return hot.astype(np.bool_)


def _order_of(file: Path, columns: Sequence[str], names: Sequence[str]) -> list[int]:
    """Which column is that of each label: by name, or by place where the scores have no names."""
    called = [column.removeprefix(LABEL_PREFIX) for column in columns]
    for given in (list(columns), called):
        lookup = ClassLookup(given)
        found = [lookup.find(name) for name in names]
        if len(names) == len(columns) and None not in found:
            return [place for place in found if place is not None]
    if len(columns) == len(names) and tuple(names) == numbered_names(len(names)):
        return list(range(len(names)))
    raise UserError(
        f"the columns of labels are {listed(columns)}, and those of scores are about {listed(names)}",
        file=file,
        remedy=f"name the same labels; {argument('class_names')} names those of scores without names",
    )


def write_multi_label_predictions(path: str | Path, predictions: MultiLabelPredictions) -> None:
    """Write a parquet file: `row_id` (if known), `label` (a list of names), and `logits` or `probs`."""
    from pyarrow import parquet

    names = predictions.label_names
    columns: dict[str, Any] = {}
    if predictions.ids is not None:
        columns["row_id"] = pa.array(predictions.ids.tolist(), type=pa.string())
    lists = [[names[place] for place in np.flatnonzero(row)] for row in predictions.targets]
    columns["label"] = pa.array(lists, type=pa.list_(pa.string()))
    values = pa.array(np.ascontiguousarray(predictions.values).ravel())
    score = "logits" if predictions.kind == "logits" else "probs"
    columns[score] = pa.FixedSizeListArray.from_arrays(values, predictions.labels)
    table = pa.table(columns).replace_schema_metadata(
        {
            CLASS_NAMES_KEY: json.dumps(list(names), ensure_ascii=False).encode(),
            KIND_KEY: predictions.kind.encode(),
        }
    )
    with replacing(Path(path)) as fresh:
        parquet.write_table(table, fresh)
