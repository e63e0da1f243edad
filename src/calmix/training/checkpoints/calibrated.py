"""A standard checkpoint whose plain softmax is calibrated: calibrator folded, loaded again, checked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import expit
from torch import Tensor, nn
from transformers import Trainer, TrainingArguments

from calmix.calibration.calibrators.calibrator import Calibrator, chosen_kind
from calmix.calibration.calibrators.temperature import TemperatureScaling
from calmix.calibration.files.run_predictions import apply_calibrator
from calmix.calibration.multi_label.label_scaling import LabelScaling, Scaling
from calmix.calibration.multi_label.label_thresholds import best_thresholds
from calmix.calibration.multi_label.multi_label_predictions import MultiLabelPredictions
from calmix.calibration.predictions import Predictions
from calmix.inference import fold_proof
from calmix.io.replacing import as_umask_says
from calmix.models.folding import (
    fold,
    fold_labels,
    fold_temperature,
    folded_temperature,
    merged,
    note_calibration,
)
from calmix.models.hf_compat import has_independent_labels, last_linear
from calmix.models.linear_head import in_standard_form
from calmix.models.loading import load_trained
from calmix.runtime.progress import quiet
from calmix.training.targets.prior_correction import correct_prior
from calmix.user_error import UserError


def save_calibrated(
    trainer: Trainer, directory: Path, validation: Any, *, trust_remote_code: bool
) -> float | LabelScaling:
    """Fit a temperature, or the scaling of several labels, on labelled rows and save a calibrated copy of
    what a trainer has trained."""
    if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        raise UserError("the output exists already", file=directory, remedy="name another directory")
    unwrapped: Any = trainer.accelerator.unwrap_model(trainer.model, keep_fp32_wrapper=False)
    model = merged(deepcopy(unwrapped)).float()  # the trainer's own may go on training
    balance = getattr(trainer, "balance", None)
    if balance is not None:
        correct_prior(model, balance.shift())
    predictor = in_full_precision(model, trainer)
    output: Any = predictor.predict(validation)
    logits = output.predictions[0] if isinstance(output.predictions, tuple) else output.predictions
    if output.label_ids is None:
        raise UserError("validation rows without labels", remedy="give rows with a column 'labels'")
    trust = {"trust_remote_code": trust_remote_code}

    def save_inputs(place: Path) -> None:
        if trainer.processing_class is not None:
            trainer.processing_class.save_pretrained(place)

    batch = dict(next(iter(predictor.get_eval_dataloader(validation))))
    batch.pop("labels", None)
    few = np.arange(len(next(iter(batch.values()))))
    if has_independent_labels(model):
        config: Any = model.config
        names = [str(name) for name in config.id2label.values()]
        several = MultiLabelPredictions.from_logits(logits, output.label_ids, label_names=names)
        scaling = LabelScaling(scaling_for(model)).fit(several)
        thresholds = best_thresholds(scaling.calibrate(several))
        if trainer.is_world_process_zero():
            save_scaled(
                model, directory, scaling, thresholds, save_inputs, batch, several.select(few), **trust
            )
        trainer.accelerator.wait_for_everyone()
        return scaling
    known = Predictions.from_logits(logits, output.label_ids)
    calibrator = TemperatureScaling().fit(known.values, known.labels)
    if trainer.is_world_process_zero():
        save_folded(model, directory, calibrator, save_inputs, batch, known.select(few), **trust)
    trainer.accelerator.wait_for_everyone()
    return float(calibrator.temperature_)


def scaling_for(model: nn.Module) -> Scaling:
    """What the head of a network can hold: a scale and a bias for every label, or scales alone."""
    return "temperature" if last_linear(model).bias is None else "platt"


def save_scaled(
    model: nn.Module,
    directory: Path,
    scaling: LabelScaling,
    thresholds: Mapping[str, float],
    save_inputs: Callable[[Path], None],
    batch: Mapping[str, Tensor],
    known: MultiLabelPredictions,
    *,
    trust_remote_code: bool,
) -> None:
    """Fold the scaling of several labels into a model and save it with their thresholds, proven on a batch of
    inputs whose uncalibrated predictions are known."""
    facts = {"method": scaling.method, "thresholds": dict(thresholds)}
    fold_labels(model, scaling.scale_, scaling.bias_, facts)
    expected = scaling.calibrate(known).probabilities()

    def sigmoid(logits: NDArray[np.float32]) -> NDArray[np.float64]:
        return np.asarray(expit(logits.astype(np.float64)))

    save_proven(
        model,
        directory,
        save_inputs,
        batch,
        expected,
        sigmoid,
        tolerance=fold_proof.scaled_tolerance(scaling.scale_),
        trust_remote_code=trust_remote_code,
    )


def save_folded(
    model: nn.Module,
    directory: Path,
    calibrator: Calibrator,
    save_inputs: Callable[[Path], None],
    batch: Mapping[str, Tensor],
    known: Predictions,
    *,
    trust_remote_code: bool,
) -> None:
    """Fold a calibrator into a model and save it: loaded again, and proven on a batch of inputs whose
    uncalibrated predictions are known."""
    kind = chosen_kind(calibrator)
    if kind == "temperature":
        fold_temperature(model, calibrator.temperature_)
    else:
        fold(model, *calibrator.affine())
        note_calibration(model, {"method": kind, "folded": True, "temperature": folded_temperature(model)})

    def probabilities(logits: NDArray[np.float32]) -> NDArray[np.float64]:
        return Predictions.from_logits(logits, known.labels).probabilities()

    expected = apply_calibrator(calibrator, known).probabilities()
    save_proven(
        model, directory, save_inputs, batch, expected, probabilities, trust_remote_code=trust_remote_code
    )


def save_proven(
    model: nn.Module,
    directory: Path,
    save_inputs: Callable[[Path], None],
    batch: Mapping[str, Tensor],
    expected: NDArray[np.float64],
    probabilities: Callable[[NDArray[np.float32]], NDArray[np.float64]],
    *,
    tolerance: float = fold_proof.TOLERANCE,
    trust_remote_code: bool,
) -> None:
    """Save a model that a calibrator was folded into: loaded again, and proven on a batch of inputs whose
    calibrated probabilities are known; `probabilities` are those of its logits."""
    device = next(model.parameters()).device
    with in_standard_form(model):
        model.save_pretrained(directory)  # type: ignore[operator]
    save_inputs(directory)
    as_umask_says(file for file in list(directory.rglob("*")) if file.is_file())
    model.cpu()  # room for the copy on the device
    loaded: Any = load_trained(directory, trust_remote_code=trust_remote_code)
    loaded.to(device).eval()
    with torch.no_grad():
        logits = loaded(**{name: tensor.to(device) for name, tensor in batch.items()}).logits
    error = float(np.abs(probabilities(logits.float().cpu().numpy()) - expected).max())
    if error > tolerance:
        raise RuntimeError(f"the saved model, loaded again, gives probabilities that are off by {error:.2g}")


def in_full_precision(model: nn.Module, trainer: Trainer) -> Trainer:
    """A trainer that only predicts."""
    predictor = Trainer(
        model=model,
        args=TrainingArguments(
            output_dir=trainer.args.output_dir,
            per_device_eval_batch_size=trainer.args.per_device_eval_batch_size,
            use_cpu=trainer.args.use_cpu,
            dataloader_pin_memory=trainer.args.dataloader_pin_memory,
            report_to="none",
            disable_tqdm=True,
        ),
        data_collator=trainer.data_collator,
    )
    quiet(predictor)
    return predictor
