"""Calibrate what is already trained: a run, a predictions file or a checkpoint; it stays as it is."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from calmix.calibration.calibrators.calibrated_predictions import (
    finite_logits,
)
from calmix.calibration.calibrators.calibrator import chosen_kind, get_calibrator
from calmix.calibration.class_names import DifferentClasses, listed
from calmix.calibration.files.column_mapping import ColumnMapping
from calmix.calibration.files.prediction_files import Note, read_predictions
from calmix.calibration.files.run_predictions import predictions_of_run
from calmix.calibration.predictions import Predictions
from calmix.data.columns import ColumnNames
from calmix.data.images.embedded import is_embedded
from calmix.inference.calibrated_directory import (
    Calibrated,
    CalibrationSource,
    Describe,
    write_calibrated,
)
from calmix.io.memory_tables import is_in_memory
from calmix.io.run_directory import RunDirectory
from calmix.io.writing import check_new_directory
from calmix.user_error import UserError, argument

if TYPE_CHECKING:
    from calmix.data.rows import Rows

# What always has a bias of every class.
BIASED = ("temperature-bias", "vector", "platt")
# A temperature this close to 1 moves no probability by more than a few ten-thousandths.
UNCHANGED = 1e-3


def calibrate(
    source: Path | Predictions,
    fit_on: str | Predictions,
    method: str,
    output: Path,
    *,
    mapping: ColumnMapping | None = None,
    describe: Describe | None = None,
    trust_remote_code: bool = False,
    **data: Any,
) -> Calibrated:
    """Fit a calibrator on `fit_on` and apply it to `source`.

    `mapping` says what the columns of predictions files are where their names do not. `describe` writes what
    people read into the new directory.
    """
    check_new_directory(output)
    known = get_calibrator(method)  # an unknown name is refused before anything is read
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
    if method == "auto" and opened.checkpoint is not None:
        reason = _holds_one_scale(opened.checkpoint, trust_remote_code=trust_remote_code)
        if reason is not None:
            calibrator = get_calibrator("auto", candidates=("temperature",))
            notes.append(f"only a temperature was tried: {reason}")
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            calibrator.fit(opened.fitting)
    except ValueError as error:
        place = source if isinstance(source, Path) else None
        raise UserError(f"{method} does not fit here: {error}", file=place) from error
    facts = {
        "method": method,
        "chosen": chosen_kind(calibrator),
        "cross_validation": getattr(calibrator, "scores_", None) if method == "auto" else None,
        "already_calibrated": chosen_kind(calibrator) == "temperature"
        and opened.checkpoint is not None
        and abs(float(getattr(calibrator, "temperature_", np.nan)) - 1) <= UNCHANGED,
        "notes": list(dict.fromkeys([*notes, *opened.overlaps()])),
        "warnings": [str(warning.message) for warning in caught],
    }
    fitted_on = fit_on if isinstance(fit_on, str) else f"in memory: {len(fit_on):,} rows"
    return write_calibrated(
        opened,
        calibrator,
        output,
        fitted_on,
        facts,
        describe=describe,
        trust_remote_code=trust_remote_code,
    )


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
        return _open_run(RunDirectory.open(source), fit_on, **data)
    if source.is_dir():
        named = {name: data.pop(name) for name in list(data) if name.endswith("_column")}
        columns = {name.removesuffix("_column"): value for name, value in named.items()}
        fitting, rows = _forward(source, fit_on, ColumnNames.from_options(**columns), **data)
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


def _open_run(
    run: RunDirectory, fit_on: str, *, method: str, trust_remote_code: bool, **given: Any
) -> CalibrationSource:
    # The saved model carries the run's temperature: its own logits are the stored ones divided by it.
    names = run.splits()
    run.check_undamaged("model/")
    predictions = {name: predictions_of_run(run, name, calibrated=True) for name in names}
    if fit_on in predictions:
        rows = _rows_of_splits(run).get(fit_on)
        return CalibrationSource(predictions[fit_on], run.model, predictions, rows, is_run=True)
    if not Path(fit_on).exists() and not is_embedded(fit_on) and not is_in_memory(fit_on):
        remedy = f"name labelled data, or one of its splits: {', '.join(names)}"
        raise UserError(f"no split and no file {fit_on!r}", file=run.path, remedy=remedy)
    length = given.get("max_length") or run.config()["max_length"]
    settings = {"max_length": length, "trust_remote_code": trust_remote_code}
    columns = _columns_as_trained(run, fit_on, given)
    fitting, rows = _forward(run.model, fit_on, columns, method=method, **settings)
    return CalibrationSource(
        fitting, run.model, predictions, rows, length, is_run=True, other_rows=_rows_of_splits(run)
    )


def _columns_as_trained(run: RunDirectory, data: str, given: Mapping[str, Any]) -> ColumnNames:
    """The columns of a labelled file: as in training, unless given. Weights are read where it has them."""
    from calmix.data.sources import read_source
    from calmix.inference.run_rows import columns_of

    named = {name.removesuffix("_column"): value for name, value in given.items() if name.endswith("_column")}
    known = columns_of(run).with_labels({}, drop_unlabelled=False)  # which is about the training files
    columns = replace(known, **{name: value for name, value in named.items() if value is not None})
    has_weights = columns.weight is None or columns.weight in read_source(data, "fit").names
    return columns if has_weights else replace(columns, weight=None)


def _holds_one_scale(checkpoint: Path, *, trust_remote_code: bool) -> str | None:
    """Why the head of a network has no place for more than a temperature; None where it has."""
    from calmix.models.folding import check_takes_classes
    from calmix.models.loading import load_trained
    from calmix.runtime.progress import silence_transformers

    silence_transformers()
    try:
        check_takes_classes(load_trained(checkpoint, trust_remote_code=trust_remote_code))
    except UserError as error:
        return str(error).partition(";")[0]
    return None


def _rows_of_splits(run: RunDirectory) -> dict[str, Rows]:
    """The rows of the splits of a run; none where its files were moved or changed since."""
    from calmix.inference.run_rows import rows_of_run

    try:
        return rows_of_run(run, remedy="")
    except UserError:
        return {}


def _forward(
    checkpoint: Path,
    data: str,
    columns: ColumnNames,
    max_length: int | None = None,
    *,
    method: str,
    trust_remote_code: bool,
) -> tuple[Predictions, Rows]:
    """The predictions of a checkpoint for labelled rows, and these."""
    from calmix.data.reading import read_rows
    from calmix.inference.prediction import predict_with_checkpoint, row_predictions
    from calmix.models.folding import check_takes_classes
    from calmix.models.loading import load_trained, trained_labels

    rows = read_rows(data, "fit", columns, trained_labels(checkpoint))
    if method in BIASED:  # refused before the long forward pass, not after it
        check_takes_classes(load_trained(checkpoint, trust_remote_code=trust_remote_code))
    logits = predict_with_checkpoint(
        checkpoint, rows, max_length=max_length, trust_remote_code=trust_remote_code
    )
    return row_predictions(logits, rows), rows
