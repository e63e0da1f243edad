"""Weights and soft labels in a predictions file: a column of numbers, and one of lists.

Files that calmix writes say in their metadata which columns these are; in any other file `--weight-column`
names the weights.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from calmix.calibration.files.prediction_columns import ScoreColumns
from calmix.calibration.input_checks import BadRow
from calmix.calibration.predictions import Predictions
from calmix.user_error import UserError, argument

WEIGHTS, TARGETS = "calmix_weight", "calmix_label_probs"
"""Names that no other program gives: what they hold is known."""
REMEDY = "give every row a number of 0 or more"


def stored_rows(predictions: Predictions) -> dict[str, Any]:
    """The columns that hold the weights and soft labels of predictions, where there are any."""
    columns: dict[str, Any] = {}
    if predictions.weights is not None:
        columns[WEIGHTS] = pa.array(predictions.weights)
    if predictions.targets is not None:
        flat = pa.array(np.ascontiguousarray(predictions.targets).ravel())
        columns[TARGETS] = pa.FixedSizeListArray.from_arrays(flat, predictions.classes)
    return columns


def with_stored_rows(
    predictions: Predictions, file: Path, table: pa.Table, weight_column: str | None, first_row: int
) -> Predictions:
    """Predictions with the weights and soft labels of their file; a user may name `weight_column`."""
    name = weight_column or (WEIGHTS if WEIGHTS in table.column_names else None)
    has_targets = TARGETS in table.column_names
    if name is None and not has_targets:
        return predictions
    if name is not None and name not in table.column_names:
        raise UserError(
            f"no column {name!r}",
            file=file,
            remedy=f"there are: {', '.join(table.column_names)}; see {argument('weight_column')}",
        )
    weights = targets = None
    if name is not None:
        one = ScoreColumns("logits", (name,), False, None, True)
        weights = one.scores(file, table, first_row=first_row)[:, 0].astype(np.float64)
    if has_targets:
        lists = ScoreColumns("probabilities", (TARGETS,), True, None, True)
        targets = lists.scores(file, table, first_row=first_row)
    try:
        return predictions.with_rows(weights=weights, targets=targets)
    except BadRow as bad:
        raise UserError(
            bad.problem, file=file, row=first_row + bad.row + 1, column=name, remedy=REMEDY
        ) from None
    except ValueError as error:
        raise UserError(str(error), file=file, column=name, remedy=REMEDY) from None
