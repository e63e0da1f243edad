"""Predictions with calibrated confidence, and which of them to accept automatically."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from calmix.data.objects import is_place
from calmix.user_error import UserError, argument
from calmix.workflows.data_arguments import GivenData
from calmix.workflows.result import Result
from calmix.workflows.run import model_directory

if TYPE_CHECKING:
    import pyarrow as pa

    from calmix.report.tables import Table

ROWS_SHOWN = 10


@dataclass(frozen=True, eq=False, repr=False)
class PredictionResult(Result):
    """The answers: `table` has the columns of the input, then label, probabilities, confidence, `accept`."""

    content: Mapping[str, Any]
    """What `calmix predict --json` prints."""
    table: pa.Table

    def to_pandas(self) -> Any:
        return self.table.to_pandas()

    def __len__(self) -> int:
        return int(self.table.num_rows)

    def column(self, name: str) -> list[Any]:
        return list(self.table.column(name).to_pylist())

    @property
    def labels(self) -> list[str] | list[list[str]]:
        """The label of every row; of a model that gives several, a list for each."""
        several = "predicted_labels" in self.table.column_names
        return self.column("predicted_labels" if several else "predicted_label")

    @property
    def confidence(self) -> list[float]:
        if "confidence" not in self.table.column_names:
            raise UserError(
                "every label has a probability of its own", remedy="take the columns prob_NAME of the table"
            )
        return self.column("confidence")

    @property
    def accept(self) -> list[bool]:
        """Which answers may be accepted; asked for with `target_accuracy` or `accept_above`."""
        if "accept" not in self.table.column_names:
            raise UserError(
                "no rule for which predictions to accept", remedy="give target_accuracy or accept_above"
            )
        return self.column("accept")

    @property
    def sets(self) -> list[list[str]]:
        """The classes that each row may have; asked for with `coverage`."""
        if "prediction_set" not in self.table.column_names:
            raise UserError("no prediction sets were requested", remedy="give coverage=0.9")
        return [json.loads(one) for one in self.column("prediction_set")]

    def tables(self) -> list[Table]:
        from calmix.report.tables import Column, Table

        names = self.table.column_names
        rows = self.table.slice(0, ROWS_SHOWN).to_pylist()
        cells = tuple(tuple(_cell(row[name]) for name in names) for row in rows)
        more = len(self) - len(rows)
        notes = (f"and {more:,} more rows",) if more else ()
        return [Table("", tuple(Column(name, numeric=False) for name in names), cells, notes)]

    def lines(self) -> list[str]:
        found = self.content
        rule = [found[name] for name in ("ood_rule", "guarantee") if name in found]
        if "accepted" in found:
            share = f"coverage {found['coverage']:.1%}"
            rule.append(f"accepted: {found['accepted']} of {len(self)} rows ({share})")
        if "rejected_ood" in found:
            rule.append(f"out of domain: {found['rejected_ood']} of {len(self)} rows")
        rule += set_lines(found)
        rule += label_lines(found)
        return [*(f"note: {note}" for note in found["notes"]), *rule]


def set_lines(found: Mapping[str, Any]) -> list[str]:
    """What the prediction sets promise, and how large they are."""
    if "set_guarantee" not in found:
        return []
    single = f"one class in {found['set_single_share']:.1%} of rows"
    size = f"{found['set_mean_size']:.2f} classes on average, {single}"
    limit = [f"note: {found['set_limit']}"] if "set_limit" in found else []
    return [found["set_guarantee"], f"set size: {size}", *limit]


def label_lines(found: Mapping[str, Any]) -> list[str]:
    """Of several labels: how many rows are predicted to have each, and from which probability on."""
    return [
        f"{name}: {count:,} rows (from {found['thresholds'][name]:.3f} on)"
        for name, count in found.get("label_counts", {}).items()
    ]


def _cell(value: Any) -> str:
    """
    >>> _cell(0.123456), _cell("a" * 60), _cell(None)
    ('0.1235', 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa...', '')
    """
    from calmix.io.table import shorten

    return "" if value is None else f"{value:.4f}" if isinstance(value, float) else shorten(str(value))


def predict(
    source: Any,
    input: Any = None,
    *,
    output: str | Path | None = None,
    skip_blank: bool = False,
    target_accuracy: float | None = None,
    accept_above: float | None = None,
    validation: Any = None,
    reject_ood: bool = False,
    coverage: float | None = None,
    set_method: str = "lac",
    class_conditional: bool = False,
    text_column: str | None = None,
    pair_column: str | None = None,
    choices_column: str | None = None,
    id_column: str | None = None,
    image_column: str | None = None,
    batch_size: int = 64,
    device: str = "auto",
    trust_remote_code: bool = False,
) -> PredictionResult:
    """Predict rows, and say which predictions may be accepted automatically.

        answers = calmix.predict(run, ["a warm and clever film"], target_accuracy=0.95)
        answers.labels, answers.confidence, answers.accept, answers.to_pandas()

    source: a `Run`, a `Comparison` (its recommended model), what `calibrate` returned, or the directory of
    one. input: rows in any form that `calmix.train` takes, labels not needed, or a list of texts; a text
    alone is the name of a file. With `output` the answers are written too. With `coverage`, `prediction_set`
    holds the true class with that probability (`set_method`: lac, aps or raps). Of a model that gives
    several labels, `predicted_labels` holds those whose probability reaches their threshold.
    """
    if input is None:
        raise UserError("nothing to predict", remedy=f"give {argument('input')}")

    from calmix.inference.predicting import predict_rows
    from calmix.inference.saved_classifier import open_classifier
    from calmix.io.writing import check_not_input, check_writable, write_table

    if output is not None:  # before anything is read
        check_writable(Path(output))
        check_not_input(Path(output), *(given for given in (input, validation) if is_place(given)))
    classifier = open_classifier(model_directory(source, "source"))
    columns = classifier.columns(
        text=text_column, pair=pair_column, choices=choices_column, id=id_column, image=image_column
    )
    data = GivenData(columns)
    place = data.source(input, "input")
    known = data.optional(validation, "validation")
    table, summary = predict_rows(
        classifier,
        place,
        columns=columns,
        target_accuracy=target_accuracy,
        accept_above=accept_above,
        validation=known,
        reject_ood=reject_ood,
        coverage=coverage,
        set_method=set_method,
        class_conditional=class_conditional,
        skip_blank=skip_blank,
        batch_size=batch_size,
        device=device,
        trust_remote_code=trust_remote_code,
    )
    if output is not None:
        write_table(Path(output), table)
        summary = {"output": str(output), **summary}
    return PredictionResult({"source": str(classifier.source), **summary}, table)
