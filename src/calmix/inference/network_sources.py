"""Predictions of networks on labelled rows, as sources to evaluate: checkpoints, and runs with dropout on."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, partial
from pathlib import Path
from typing import Any

from calmix.calibration.calibrators.calibrated_predictions import calibrate_predictions
from calmix.calibration.calibrators.calibrator import load_calibrator
from calmix.calibration.files.file_evaluation import Source, SourceFit
from calmix.calibration.files.run_predictions import calibrator_of_run, predictions_of_run, uncalibrated
from calmix.calibration.fit_uncertainty import FitUncertainty
from calmix.calibration.predictions import Predictions
from calmix.data.columns import ColumnNames
from calmix.data.images.embedded import PREFIX
from calmix.data.reading import read_rows
from calmix.inference.mc_dropout import dropout_with_checkpoint
from calmix.inference.prediction import predict_with_checkpoint, row_predictions
from calmix.inference.run_rows import rows_of_run
from calmix.inference.saved_classifier import CALIBRATOR_FILE, open_classifier
from calmix.io.memory_tables import is_in_memory
from calmix.io.run_directory import RunDirectory
from calmix.models.loading import trained_labels
from calmix.user_error import UserError, argument


def dropout_sources(
    files: Mapping[int, Path], passes: int, settings: dict[str, Any], *, seed: int
) -> list[Source]:
    """The splits of every run again, with dropout on: by the saved model, and with its temperature undone."""
    made = []
    for place, path in files.items():
        if not (path / "config.yaml").is_file():
            continue
        run = RunDirectory.open(path)
        run.check_undamaged("model/")
        metrics = run.metrics()
        temperature = run.temperature()
        length = settings["max_length"] or run.config()["max_length"]
        remedy = f"give the rows with {argument('model', 'RUN')} {argument('data', 'FILE')}"
        for split, rows in rows_of_run(run, remedy=remedy).items():
            found = dropout_with_checkpoint(
                run.model, rows, passes=passes, seed=seed, **{**settings, "max_length": length}
            )
            facts = {"mc_dropout": passes, "encoder_passes": found.encoder_passes}
            # The temperature was fitted on these very rows.
            fitted = {"in_sample": True} if metrics["splits"][split]["calibrated"].get("in_sample") else {}
            name = f"{run.path}:{split}, MC dropout"
            for stage, scale in (("calibrated", 1.0), ("uncalibrated", 1 / temperature)):
                predictions = found.predictions(rows, scale)
                is_calibrated = stage == "calibrated"
                title = name if is_calibrated else f"{name} (uncalibrated)"
                own = facts | (fitted if is_calibrated else {})
                made.append(Source(title, partial(list, [predictions]), place, split, stage, own))
    return made


def predicted_sources(
    model: Path,
    data: str,
    columns: dict[str, str | None],
    settings: dict[str, Any],
    mc_dropout: int | None,
    *,
    seed: int,
    origin: int,
) -> list[Source]:
    """What a checkpoint says about a labelled file; a run knows its own columns and length."""
    checkpoint, fit = model, None
    if (model / "config.yaml").is_file():
        run = RunDirectory.open(model)
        run.check_undamaged("model/")
        trained = run.config()
        own = {name: trained.get(f"{name}_column") for name in columns if name != "weight"}
        columns = {name: value or own.get(name) for name, value in columns.items()}
        settings = {**settings, "max_length": settings["max_length"] or trained["max_length"]}
        checkpoint = run.model
    calibrator = None
    if (model / CALIBRATOR_FILE).is_file():  # what `calibrate` or `adapt` made
        found_model = open_classifier(model)
        checkpoint, calibrator = found_model.checkpoint, found_model.calibrator
        if calibrator is not None and mc_dropout is not None:
            raise UserError(
                "MC dropout needs a calibrator that is folded into the network",
                file=model,
                remedy="leave it out",
            )
    # Numbered under the name of the file, as the rows of a run are: `test.csv` meets the split `test`.
    name = "data" if is_in_memory(data) else Path(data.removeprefix(PREFIX)).name.split(".")[0] or "data"
    labels = trained_labels(checkpoint)
    rows = read_rows(data, "test", ColumnNames.from_options(**columns), labels, name=name)

    predictions = row_predictions(predict_with_checkpoint(checkpoint, rows, **settings), rows)
    if calibrator is not None:
        predictions = calibrate_predictions(load_calibrator(calibrator), predictions)
    if (model / "config.yaml").is_file():
        fit = fit_of_run(RunDirectory.open(model), predictions)
    found = [Source(f"{model}:{data}", lambda: [predictions], origin, fit=fit)]
    if mc_dropout is not None:
        passes = dropout_with_checkpoint(checkpoint, rows, passes=mc_dropout, seed=seed, **settings)
        mean = passes.predictions(rows)
        facts = {"mc_dropout": mc_dropout, "encoder_passes": passes.encoder_passes}
        found.append(Source(f"{model}:{data}, MC dropout", lambda: [mean], origin, facts=facts))
    return found


def fit_of_run(run: RunDirectory, predictions: Predictions) -> SourceFit | None:
    """How uncertain the calibrator in the model of a run is, for predictions of that model on other rows."""
    splits = run.metrics()["splits"].values()
    if not any(stages["calibrated"].get("ci_includes_fit") for stages in splits):
        return None
    calibrator = calibrator_of_run(run)
    return SourceFit(
        cache(lambda: FitUncertainty.of(calibrator, predictions_of_run(run, "validation"))),
        lambda: [uncalibrated(calibrator, predictions)],
    )
