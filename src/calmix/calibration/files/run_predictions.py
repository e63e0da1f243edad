"""The stored predictions of a run, uncalibrated or calibrated."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from calmix.calibration.calibrators.calibrated_predictions import calibrate_predictions
from calmix.calibration.calibrators.calibrator import Calibrator, load_calibrator
from calmix.calibration.calibrators.temperature import TemperatureScaling
from calmix.calibration.files.prediction_files import read_predictions
from calmix.calibration.predictions import Predictions
from calmix.io.run_directory import RunDirectory


def predictions_of_run(run: RunDirectory, split: str, *, calibrated: bool = False) -> Predictions:
    """The predictions of a run for the rows of a split; with `calibrated`, after its calibrator."""
    if run.is_finished:  # a report may be written before `metrics.json`
        run.check_single_label("this")
    predictions = read_predictions(run.stored_predictions(split))
    return apply_calibrator(calibrator_of_run(run), predictions) if calibrated else predictions


def calibrator_of_run(run: RunDirectory, metrics: Mapping[str, Any] | None = None) -> Calibrator:
    """What is folded into the model of a run: its temperature, or what `calibrator.json` holds. `metrics`:
    the content of `metrics.json`, for a caller that writes that file last."""
    metrics = run.metrics() if metrics is None else metrics
    if metrics.get("calibrator", "temperature") != "temperature":
        run.check_undamaged("calibrator.")
        return load_calibrator(run.path)
    options = metrics.get("effective_options", {})
    preset = "paper" if options.get("temperature_fit") == "grid" else None
    classes = len(metrics.get("label_names", ()))
    return TemperatureScaling.of(float(metrics["temperature"]), classes, preset=preset)


def uncalibrated(calibrator: Calibrator, predictions: Predictions) -> Predictions:
    """Predictions of a model with a calibrator in its head, as they are without it.

    >>> halved = Predictions.from_logits([[1.0, 0.0]], [0])
    >>> uncalibrated(TemperatureScaling.of(2.0, 2), halved).values.tolist()
    [[2.0, 0.0]]
    """
    matrix, bias = calibrator.affine()
    logits = np.linalg.solve(matrix, (predictions.values.astype(np.float64) - bias).T).T
    return replace(predictions, values=np.ascontiguousarray(logits))


def apply_calibrator(calibrator: Calibrator, predictions: Predictions) -> Predictions:
    """Calibrated predictions. A temperature leaves the precision of the scores as it is."""
    if isinstance(calibrator, TemperatureScaling):
        return predictions.with_temperature(calibrator.temperature_)
    return calibrate_predictions(calibrator, predictions)
