"""The rows behind the stored predictions of a run, read again from its files."""

from __future__ import annotations

import numpy as np

from calmix.calibration.files.run_predictions import predictions_of_run
from calmix.data.columns import ColumnNames
from calmix.data.reading import read_rows
from calmix.data.rows import Rows
from calmix.data.splits import read_splits
from calmix.io.run_directory import RunDirectory
from calmix.user_error import UserError

COLUMN_KINDS = ("text", "pair", "choices", "label", "id", "image")


def columns_of(run: RunDirectory) -> ColumnNames:
    """The columns that a run was trained with, those of weights and soft labels among them."""
    config = run.config()
    kinds = {kind: config.get(f"{kind}_column") for kind in (*COLUMN_KINDS, "weight")}
    soft = config.get("annotations_column"), tuple(config.get("label_prob_columns") or ())
    return (
        ColumnNames.from_options(**kinds)
        .with_soft_labels(*soft)
        .with_labels(
            config.get("label_map") or {}, drop_unlabelled=bool(config.get("drop_unlabelled", False))
        )
    )


def training_rows(run: RunDirectory) -> Rows | None:
    """The rows of the training file; None where it was moved or is no longer readable."""
    try:
        return read_rows(run.config()["train"], "train", columns_of(run))
    except UserError:
        return None


def rows_of_run(run: RunDirectory, *, remedy: str) -> dict[str, Rows]:
    """Validation and test rows by split; an error if the files no longer hold what was predicted. `remedy`
    says how the caller takes rows otherwise."""
    config = run.config()
    splits = read_splits(
        config["train"],
        config.get("validation"),
        tuple(config["test"]),
        columns=columns_of(run),
        seed=config["seed"],
    )
    named = {"validation": splits.validation, **splits.tests}
    for name, rows in named.items():
        stored = predictions_of_run(run, name)
        assert stored.ids is not None
        if not np.array_equal(stored.ids, rows.row_ids) or not np.array_equal(stored.labels, rows.labels):
            raise UserError(
                f"the rows of {name!r} have changed since the run",
                file=rows.source,
                remedy=remedy,
            )
    return named
