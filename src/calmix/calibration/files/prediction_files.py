"""Prediction files: parquet, csv, tsv, jsonl, json and npz, each also gzipped, ours or anyone's.

A file has true labels (`label`) and either one column of lists, `logits` or `probs`, or one column per
class, `logit_0`, `logit_1`, ... or `prob_0`, `prob_1`, ... (or `prob_<class name>`); `row_id` is optional.
Labels are class indices, or names where the file knows the classes' names. Whether the numbers are logits
is in the column's name, never guessed from the values. `prediction_layout` lists the other names that are
known, and a `ColumnMapping` says what the names do not.

Probabilities that were rounded to d >= 2 digits are restored (see `rounded_probabilities`): a 0 stands for
less than half of the last digit, and rows that rounding made sum to 0.98..1.02 are divided by their sum.
Either is noted.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from calmix.calibration.class_names import label_name, numbered_names
from calmix.calibration.files.column_mapping import ColumnMapping
from calmix.calibration.files.prediction_columns import ScoreColumns, is_text, uneven_lists
from calmix.calibration.files.prediction_layout import PredictionLayout, distinct_labels
from calmix.calibration.files.rounded_probabilities import CLOSE_TO_ONE, restore_rounded, rounded_digits
from calmix.calibration.files.row_weights import stored_rows, with_stored_rows
from calmix.calibration.input_checks import NORMALISATION_TOLERANCE, BadRow, Flaw
from calmix.calibration.predictions import Predictions
from calmix.io.parquet_files import CLASS_NAMES_KEY, stored_class_names
from calmix.io.run_directory import replacing
from calmix.io.tables import read_arrow, table_batches
from calmix.user_error import UserError, argument

KIND_KEY = b"calmix.kind"
# A row id such as 007 is a name.
TEXT_COLUMNS = ("row_id",)
REMEDIES: dict[Flaw, str] = {
    "not finite": "NaN and infinity are no scores: fix the model's output, or leave the row out",
    "not normalised": "divide every row by its sum; scores before a softmax go under the name {logits}",
    "negative": "scores before a softmax go under the name {logits}",
    "label": "a label is the index of its class, counted from 0; there are {classes} classes",
}
# More different values than this are no labels.
MOST_LABELS = 10_000

Note = Callable[[str], None]


def warn(note: str) -> None:
    warnings.warn(note, stacklevel=4)


def read_predictions(
    path: str | Path, columns: ColumnMapping | None = None, *, note: Note = warn
) -> Predictions:
    """All rows of a predictions file, or a `UserError` that names file, row and column.

    `columns` says what the names of its columns do not. What is done to rounded probabilities goes to `note`.
    """
    file = Path(path)
    table = read_arrow(file, text_columns=text_columns(columns))
    return PredictionFile(file, lambda: [table], columns, note=note).predictions(table)


def read_answers(path: str | Path, class_names: tuple[str, ...]) -> Predictions:
    """The scores that a file gives to rows of these classes. Labels are not read: all of them are 0 here."""
    file = Path(path)
    table = read_arrow(file, text_columns=TEXT_COLUMNS)
    reading = PredictionFile(file, lambda: [table], known_names=class_names, labelled=False)
    return reading.predictions(table)


def iterate_predictions(
    path: str | Path,
    columns: ColumnMapping | None = None,
    *,
    batch_rows: int = 1 << 18,
    note: Note = warn,
) -> Iterator[Predictions]:
    """The rows of a file in batches: parquet, csv, tsv and jsonl are streamed, json and npz read at once."""
    file = Path(path)
    tables = partial(table_batches, file, batch_rows=batch_rows, text_columns=text_columns(columns))
    reading = PredictionFile(file, tables, columns, note=note)
    first_row = classes = 0
    for table in tables():
        batch = reading.predictions(table, first_row=first_row)
        classes = classes or batch.classes
        if batch.classes != classes:
            title = reading.columns(table.schema).title
            raise uneven_lists(file, title, first_row + 1, batch.classes, classes)
        yield batch
        first_row += len(table)


def text_columns(columns: ColumnMapping | None) -> tuple[str, ...]:
    """Columns of csv files that hold texts whatever they look like."""
    wanted = None if columns is None else columns.id_column
    return TEXT_COLUMNS if wanted is None else (wanted,)


class PredictionFile:
    """The tables of one file as predictions. What only the whole file tells is looked up when needed."""

    def __init__(
        self,
        file: Path,
        tables: Callable[[], Iterable[pa.Table]],
        mapping: ColumnMapping | None = None,
        *,
        known_names: tuple[str, ...] = (),
        labelled: bool = True,
        note: Note = warn,
    ) -> None:
        self.file, self.tables = file, tables
        self.mapping = mapping or ColumnMapping()
        self.known_names, self.labelled = known_names, labelled
        self._note, self._noted = note, set[str]()
        self._columns: ScoreColumns | None = None

    def columns(self, schema: pa.Schema) -> ScoreColumns:
        if self._columns is None:
            self._columns = PredictionLayout(
                self.file,
                schema,
                self.mapping,
                self._label_values,
                stored_names=stored_class_names(schema, self.file),
                known_names=self.known_names,
                labelled=self.labelled,
                stores_indices=KIND_KEY in (schema.metadata or {}),
            ).find()
        return self._columns

    def predictions(self, table: pa.Table, *, first_row: int = 0) -> Predictions:
        """Check the rows of a table; `first_row` is where it stands in the file, for error messages."""
        columns = self.columns(table.schema)
        scores = columns.scores(self.file, table, first_row=first_row)
        class_names = columns.class_names or numbered_names(scores.shape[1])
        if len(class_names) != scores.shape[1]:
            raise UserError(
                f"{len(class_names)} class names, but {scores.shape[1]} scores",
                file=self.file,
                column=columns.title,
                remedy="name every class once",
            )
        labels: Any = np.zeros(len(table), dtype=np.int64)
        if columns.label is not None:
            labels = columns.labels(self.file, table, class_names, first_row=first_row)
        ids = columns.row_ids(self.file, table, first_row=first_row)
        if columns.kind == "probabilities":
            scores = self._restored(scores)
        elif not columns.is_told:
            self._refuse_distributions(scores, columns)
        make = Predictions.from_logits if columns.kind == "logits" else Predictions.from_probabilities
        try:
            made = make(scores, labels, ids=ids, class_names=class_names)
            if self.labelled:
                made = with_stored_rows(made, self.file, table, self.mapping.weight_column, first_row)
            return made
        except BadRow as bad:
            raise UserError(
                bad.problem,
                file=self.file,
                row=first_row + bad.row + 1,
                column=columns.label if bad.flaw == "label" else columns.name_of(bad.place),
                remedy=_remedy(bad, columns, labels, scores.shape[1]),
            ) from None
        except ValueError as error:
            if str(error).startswith("labels"):
                remedy, column = "write one class index, or name, per row", columns.label
            else:
                remedy, column = "write one score per class in every row", columns.title
            raise UserError(str(error), file=self.file, column=column, remedy=remedy) from None

    def _restored(self, scores: npt.NDArray[np.floating[Any]]) -> npt.NDArray[np.floating[Any]]:
        """Probabilities as they were before rounding, as far as that can be told; else as they are."""
        if scores.ndim != 2 or scores.dtype.kind != "f":
            return scores
        if scores.dtype == np.float16:
            scores = scores.astype(np.float32)
        lowest = scores.min()
        with np.errstate(invalid="ignore"):
            far = np.abs(scores @ np.ones(scores.shape[1], dtype=scores.dtype) - 1).max()
        # NaN fails every comparison: such rows, and negative ones, are refused as they are.
        if (lowest > 0 and far <= CLOSE_TO_ONE) or not (lowest >= 0 and np.isfinite(far)):
            return scores
        if self._digits is None:
            return scores
        restored, zeros, sums = restore_rounded(scores, self._digits)
        rounded = f"{self.file}: probabilities are rounded to {self._digits} digits"
        if zeros:
            self._note_once(f"{rounded}; a 0 is taken for less than half of the last digit")
        if sums:
            self._note_once(f"{rounded}; rows that therefore do not sum to 1 are divided by their sum")
        return restored

    @cached_property
    def _digits(self) -> int | None:
        def blocks() -> Iterator[npt.NDArray[np.floating[Any]]]:
            for table in self.tables():
                block = self.columns(table.schema).scores(self.file, table, first_row=0)
                wide = block.dtype in (np.float32, np.float64)
                yield block if wide else block.astype(np.float32 if block.dtype == np.float16 else float)

        return rounded_digits(blocks())

    def _refuse_distributions(self, scores: npt.NDArray[Any], columns: ScoreColumns) -> None:
        """A name that both logits and probabilities go by: rows that look like the other are not taken."""
        name = columns.names[0]
        sums = np.asarray(scores, dtype=np.float64).sum(axis=1)
        if scores.min() >= 0 and (np.abs(sums - 1) <= NORMALISATION_TOLERANCE).all():
            raise UserError(
                "logits are expected here, but all rows look like probabilities",
                file=self.file,
                column=name,
                remedy=f"give {argument('prob_columns', name)}, or {argument('logit_columns', name)} if they "
                "are logits",
            )

    def _label_values(self, name: str) -> list[str]:
        found: set[Any] = set()
        for table in self.tables():
            column = table.column(name)
            kind = column.type
            if not (pa.types.is_dictionary(kind) or pa.types.is_primitive(kind) or is_text(kind)):
                break
            found.update(column.unique().to_pylist())
            if len(found) > MOST_LABELS:
                raise UserError(
                    f"more than {MOST_LABELS:,} different labels",
                    file=self.file,
                    column=name,
                    remedy=f"name the column of true classes with {argument('label_column')}",
                )
        return distinct_labels(list(found))

    def _note_once(self, note: str) -> None:
        if note not in self._noted:
            self._noted.add(note)
            self._note(note)


def _remedy(bad: BadRow, columns: ScoreColumns, labels: npt.NDArray[Any], classes: int) -> str:
    if bad.flaw in ("not normalised", "negative") and not columns.is_told:
        names = ",".join(columns.names)
        whole = ",".join((*columns.names, *columns.others))
        given = argument("logit_columns", names)
        remedy = f"these columns are named like labels: if they hold logits, give {given}"
        return remedy + (
            f"; if there are more classes, {argument('prob_columns', whole)}" if columns.others else ""
        )
    logits = "'logits'" if columns.one_list else "'logit_0', 'logit_1', .."
    remedy = REMEDIES.get(bad.flaw, "").format(logits=logits, classes=classes)
    if bad.flaw == "label" and columns.class_names is None:
        label = label_name(labels[bad.row].item())
        shifted = {str(classes): range(1, classes + 1), "-1": (-1, 1) if classes == 2 else ()}.get(label, ())
        if shifted and columns.one_list:
            named = argument("class_names", ",".join(map(str, shifted)))
            remedy += f"; if they are called {shifted[0]}..{shifted[-1]}, give {named}"
    return remedy


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
    columns |= stored_rows(predictions)
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
