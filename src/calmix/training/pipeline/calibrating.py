"""The calibrator that is fitted at the end of a run, and what every split is with it.

`--calibrator` names it. All that are offered are affine in the logits and fold into the head; a head that
cannot hold one is refused before anything is trained. `perturbed` is a second one beside the temperature, in
a directory of its own.
"""

from __future__ import annotations

import shutil
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from torch import nn
from transformers import Trainer

from calmix.calibration.accuracy_loss import note_accuracy_loss
from calmix.calibration.calibrators.calibrated_predictions import remember_classes
from calmix.calibration.calibrators.calibrator import Calibrator, chosen_kind, get_calibrator
from calmix.calibration.calibrators.temperature import TemperatureScaling
from calmix.calibration.evaluation import evaluate
from calmix.calibration.files.run_predictions import apply_calibrator
from calmix.calibration.fit_uncertainty import FitUncertainty
from calmix.calibration.predictions import Predictions
from calmix.calibration.slices import evaluate_slices
from calmix.data.perturbation import COPIES, perturbed
from calmix.data.rows import Rows
from calmix.inference.adaptation.perturbed import copied_predictions, write_perturbed
from calmix.inference.prediction import predict_logits, row_predictions
from calmix.io.run_directory import RunDirectory
from calmix.models.folding import check_takes_classes
from calmix.models.inputs import Inputs
from calmix.runtime.option_values import PERTURBED
from calmix.training.configuration import TrainConfig
from calmix.user_error import UserError, argument

TEMPERATURE = "temperature"


@dataclass(frozen=True)
class RunCalibration:
    """A calibrator fitted on the validation rows of a run."""

    calibrator: Calibrator
    temperature: TemperatureScaling
    """The temperature that is best alone; the calibrator itself where it is one."""
    fitting: Predictions
    choice: dict[str, Any] = field(default_factory=dict)
    """Of `auto`: what it was chosen by."""
    said: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @classmethod
    def fit(cls, config: TrainConfig, model: nn.Module, validation: Predictions) -> RunCalibration:
        notes: list[str] = []
        choice: dict[str, Any] = {}
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            preset = "paper" if config.temperature_fit == "grid" else None
            calibrator: Calibrator
            calibrator = temperature = TemperatureScaling(preset=preset).fit(validation)
            if config.calibrator not in (TEMPERATURE, PERTURBED):
                calibrator = calibrator_for(config.calibrator, model, notes).fit(validation)
                remember_classes(calibrator, validation)
        if config.calibrator == "auto":
            choice = {"chosen_by": "auto", "cross_validation": getattr(calibrator, "scores_", None)}
            calibrator = temperature if chosen_kind(calibrator) == TEMPERATURE else calibrator
        said = list(dict.fromkeys(str(warning.message) for warning in caught))
        return cls(calibrator, temperature, validation, choice, said, notes)

    @property
    def kind(self) -> str:
        """What it is; of `auto`, what was chosen."""
        return chosen_kind(self.calibrator)

    @cached_property
    def uncertainty(self) -> FitUncertainty:
        """What the calibrator might have become on other validation rows."""
        return FitUncertainty.of(self.calibrator, self.fitting)

    def save(self, run: RunDirectory) -> None:
        """Beside the model, for the stored predictions; a temperature is in `metrics.json`."""
        if self.kind != TEMPERATURE:
            self.calibrator.save(run.path)

    def facts(self) -> dict[str, Any]:
        """Of `calibration.json`."""
        found: dict[str, Any] = {"method": self.kind}
        if self.kind == TEMPERATURE:
            found["temperature"] = float(self.calibrator.temperature_)
        return found | {
            **self.choice,
            "fitted_on": "validation",
            "n": len(self.fitting),
            "nll_before": self.calibrator.nll_before_,
            "nll_after": self.calibrator.nll_after_,
            "at_bound": self.temperature.at_bound_ if self.kind == TEMPERATURE else None,
            "warnings": self.said,
            **({"notes": self.notes} if self.notes else {}),
            "folded": True,
        }

    def measure(self, predictions: Mapping[str, Predictions], config: TrainConfig) -> dict[str, Any]:
        """Every split before and after. Validation after it is in-sample, and marked so; the intervals of
        other splits after it include the uncertainty of the fit."""
        settings: dict[str, Any] = {"bins": config.bins, "closed": config.closed}
        splits: dict[str, dict[str, Any]] = {}
        for name, split in predictions.items():
            calibrated = evaluate(apply_calibrator(self.calibrator, split), **settings)
            if name == "validation":
                calibrated["in_sample"] = True
            else:
                calibrated = self.uncertainty.widened(calibrated, split, **settings)
            splits[name] = {"uncalibrated": evaluate(split, **settings), "calibrated": calibrated}
        note_accuracy_loss(splits)
        return splits

    def with_slices(
        self,
        splits: dict[str, Any],
        predictions: Mapping[str, Predictions],
        rows: Mapping[str, Rows],
        config: TrainConfig,
    ) -> dict[str, Any]:
        """The calibrated metrics of every split with those of its slices, where `slice` names a column."""
        for name, split in predictions.items():
            groups = rows[name].slices
            if config.slice is not None and groups is not None:
                settings: dict[str, Any] = {"bins": config.bins, "closed": config.closed}
                calibrated = apply_calibrator(self.calibrator, split)
                fit = None if name == "validation" else (self.uncertainty, split)
                found = evaluate_slices(calibrated, groups, column=config.slice, fit=fit, **settings)
                splits[name]["calibrated"]["slices"] = found.as_dict()
        return splits

    def add_perturbed(
        self,
        run: RunDirectory,
        damaged: Predictions,
        predictions: Mapping[str, Predictions],
        validation: Rows,
        config: TrainConfig,
        splits: Mapping[str, dict[str, Any]],
    ) -> dict[str, Any]:
        """Fit and write the second calibrator and put its metrics beside the others; what `metrics.json`
        says about it. `damaged` are uncalibrated predictions of perturbed validation rows."""
        if (run.perturbed / "calibrator.json").is_file():  # of a process that was killed after it
            shutil.rmtree(run.perturbed)
        found = write_perturbed(
            run,
            apply_calibrator(self.calibrator, damaged),
            {name: apply_calibrator(self.calibrator, split) for name, split in predictions.items()},
            run.perturbed,
            rows=validation,
            max_length=config.max_length,
            seed=config.seed,
            bins=config.bins,
            closed=config.closed,
            trust_remote_code=config.trust_remote_code,
        )
        for name, held_out in found.result["held_out"].items():
            splits[name][PERTURBED] = held_out["after"]
        note_accuracy_loss(splits)
        # Relative to the logits of training, as the temperature of the run is.
        temperature = self.temperature.temperature_ * found.result["temperature"]
        return {"temperature": temperature, **found.result["perturbation"]}


def calibrator_for(name: str, model: nn.Module, notes: list[str]) -> Calibrator:
    """An unfitted calibrator that the head of a network can hold; `notes` says what was left out."""
    if name == "structured":
        return get_calibrator(name, coordinates="centred")  # which fold
    if name == "auto":
        try:
            check_takes_classes(model)
        except UserError as error:
            notes.append(f"only a temperature was tried: {reason(error)}")
            return get_calibrator(name, candidates=(TEMPERATURE,))
    return get_calibrator(name)


def check_calibrator(config: TrainConfig, model: nn.Module) -> None:
    """Refuse a calibrator that the head of the network has no place for, before it is trained."""
    if config.calibrator in (TEMPERATURE, PERTURBED, "auto"):
        return
    try:
        check_takes_classes(model)
    except UserError as error:
        raise UserError(
            reason(error),
            remedy=f"give {argument('calibrator', TEMPERATURE)} or {argument('calibrator', 'auto')}",
        ) from None


def reason(error: UserError) -> str:
    """What is wrong, without the remedy."""
    return str(error).partition(";")[0]


def perturbed_logits(predictor: Trainer, inputs: Inputs, validation: Rows, *, seed: int) -> Predictions:
    """What the network says about all damaged copies of the validation rows."""
    logits = [
        predict_logits(predictor, inputs.encode(perturbed(validation, copy, seed=seed)))
        for copy in range(COPIES)
    ]
    return copied_predictions(np.concatenate(logits), row_predictions(logits[0], validation))
