"""Prediction files: parquet, csv, tsv, jsonl, json and npz, each also gzipped, ours or anyone's.

A file has `label` and either one column of lists, `logits` or `probs`, or one column per class, `logit_0`,
`logit_1`, ... or `prob_0`, `prob_1`, ... (or `prob_<class name>`); `row_id` is optional. Labels are class
indices, or names where the file knows the classes' names. Whether the numbers are logits is in the column's
name, never guessed from the values.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from calmix.calibration.input_checks import BadRow, Flaw
from calmix.calibration.prediction_columns import ScoreColumns, find_score_columns, uneven_lists
from calmix.calibration.predictions import Predictions
from calmix.io.parquet_files import CLASS_NAMES_KEY, stored_class_names
from calmix.io.tables import read_arrow, table_batches
from calmix.run import replacing
from calmix.user_error import UserError

KIND_KEY = b"calmix.kind"
# A row id such as 007 is a name.
TEXT_COLUMNS = ("row_id",)
REMEDIES: dict[Flaw, str] = {
    "not finite": "NaN and infinity are no scores: mend the model's output, or leave the row out",
    "not normalised": "divide every row by its sum; scores before a softmax go under the name {logits}",
    "negative": "scores before a softmax go under the name {logits}",
    "label": "a label is the index of its class, counted from 0; there are {classes} classes",
}


def read_predictions(path: str | Path) -> Predictions:
    """All rows of a predictions file, or a `UserError` that names file, row and column."""
    file = Path(path)
    table = read_arrow(file, text_columns=TEXT_COLUMNS)
    columns = find_score_columns(file, table.schema, class_names=stored_class_names(table.schema, file))
    return predictions_of_table(file, table, columns)


def read_answers(path: str | Path, class_names: tuple[str, ...]) -> Predictions:
    """The scores that a file gives to rows of these classes. Labels are not read: all of them are 0 here."""
    file = Path(path)
    table = read_arrow(file, text_columns=TEXT_COLUMNS)
    columns = find_score_columns(
        file,
        table.schema,
        class_names=stored_class_names(table.schema, file),
        known_names=class_names,
        labelled=False,
    )
    return predictions_of_table(file, table, columns, with_labels=False)


def iterate_predictions(
    path: str | Path, *, batch_rows: int = 1 << 18, with_ids: bool = True
) -> Iterator[Predictions]:
    """The rows of a file in batches: parquet, csv, tsv and jsonl are streamed, json and npz read at once."""
    file = Path(path)
    columns: ScoreColumns | None = None
    first_row = classes = 0
    for table in table_batches(file, batch_rows=batch_rows, text_columns=TEXT_COLUMNS):
        if columns is None:
            columns = find_score_columns(
                file, table.schema, class_names=stored_class_names(table.schema, file)
            )
        batch = predictions_of_table(file, table, columns, first_row=first_row, with_ids=with_ids)
        classes = classes or batch.classes
        if batch.classes != classes:
            raise uneven_lists(file, columns.title, first_row + 1, batch.classes, classes)
        yield batch
        first_row += len(table)


def predictions_of_table(
    file: Path,
    table: pa.Table,
    columns: ScoreColumns,
    *,
    first_row: int = 0,
    with_ids: bool = True,
    with_labels: bool = True,
) -> Predictions:
    """Check the rows of a table; `first_row` is where it stands in the file, for error messages."""
    scores = columns.scores(file, table, first_row=first_row)
    class_names = columns.class_names or tuple(str(k) for k in range(scores.shape[1]))
    labels: Any = np.zeros(len(table), dtype=np.int64)
    if with_labels:
        labels = columns.labels(file, table, class_names, first_row=first_row)
    ids = columns.row_ids(file, table, first_row=first_row) if with_ids else None
    make = Predictions.from_logits if columns.kind == "logits" else Predictions.from_probabilities
    try:
        return make(scores, labels, ids=ids, class_names=class_names)
    except BadRow as bad:
        logits = "'logits'" if columns.one_list else "'logit_0', 'logit_1', .."
        raise UserError(
            bad.problem,
            file=file,
            row=first_row + bad.row + 1,
            column="label" if bad.flaw == "label" else columns.name_of(bad.place),
            remedy=REMEDIES.get(bad.flaw, "").format(logits=logits, classes=scores.shape[1]),
        ) from None
    except ValueError as error:
        if str(error).startswith("labels"):
            raise UserError(
                str(error), file=file, column="label", remedy="write one class index, or name, per row"
            ) from None
        raise UserError(
            str(error), file=file, column=columns.title, remedy="write one score per class in every row"
        ) from None


def write_predictions(path: str | Path, predictions: Predictions) -> None:
    """Write a parquet file: `row_id` (if known), `label`, and `logits` or `probs` as a list per row."""
    file = Path(path)
    if file.suffix != ".parquet":
        raise ValueError(f"predictions are written as .parquet, not {file.name}")
    classes = predictions.classes
    values = pa.array(np.ascontiguousarray(predictions.values).ravel())
    columns: dict[str, Any] = {}
    if predictions.ids is not None:
        columns["row_id"] = pa.array(predictions.ids.tolist(), type=pa.string())
    columns["label"] = pa.array(predictions.labels)
    name = "logits" if predictions.kind == "logits" else "probs"
    columns[name] = pa.FixedSizeListArray.from_arrays(values, classes)
    table = pa.table(columns).replace_schema_metadata(
        {
            CLASS_NAMES_KEY: json.dumps(list(predictions.class_names), ensure_ascii=False).encode(),
            KIND_KEY: predictions.kind.encode(),
        }
    )
    from pyarrow import parquet

    with replacing(file) as fresh:
        parquet.write_table(table, fresh)
