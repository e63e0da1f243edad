"""Calibrate what is already trained: a run, a predictions file or a checkpoint; the original stays as it is.

The output directory holds the calibrator (`calibrator.json`, `calibrator.safetensors`) and, where it folds
into the last layer, `model/`: a checkpoint whose plain softmax is calibrated. For a run or a predictions file
it holds the calibrated predictions too.
"""

from __future__ import annotations

import shutil
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from calmix.calibration.calibrator import Calibrator, get_calibrator
from calmix.calibration.class_names import DifferentClasses, listed
from calmix.calibration.prediction_files import read_predictions, write_predictions
from calmix.calibration.predictions import Predictions
from calmix.calibration.run_predictions import predictions_of_run
from calmix.data.embedded_images import is_embedded
from calmix.run import Run, write_json
from calmix.user_error import UserError


@dataclass(frozen=True)
class Source:
    """What is to be calibrated: where its logits come from, and the checkpoint they are made by, if any."""

    fitting: Predictions
    checkpoint: Path | None
    others: dict[str, Predictions]
    """Further predictions to calibrate, by name."""


def calibrate(
    source: Path, fit_on: str, method: str, output: Path, *, trust_remote_code: bool = False, **data: Any
) -> dict[str, Any]:
    """Fit a calibrator on `fit_on` and apply it to `source`; what it found, ready for JSON."""
    if output.exists() and (not output.is_dir() or any(output.iterdir())):
        raise UserError("the output exists already", file=output, remedy="name another --output")
    calibrator = get_calibrator(method)
    opened = open_source(source, fit_on, trust_remote_code=trust_remote_code, **data)
    try:
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            calibrator.fit(opened.fitting.values, opened.fitting.labels)
    except ValueError as error:
        raise UserError(f"{method} does not fit here: {error}", file=source) from error
    fresh = output.with_name(f".{output.name}.partial")
    shutil.rmtree(fresh, ignore_errors=True)
    try:
        calibrator.save(fresh)
        folded = opened.checkpoint is not None and calibrator.folds
        if folded and opened.checkpoint is not None:
            fold_checkpoint(
                opened.checkpoint, calibrator, fresh / "model", trust_remote_code=trust_remote_code
            )
        for name, predictions in opened.others.items():
            write_predictions(fresh / "predictions" / f"{name}.parquet", calibrated(predictions, calibrator))
        result = {
            "method": method,
            "fitted_on": fit_on,
            "n": len(opened.fitting),
            "class_names": list(opened.fitting.class_names),
            "nll_before": calibrator.nll_before_,
            "nll_after": calibrator.nll_after_,
            "temperature": getattr(calibrator, "temperature_", None),
            "folded": folded,
            "model": str(output / "model") if folded else None,
            "predictions": [str(output / "predictions" / f"{name}.parquet") for name in opened.others],
            "warnings": [str(warning.message) for warning in said],
        }
        write_json(fresh / "calibration.json", result)
        if output.exists():
            output.rmdir()
        fresh.rename(output)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
    return result


def open_source(source: Path, fit_on: str, **data: Any) -> Source:
    """A run, a directory with a checkpoint, or a predictions file."""
    if source.is_dir() and (source / "config.yaml").is_file():
        return _open_run(Run.open(source), fit_on, trust_remote_code=data["trust_remote_code"])
    if source.is_dir():
        return Source(_forward(source, fit_on, **data), source, {})
    if not source.exists():
        raise UserError("no such run, checkpoint or predictions file", file=source, remedy="check the path")
    fitting, given = _logits(read_predictions(Path(fit_on))), _logits(read_predictions(source))
    if fitting.classes != given.classes:
        raise UserError(
            f"{fitting.classes} classes, but {source} has {given.classes}",
            file=fit_on,
            remedy="fit on predictions of the same model",
        )
    try:
        fitting = fitting.with_class_order(given.class_names)
    except DifferentClasses:
        raise UserError(
            f"the classes are {listed(fitting.class_names)}, but those of {source} are "
            f"{listed(given.class_names)}",
            file=fit_on,
            remedy="fit on predictions of the same model, with the classes named alike",
        ) from None
    return Source(fitting, None, {source.stem: given})


def _open_run(run: Run, fit_on: str, *, trust_remote_code: bool) -> Source:
    # The saved model carries the run's temperature: its own logits are the stored ones divided by it.
    names = run.splits()
    predictions = {name: predictions_of_run(run, name, calibrated=True) for name in names}
    if fit_on in predictions:
        return Source(predictions[fit_on], run.model, predictions)
    if not Path(fit_on).exists() and not is_embedded(fit_on):
        remedy = f"name labelled data, or one of its splits: {', '.join(names)}"
        raise UserError(f"no split and no file {fit_on!r}", file=run.path, remedy=remedy)
    config = run.config()
    columns = {name: config[name] for name in config if name.endswith("_column")}
    settings = {"max_length": config["max_length"], "trust_remote_code": trust_remote_code}
    fitting = _forward(run.model, fit_on, **settings, **columns)
    return Source(fitting, run.model, predictions)


def _logits(predictions: Predictions) -> Predictions:
    """Calibrators work on logits; the logarithms of probabilities are logits."""
    if predictions.kind == "logits":
        return predictions
    return Predictions.from_logits(
        np.log(np.clip(predictions.probabilities(), np.finfo(np.float64).tiny, None)),
        predictions.labels,
        ids=predictions.ids,
        class_names=predictions.class_names,
    )


def _forward(
    checkpoint: Path,
    data: str,
    max_length: int | None = None,
    *,
    trust_remote_code: bool,
    **columns: Any,
) -> Predictions:
    """What a checkpoint says about labelled rows."""
    from calmix.data.columns import ColumnNames
    from calmix.data.reading import read_rows
    from calmix.models.loading import trained_labels
    from calmix.training.prediction import as_predictions, predict_with_checkpoint

    names = {name.removesuffix("_column"): value for name, value in columns.items()}
    rows = read_rows(data, "fit", ColumnNames.from_options(**names), trained_labels(checkpoint))
    logits = predict_with_checkpoint(
        checkpoint, rows, max_length=max_length, trust_remote_code=trust_remote_code
    )
    return as_predictions(logits, rows)


def calibrated(predictions: Predictions, calibrator: Calibrator) -> Predictions:
    return Predictions.from_logits(
        calibrator.transform(predictions.values),
        predictions.labels,
        ids=predictions.ids,
        class_names=predictions.class_names,
    )


def fold_checkpoint(
    checkpoint: Path, calibrator: Calibrator, output: Path, *, trust_remote_code: bool = False
) -> None:
    """A copy of a checkpoint with the calibrator in its last layer."""
    from calmix.models.folding import fold, folded_temperature, note_calibration
    from calmix.models.loading import load_inputs, load_trained

    model = load_trained(checkpoint, trust_remote_code=trust_remote_code)
    if calibrator.kind == "temperature":
        scale: Any = 1.0 / float(calibrator.temperature_)
        bias: Any = 0.0
    else:
        scale, bias = calibrator.affine()
    before = folded_temperature(model)
    fold(model, scale, bias)
    facts: dict[str, Any] = {"method": calibrator.kind, "folded": True, "temperature": before}
    if calibrator.kind == "temperature":
        facts["temperature"] = before * float(calibrator.temperature_)
    note_calibration(model, facts)
    model.save_pretrained(output)
    inputs = load_inputs(checkpoint, model, trust_remote_code=trust_remote_code)
    inputs.processing_class.save_pretrained(output)
