"""The directory of a calibrated model, written whole or not at all.

It holds the calibrator (`calibrator.json`, `calibrator.safetensors`) and, where it folds into the last
layer, `model/`: a checkpoint whose plain softmax is calibrated; where it does not, `uncalibrated_model/`: the
network whose logits it takes. For a run or a predictions file it holds the calibrated predictions too.
`calibration.json` has metrics of rows that the calibrator was not fitted on.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from calmix.calibration.calibrators.calibrated_predictions import calibrate_predictions, remember_classes
from calmix.calibration.calibrators.calibrator import Calibrator, chosen_kind
from calmix.calibration.files.prediction_files import write_predictions
from calmix.calibration.fit_uncertainty import FitUncertainty
from calmix.calibration.held_out import HeldOut, are_same_rows, cross_validated
from calmix.calibration.predictions import Predictions
from calmix.inference.saved_classifier import UNCALIBRATED_MODEL
from calmix.io.run_directory import write_json
from calmix.io.writing import new_directory
from calmix.user_error import UserError

if TYPE_CHECKING:
    from calmix.data.rows import Rows


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
    other_rows: Mapping[str, Rows] = field(default_factory=dict)
    """The rows behind `others`, where they are there and may be among those of `fitting`."""

    def unseen(self) -> dict[str, Predictions]:
        """The other sets of predictions without the rows that are among the fitting ones: by their inputs,
        where these are known; else without a set that is the fitting rows. None of them where all are."""
        from calmix.data.duplicates import first_places, input_keys

        fitted = None if self.rows is None or not self.other_rows else input_keys(self.rows)
        found = {}
        for name, before in self.others.items():
            if fitted is not None and name in self.other_rows:
                places = np.flatnonzero(first_places(input_keys(self.other_rows[name]), fitted) < 0)
                if len(places):
                    found[name] = before if len(places) == len(before) else before.select(places)
            elif not are_same_rows(before, self.fitting):
                found[name] = before
        return found

    def overlaps(self) -> list[str]:
        """What `unseen` leaves out, in words."""
        unseen = self.unseen()
        counts = {
            name: len(before) - len(unseen.get(name, ()))
            for name, before in self.others.items()
            if name in self.other_rows
        }
        return [
            f"{count} of the {len(self.others[name])} rows of {name!r} are among the rows of the fit: they "
            "are left out of its metrics"
            for name, count in counts.items()
            if count
        ]

    def held_out(self, name: str, calibrator: Calibrator) -> dict[str, HeldOut]:
        """Before and after on rows that the calibrator has not seen: every other set of predictions, and the
        fitting rows by cross-validation. `name` is what the fitting rows are called."""
        others = self.unseen()
        fit = FitUncertainty.of(calibrator, self.fitting) if others else None
        found = {
            other: HeldOut("held-out", before, calibrate_predictions(calibrator, before), fit=fit)
            for other, before in others.items()
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


Describe = Callable[[Path, Calibrated], None]


def write_calibrated(
    source: CalibrationSource,
    calibrator: Calibrator,
    output: Path,
    fitted_on: str,
    facts: Mapping[str, Any],
    *,
    folds: bool = True,
    held_out: Mapping[str, HeldOut] | None = None,
    describe: Describe | None = None,
    trust_remote_code: bool = False,
) -> Calibrated:
    """Everything about a fitted calibrator; `facts` go first into the result.

    `folds=False` keeps one that would fold beside its network. `held_out` are the rows to measure on where
    the caller knows better; `describe` writes what people read, before the directory has its name.
    """
    with new_directory(output) as fresh:
        remember_classes(calibrator, source.fitting)
        calibrator.save(fresh)
        folded = source.checkpoint is not None and calibrator.folds and folds
        if folded:
            fold_checkpoint(source, calibrator, fresh / "model", trust_remote_code=trust_remote_code)
        elif source.checkpoint is not None and source.checkpoint.is_dir():
            # The calibrator and the network that it belongs to stay together: `calmix predict` takes both.
            shutil.copytree(source.checkpoint, fresh / UNCALIBRATED_MODEL)
        for name, predictions in source.others.items():
            write_predictions(
                fresh / "predictions" / f"{name}.parquet", calibrate_predictions(calibrator, predictions)
            )
        name = fitted_on if fitted_on in source.others else Path(fitted_on).name
        if held_out is None:
            held_out = source.held_out(name, calibrator)
        temperature = getattr(calibrator, "temperature_", None)
        result = {
            **facts,
            "fitted_on": fitted_on,
            "n": len(source.fitting),
            "class_names": list(source.fitting.class_names),
            "nll_before": calibrator.nll_before_,
            "nll_after": calibrator.nll_after_,
            "in_sample": ["nll_before", "nll_after"],
            "held_out": {name: found.metrics() for name, found in held_out.items()},
            "temperature": temperature,
            "folded": folded,
            "model": str(output / "model") if folded else None,
            "predictions": [str(output / "predictions" / f"{name}.parquet") for name in source.others],
        }
        write_json(fresh / "calibration.json", result)
        found = Calibrated(result, dict(held_out))
        if describe is not None:
            describe(fresh, found)
    return found


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
        "method": chosen_kind(calibrator),
        "folded": True,
        "temperature": folded_temperature(model),
    }
    kind, scale = facts["method"], float(getattr(calibrator, "temperature_", 1.0))
    if kind in ("temperature", "shrunk"):
        facts["temperature"] *= scale
    if kind == "temperature" or (kind == "shrunk" and not calibrator.bias_.any()):
        temperature = scale  # one number: it folds into every head
        fold(model, 1.0 / temperature)
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
