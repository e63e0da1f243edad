"""Calibrate what is already trained: a run, a predictions file or a checkpoint; the original stays as it is.

The output directory holds the calibrator (`calibrator.json`, `calibrator.safetensors`) and, where it folds
into the last layer, `model/`: a checkpoint whose plain softmax is calibrated; where it does not,
`uncalibrated_model/`: the network whose logits it takes. For a run or a predictions file
it holds the calibrated predictions too. `calibration.json` has metrics of rows that the calibrator was not
fitted on.
"""

from __future__ import annotations

import os
import secrets
import shutil
import warnings
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from calmix.calibration.calibrators.calibrated_predictions import (
    calibrate_predictions,
    finite_logits,
    remember_classes,
)
from calmix.calibration.calibrators.calibrator import Calibrator, get_calibrator
from calmix.calibration.class_names import DifferentClasses, listed
from calmix.calibration.files.column_mapping import ColumnMapping
from calmix.calibration.files.prediction_files import Note, read_predictions, write_predictions
from calmix.calibration.files.run_predictions import predictions_of_run
from calmix.calibration.held_out import HeldOut, are_same_rows, cross_validated
from calmix.calibration.predictions import Predictions
from calmix.data.embedded_images import is_embedded
from calmix.inference.saved_classifier import UNCALIBRATED_MODEL
from calmix.io.memory_tables import is_in_memory
from calmix.io.permissions import as_umask_says
from calmix.io.run_directory import RunDirectory, write_json
from calmix.user_error import UserError, argument

if TYPE_CHECKING:
    from calmix.data.rows import Rows

# What always has a bias of every class.
BIASED = ("vector", "platt")
# A temperature this close to 1 moves no probability by more than a few ten-thousandths.
UNCHANGED = 1e-3


@dataclass(frozen=True)
class CalibrationSource:
    """What is to be calibrated: where its logits come from, and the checkpoint they are made by, if any."""

    fitting: Predictions
    checkpoint: Path | None
    others: dict[str, Predictions]
    """Further predictions to calibrate, by name."""
    rows: Rows | None = None
    """The rows behind `fitting`, where they are there."""
    max_length: int | None = None
    is_run: bool = False

    def held_out(self, name: str, calibrator: Calibrator) -> dict[str, HeldOut]:
        """Before and after on rows that the calibrator has not seen: every other set of predictions, and the
        fitting rows by cross-validation. `name` is what the fitting rows are called."""
        found = {
            other: HeldOut("held-out", before, calibrate_predictions(calibrator, before))
            for other, before in self.others.items()
            if not are_same_rows(before, self.fitting)
        }
        repeated = cross_validated(calibrator, self.fitting)
        if repeated is not None:
            found = {name: repeated, **found}
        if self.is_run and "validation" in found:
            # The run's own temperature was fitted there.
            found["validation"] = replace(found["validation"], before_in_sample=True)
        return found


@dataclass(frozen=True)
class Calibrated:
    """What `calibrate` found: `result`, ready for JSON, and the predictions behind its `held_out` metrics."""

    result: dict[str, Any]
    held_out: dict[str, HeldOut]


def calibrate(
    source: Path | Predictions,
    fit_on: str | Predictions,
    method: str,
    output: Path,
    *,
    mapping: ColumnMapping | None = None,
    trust_remote_code: bool = False,
    **data: Any,
) -> Calibrated:
    """Fit a calibrator on `fit_on` and apply it to `source`.

    `mapping` says what the columns of predictions files are where their names do not.
    """
    if output.exists() and (not output.is_dir() or any(output.iterdir())):
        raise UserError("the output exists already", file=output, remedy=f"name another {argument('output')}")
    known = get_calibrator(method)  # an unknown name is said before anything is read
    notes: list[str] = []
    opened = open_source(
        source,
        fit_on,
        mapping or ColumnMapping(),
        notes.append,
        method=method,
        trust_remote_code=trust_remote_code,
        **data,
    )
    # A checkpoint wants what folds into it, at a small cost in NLL (benchmarks/structured_defaults.py).
    in_head = opened.checkpoint is not None and method == "structured"
    calibrator = get_calibrator(method, coordinates="centred") if in_head else known
    try:
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            calibrator.fit(opened.fitting.values, opened.fitting.labels)
    except ValueError as error:
        place = source if isinstance(source, Path) else None
        raise UserError(f"{method} does not fit here: {error}", file=place) from error
    # A name of its own: two that calibrate into one output do not meet, and nobody's directory is removed.
    fresh = output.absolute().with_name(f".{os.getpid()}.{secrets.token_hex(4)}.{output.name}")
    try:
        remember_classes(calibrator, opened.fitting)
        calibrator.save(fresh)
        folded = opened.checkpoint is not None and calibrator.folds
        if folded:
            fold_checkpoint(opened, calibrator, fresh / "model", trust_remote_code=trust_remote_code)
        elif opened.checkpoint is not None and opened.checkpoint.is_dir():
            # The calibrator and the network that it belongs to stay together: `calmix predict` takes both.
            shutil.copytree(opened.checkpoint, fresh / UNCALIBRATED_MODEL)
        for name, predictions in opened.others.items():
            write_predictions(
                fresh / "predictions" / f"{name}.parquet", calibrate_predictions(calibrator, predictions)
            )
        fitted_on = fit_on if isinstance(fit_on, str) else f"in memory: {len(fit_on):,} rows"
        name = fitted_on if fitted_on in opened.others else Path(fitted_on).name
        held_out = opened.held_out(name, calibrator)
        temperature = getattr(calibrator, "temperature_", None)
        result = {
            "method": method,
            "fitted_on": fitted_on,
            "n": len(opened.fitting),
            "class_names": list(opened.fitting.class_names),
            "nll_before": calibrator.nll_before_,
            "nll_after": calibrator.nll_after_,
            "in_sample": ["nll_before", "nll_after"],
            "held_out": {name: found.metrics() for name, found in held_out.items()},
            "temperature": temperature,
            "already_calibrated": method == "temperature"
            and opened.checkpoint is not None
            and abs(float(calibrator.temperature_) - 1) <= UNCHANGED,
            "folded": folded,
            "model": str(output / "model") if folded else None,
            "predictions": [str(output / "predictions" / f"{name}.parquet") for name in opened.others],
            "notes": list(dict.fromkeys(notes)),
            "warnings": [str(warning.message) for warning in said],
        }
        as_umask_says(file for file in list(fresh.rglob("*")) if file.is_file())
        write_json(fresh / "calibration.json", result)
        try:
            if output.exists():
                output.rmdir()
            fresh.rename(output)
        except OSError as error:  # made by another process in the meantime
            raise UserError(
                "the output exists already", file=output, remedy=f"name another {argument('output')}"
            ) from error
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
    return Calibrated(result, held_out)


def open_source(
    source: Path | Predictions, fit_on: str | Predictions, mapping: ColumnMapping, note: Note, **data: Any
) -> CalibrationSource:
    """A run, a directory with a checkpoint, or predictions: a file of them, or as they are."""
    if isinstance(source, Predictions) or isinstance(fit_on, Predictions):
        return open_predictions(source, fit_on, mapping, note)
    if source.is_dir() and (mapping.prob_columns or mapping.logit_columns or mapping.class_names):
        raise UserError(
            f"{argument('prob_columns')}, {argument('logit_columns')} and {argument('class_names')} are "
            "about predictions files",
            file=source,
            remedy="leave them out",
        )
    if source.is_dir() and (source / "config.yaml").is_file():
        known = {name: data[name] for name in ("method", "trust_remote_code")}
        return _open_run(RunDirectory.open(source), fit_on, **known)
    if source.is_dir():
        fitting, rows = _forward(source, fit_on, **data)
        return CalibrationSource(fitting, source, {}, rows, data.get("max_length"))
    if not source.exists():
        raise UserError("no such run, checkpoint or predictions file", file=source, remedy="check the path")
    return open_predictions(source, fit_on, mapping, note)


def open_predictions(
    source: Path | Predictions, fit_on: str | Predictions, mapping: ColumnMapping, note: Note
) -> CalibrationSource:
    """Predictions to calibrate, and others of the same model to fit on."""
    names = [one if isinstance(one, str | Path) else "in memory" for one in (source, fit_on)]
    for one, name in ((source, "source"), (fit_on, "fit_on")):
        if not isinstance(one, Predictions) and Path(one).is_dir():
            raise UserError(f"{argument(name)} is a directory, the other predictions", file=one)
    fitting, given = (
        finite_logits(
            one if isinstance(one, Predictions) else read_predictions(Path(one), mapping, note=note)
        )
        for one in (fit_on, source)
    )
    place, fitted = names
    if fitting.classes != given.classes:
        raise UserError(
            f"{fitting.classes} classes, but {place} has {given.classes}",
            file=fitted,
            remedy="fit on predictions of the same model",
        )
    try:
        fitting = fitting.with_class_order(given.class_names)
    except DifferentClasses:
        raise UserError(
            f"the classes are {listed(fitting.class_names)}, but those of {place} are "
            f"{listed(given.class_names)}",
            file=fitted,
            remedy="fit on predictions of the same model, with the classes named alike; "
            f"{argument('class_names')} names those of columns or lists without names",
        ) from None
    return CalibrationSource(
        fitting, None, {source.stem if isinstance(source, Path) else "predictions": given}
    )


def _open_run(run: RunDirectory, fit_on: str, *, method: str, trust_remote_code: bool) -> CalibrationSource:
    # The saved model carries the run's temperature: its own logits are the stored ones divided by it.
    names = run.splits()
    predictions = {name: predictions_of_run(run, name, calibrated=True) for name in names}
    if fit_on in predictions:
        return CalibrationSource(
            predictions[fit_on], run.model, predictions, _rows_of_split(run, fit_on), is_run=True
        )
    if not Path(fit_on).exists() and not is_embedded(fit_on) and not is_in_memory(fit_on):
        remedy = f"name labelled data, or one of its splits: {', '.join(names)}"
        raise UserError(f"no split and no file {fit_on!r}", file=run.path, remedy=remedy)
    config = run.config()
    columns = {name: config[name] for name in config if name.endswith("_column")}
    settings = {"max_length": config["max_length"], "trust_remote_code": trust_remote_code}
    fitting, rows = _forward(run.model, fit_on, method=method, **settings, **columns)
    return CalibrationSource(fitting, run.model, predictions, rows, config["max_length"], is_run=True)


def _rows_of_split(run: RunDirectory, split: str) -> Rows | None:
    """The rows of a split of a run; None where its files were moved or changed since."""
    from calmix.inference.run_rows import rows_of_run

    try:
        return rows_of_run(run, remedy="")[split]
    except UserError:
        return None


def _forward(
    checkpoint: Path,
    data: str,
    max_length: int | None = None,
    *,
    method: str,
    trust_remote_code: bool,
    **columns: Any,
) -> tuple[Predictions, Rows]:
    """The predictions of a checkpoint for labelled rows, and these."""
    from calmix.data.columns import ColumnNames
    from calmix.data.reading import read_rows
    from calmix.inference.prediction import predict_with_checkpoint, row_predictions
    from calmix.models.folding import check_takes_classes
    from calmix.models.loading import load_trained, trained_labels

    names = {name.removesuffix("_column"): value for name, value in columns.items()}
    rows = read_rows(data, "fit", ColumnNames.from_options(**names), trained_labels(checkpoint))
    if method in BIASED:  # said before the long forward pass, not after it
        check_takes_classes(load_trained(checkpoint, trust_remote_code=trust_remote_code))
    logits = predict_with_checkpoint(
        checkpoint, rows, max_length=max_length, trust_remote_code=trust_remote_code
    )
    return row_predictions(logits, rows), rows


def fold_checkpoint(
    source: CalibrationSource, calibrator: Calibrator, output: Path, *, trust_remote_code: bool = False
) -> None:
    """A copy of a checkpoint with the calibrator in its last layer: loaded again, and proven on rows."""
    from scipy.special import softmax

    from calmix.inference.fold_proof import ROWS, TOLERANCE, made_up_rows, reloaded_error
    from calmix.inference.forward_passes import best_device, forward_logits
    from calmix.models.folding import fold, folded_temperature, note_calibration
    from calmix.models.hf_compat import is_multiple_choice
    from calmix.models.loading import load_inputs, load_trained
    from calmix.runtime.progress import silence_transformers

    silence_transformers()
    assert source.checkpoint is not None
    trust = {"trust_remote_code": trust_remote_code}
    model = load_trained(source.checkpoint, **trust)
    inputs = load_inputs(source.checkpoint, model, max_length=source.max_length, **trust)
    if source.rows is None:
        rows = made_up_rows(inputs, is_choice=is_multiple_choice(model))
    else:
        rows = source.rows.select(np.arange(min(len(source.rows), ROWS)))
    encoded, device = inputs.encode(rows.without_labels()), best_device("auto")
    collator = inputs.collator(is_choice=encoded.is_choice)
    before = forward_logits(model, encoded, collator, device=device).astype(np.float64)
    facts: dict[str, Any] = {
        "method": calibrator.kind,
        "folded": True,
        "temperature": folded_temperature(model),
    }
    if calibrator.kind == "temperature":
        temperature = float(calibrator.temperature_)
        fold(model, 1.0 / temperature)
        facts["temperature"] *= temperature
        expected = softmax(before / temperature, axis=1)
    else:
        fold(model, *calibrator.affine())
        expected = calibrator.predict_proba(before)
    note_calibration(model, facts)
    model.save_pretrained(output)
    load_inputs(source.checkpoint, model, **trust).processing_class.save_pretrained(output)
    model.cpu()  # room for the copy on the device
    error = reloaded_error(output, encoded, collator, expected, device=device, **trust)
    if error > TOLERANCE:
        raise UserError(
            f"the folded checkpoint, loaded again, gives probabilities that are off by up to {error:.2g}: "
            f"{type(model).__name__} cannot hold {calibrator.kind} scaling in its last layer",
            file=source.checkpoint,
            remedy="calibrate its predictions file instead",
        )
