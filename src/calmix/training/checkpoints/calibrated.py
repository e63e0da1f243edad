"""A standard checkpoint whose plain softmax is calibrated: calibrator folded, loaded again, checked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from transformers import Trainer, TrainingArguments

from calmix.calibration.calibrators.calibrator import Calibrator, chosen_kind
from calmix.calibration.calibrators.temperature import TemperatureScaling
from calmix.calibration.files.run_predictions import apply_calibrator
from calmix.calibration.predictions import Predictions
from calmix.inference import fold_proof
from calmix.io.replacing import as_umask_says
from calmix.models.folding import fold, fold_temperature, folded_temperature, merged, note_calibration
from calmix.models.loading import load_trained
from calmix.runtime.progress import quiet
from calmix.training.targets.prior_correction import correct_prior
from calmix.user_error import UserError


def save_calibrated(trainer: Trainer, directory: Path, validation: Any, *, trust_remote_code: bool) -> float:
    """Fit a temperature on labelled rows and save a calibrated copy of what a trainer has trained."""
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
    known = Predictions.from_logits(logits, output.label_ids)
    calibrator = TemperatureScaling().fit(known.values, known.labels)
    if trainer.is_world_process_zero():
        batch = dict(next(iter(predictor.get_eval_dataloader(validation))))
        batch.pop("labels", None)
        few = known.select(np.arange(len(next(iter(batch.values())))))

        def save_inputs(place: Path) -> None:
            if trainer.processing_class is not None:
                trainer.processing_class.save_pretrained(place)

        save_folded(
            model, directory, calibrator, save_inputs, batch, few, trust_remote_code=trust_remote_code
        )
    trainer.accelerator.wait_for_everyone()
    return float(calibrator.temperature_)


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
    device = next(model.parameters()).device
    kind = chosen_kind(calibrator)
    if kind == "temperature":
        fold_temperature(model, calibrator.temperature_)
    else:
        fold(model, *calibrator.affine())
        note_calibration(model, {"method": kind, "folded": True, "temperature": folded_temperature(model)})
    model.save_pretrained(directory)  # type: ignore[operator]
    save_inputs(directory)
    as_umask_says(file for file in list(directory.rglob("*")) if file.is_file())
    model.cpu()  # room for the copy on the device
    loaded: Any = load_trained(directory, trust_remote_code=trust_remote_code)
    loaded.to(device).eval()
    with torch.no_grad():
        logits = loaded(**{name: tensor.to(device) for name, tensor in batch.items()}).logits
    folded = Predictions.from_logits(logits.float().cpu().numpy(), known.labels)
    expected = apply_calibrator(calibrator, known)
    error = float(np.abs(folded.probabilities() - expected.probabilities()).max())
    if error > fold_proof.TOLERANCE:
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
