"""The stored predictions of a run, uncalibrated or calibrated."""

from __future__ import annotations

from pathlib import Path

from calmix.calibration.files.prediction_files import read_predictions
from calmix.calibration.predictions import Predictions
from calmix.io.run_directory import RunDirectory
from calmix.user_error import UserError


def predictions_of_run(run: RunDirectory, split: str, *, calibrated: bool = False) -> Predictions:
    """The predictions of a run for the rows of a split; with `calibrated`, after its temperature."""
    if run.is_finished:  # a report may be written before `metrics.json`
        run.check_single_label("this")
    predictions = read_predictions(stored_file(run, split))
    return predictions.with_temperature(run.metrics()["temperature"]) if calibrated else predictions


def stored_file(run: RunDirectory, split: str) -> Path:
    """The predictions file of a split, undamaged; a `UserError` where there is none."""
    file = run.predictions_file(split)
    run.check_undamaged(f"predictions/{split}.parquet")
    if not file.is_file():
        known = ", ".join(run.splits()) or "none"
        raise UserError(f"no split {split!r} in this run", file=run.path, remedy=f"it has: {known}")
    return file
