"""Which rows of a file to label, by the confidence of a trained model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa

from calmix.calibration.label_request import DESIGNS, request_labels
from calmix.data.columns import ColumnNames
from calmix.data.input_rows import read_input
from calmix.inference.adaptation.labelled import WEIGHT_COLUMN, check_choice
from calmix.inference.prediction import classify
from calmix.inference.saved_classifier import open_classifier
from calmix.io.writing import write_table
from calmix.user_error import UserError, argument


def suggest_rows(
    source: Path,
    unlabelled: str,
    count: int,
    output: Path,
    *,
    design: str = "confidence",
    seed: int = 0,
    trust_remote_code: bool = False,
    **columns: str | None,
) -> dict[str, Any]:
    """Write `count` rows of a file with an empty label column and their design weights."""
    check_choice("design", design, DESIGNS)
    classifier = open_classifier(source)
    names: ColumnNames = classifier.columns(**columns)
    # The choices of a row have no names, but their number must be that of training.
    classes = classifier.label_names if classifier.task == "choice" else None
    given = read_input(unlabelled, names, task=classifier.task, label_names=classes)
    if not 1 <= count <= len(given.rows):
        raise UserError(
            f"{argument('suggest', count)}: the file has {len(given.rows)} rows",
            file=unlabelled,
            remedy=f"give a number from 1 to {len(given.rows)}",
        )
    if given.rows.task == "image" and not given.columns:
        raise UserError(
            "images in an array have no name to label them by",
            file=unlabelled,
            remedy="give a table with an image column of paths",
        )
    answers = classify(classifier, given.rows, title="rows", trust_remote_code=trust_remote_code)
    confidence = answers.probabilities().max(axis=1)
    found = request_labels(confidence, count, design=design, seed=seed)
    table = pa.table(given.columns).take(pa.array(found.positions))
    if names.label not in table.column_names:
        table = table.append_column(names.label, pa.nulls(count, pa.string()))
    if WEIGHT_COLUMN in table.column_names:
        table = table.drop_columns(WEIGHT_COLUMN)
    table = table.append_column(WEIGHT_COLUMN, pa.array(found.weights))
    write_table(output, table)
    return {
        "output": str(output),
        "rows": count,
        "of": len(given.rows),
        "design": design,
        "mean_confidence": float(confidence.mean()),
        "by_stratum": [int((found.strata == number).sum()) for number in range(int(found.strata.max()) + 1)],
    }
