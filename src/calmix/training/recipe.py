"""From labelled files to a run directory: read, check, train, choose the epoch, calibrate, measure, save.

Everything that can be wrong with the input is found before the run directory is made. `metrics.json` is
written last and marks the run as finished.
"""

from __future__ import annotations

import json
import shutil
import time
import warnings
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from calmix.calibration.evaluation import evaluate
from calmix.calibration.prediction_files import write_predictions
from calmix.calibration.predictions import Predictions
from calmix.calibration.temperature import TemperatureScaling
from calmix.data.checks import Finding, check_splits, truncated_share
from calmix.data.encoding import EncodedRows, PaddingCollator, encode_rows
from calmix.data.rows import Rows
from calmix.data.sampling import stratified_sample
from calmix.data.splits import Splits, read_splits
from calmix.dynamics.dynamics_file import write_dynamics
from calmix.mixing.method import get_method
from calmix.models.folding import fold_temperature, merged
from calmix.models.loading import load_classifier, load_tokenizer, longest_input
from calmix.run import Run, write_json, write_yaml
from calmix.training.arguments import MixupArguments
from calmix.training.checkpoints import newest_complete
from calmix.training.configuration import TrainConfig
from calmix.training.hardware import prepare_processor
from calmix.training.prediction import as_predictions, predict_logits
from calmix.training.progress import Progress, hush, quiet
from calmix.training.selection import SELECTION_METRIC, epoch_metrics
from calmix.training.trainer import MixupTrainer
from calmix.user_error import UserError

FINGERPRINTS_FILE = "data.json"


@dataclass(frozen=True)
class Prepared:
    """All that training needs, read and checked."""

    splits: Splits
    encoded: dict[str, EncodedRows]
    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    findings: list[Finding]


def train(config: TrainConfig, *, resume: bool = False) -> Run:
    """Train one classifier and leave a finished run directory.

    With `resume`, a run that was cut off goes on from its newest whole checkpoint and ends with the same
    bits as an unbroken one; a finished run is returned as it is.
    """
    run = Run(Path(config.output))
    if resume and run.is_finished:
        return run
    check_output(run, config, resume=resume)
    get_method(config.method, **config.options_of_method())
    started = time.monotonic()
    hush()
    prepare_processor(config.threads)
    prepared = prepare(config)
    trainer = make_trainer(config, run, prepared)
    checkpoint = newest_complete(run.checkpoints) if resume else None
    if trainer.is_world_process_zero():
        open_run(run, config, prepared.splits, resume=checkpoint is not None)
    trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)
    finish(run, config, prepared, trainer, started)
    return run


def check_output(run: Run, config: TrainConfig, *, resume: bool) -> None:
    """Refuse to write over anything that is not this very run."""
    if not run.path.exists() or (run.path.is_dir() and not any(run.path.iterdir())):
        return
    if not run.path.is_dir():
        raise UserError("the output is a file", file=run.path, remedy="name a directory")
    if not run.config_file.is_file():
        raise UserError(
            "the output directory is not empty and holds no run",
            file=run.path,
            remedy="name another --output",
        )
    if not resume:
        state = "a finished run" if run.is_finished else "an unfinished run"
        remedy = "name another --output" + ("" if run.is_finished else ", or go on with --resume")
        raise UserError(f"the output directory holds {state}", file=run.path, remedy=remedy)
    different = config.differences(TrainConfig.from_dict(run.config()))
    if different:
        raise UserError(
            f"the run to resume was started with other options ({', '.join(different)})",
            file=run.config_file,
            remedy="resume with the same options, or name another --output",
        )


def prepare(config: TrainConfig) -> Prepared:
    """Read the data, load the network, tokenise, and look for what is wrong with the data."""
    splits = read_splits(
        config.train, config.validation, config.test, columns=config.columns(), seed=config.seed
    )
    if config.train_rows is not None and config.train_rows < len(splits.train):
        splits = replace(splits, train=stratified_sample(splits.train, config.train_rows, config.seed))
    tokenizer = load_tokenizer(config.model)
    model = load_classifier(
        config.model,
        task=splits.train.task,
        label_names=splits.train.label_names,
        seed=config.seed,
        pad_token_id=tokenizer.pad_token_id,
    )
    if config.freeze_embeddings:
        for parameter in model.get_input_embeddings().parameters():
            parameter.requires_grad = False
    limit = longest_input(model, tokenizer)
    max_length = min(config.max_length, limit) if limit else config.max_length
    named = {"train": splits.train, "validation": splits.validation, **splits.tests}
    encoded = {name: encode_rows(rows, tokenizer, max_length=max_length) for name, rows in named.items()}
    findings = check_splits(splits)
    cut = [truncated_share(rows.truncated, max_length, name) for name, rows in encoded.items()]
    findings += [finding for finding in cut if finding.count]
    return Prepared(splits, encoded, model, tokenizer, findings)


def make_trainer(config: TrainConfig, run: Run, prepared: Prepared) -> MixupTrainer:
    settings: dict[str, Any] = {
        "output_dir": str(run.checkpoints.absolute()),
        "method": config.method,
        "method_options": config.options_of_method(),
        "dynamics": config.dynamics,
        "seed": config.seed,
        "num_train_epochs": config.epochs,
        "per_device_train_batch_size": config.batch_size,
        "per_device_eval_batch_size": max(config.batch_size, 64),
        "learning_rate": config.learning_rate,
        "use_cpu": config.device == "cpu",
        "dataloader_pin_memory": torch.cuda.is_available() and config.device != "cpu",
        "eval_strategy": "epoch",
        # "best" saves whenever the epoch is the best so far; checkpoints to resume from come on top.
        "save_strategy": "best",
        "metric_for_best_model": SELECTION_METRIC,
        "greater_is_better": False,
        "load_best_model_at_end": True,
        "save_total_limit": 3,
        "logging_strategy": "no",
        "disable_tqdm": True,
        "checkpoint_steps": config.checkpoint_steps,
        "checkpoint_minutes": config.checkpoint_minutes,
    }
    try:
        arguments = MixupArguments(**{**settings, **config.trainer})
    except (TypeError, ValueError) as error:
        raise UserError(f"trainer: {error}", remedy="see transformers.TrainingArguments") from error
    view, _ = prepared.encoded["validation"].by_length()
    trainer = MixupTrainer(
        model=prepared.model,
        args=arguments,
        train_dataset=prepared.encoded["train"],
        eval_dataset=view,
        data_collator=PaddingCollator.for_tokenizer(
            prepared.tokenizer, is_choice=prepared.encoded["train"].is_choice
        ),
        compute_metrics=epoch_metrics,
        processing_class=prepared.tokenizer,
    )
    quiet(trainer)
    trainer.add_callback(Progress(config.method))
    return trainer


def open_run(run: Run, config: TrainConfig, splits: Splits, *, resume: bool) -> None:
    """Make the run directory, or see that the one to resume was made from the same data."""
    fingerprints = {
        name: rows.fingerprint()
        for name, rows in {"train": splits.train, "validation": splits.validation, **splits.tests}.items()
    }
    file = run.checkpoints / FINGERPRINTS_FILE
    if resume:
        if json.loads(file.read_text()) != fingerprints:
            raise UserError(
                "the data files have changed since the run began", file=run.path, remedy="start a new run"
            )
        return
    shutil.rmtree(run.path, ignore_errors=True)
    write_json(file, fingerprints)
    write_yaml(run.config_file, config.as_dict())


def finish(run: Run, config: TrainConfig, prepared: Prepared, trainer: MixupTrainer, started: float) -> None:
    """Predictions, temperature, metrics, dynamics and the folded checkpoint."""
    splits = prepared.splits
    named: dict[str, Rows] = {"validation": splits.validation, **splits.tests}
    predictions = {
        name: as_predictions(predict_logits(trainer, prepared.encoded[name]), rows)
        for name, rows in named.items()
    }
    recorder = trainer.merged_recorder()
    losses = trainer.merged_losses().means()
    if not trainer.is_world_process_zero():
        return
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        validation = predictions["validation"]
        scaling = TemperatureScaling().fit(validation.values, validation.labels)
    for name, split in predictions.items():
        write_predictions(run.predictions_file(name), split)
    if recorder is not None and recorder.dynamics().seen.any():
        write_dynamics(run.dynamics_file, recorder.dynamics())
    save_model(run, trainer, prepared, scaling.temperature_, validation)
    write_json(
        run.calibration_file,
        {
            "method": "temperature",
            "temperature": scaling.temperature_,
            "fitted_on": "validation",
            "n": len(validation),
            "nll_before": scaling.nll_before_,
            "nll_after": scaling.nll_after_,
            "at_bound": scaling.at_bound_,
            "warnings": [str(warning.message) for warning in said],
            "folded": True,
        },
    )
    metrics = {
        "method": config.method,
        "model": config.model,
        "seed": config.seed,
        "temperature": scaling.temperature_,
        "seconds": round(time.monotonic() - started, 3),
        "device": str(trainer.args.device),
        "ece_bins": config.bins,
        "ece_edges": config.edges,
        "task": splits.train.task,
        "label_names": list(splits.train.label_names),
        "sizes": {name: len(rows) for name, rows in {"train": splits.train, **named}.items()},
        "splits": measure(predictions, scaling.temperature_, config),
        "history": history(trainer, losses),
        "data_checks": [
            {"severity": f.severity, "split": f.split, "message": f.message, "count": f.count}
            for f in prepared.findings
        ],
    }
    write_json(run.metrics_file, metrics)
    shutil.rmtree(run.checkpoints, ignore_errors=True)


def measure(
    predictions: dict[str, Predictions], temperature: float, config: TrainConfig
) -> dict[str, dict[str, Any]]:
    """Every split before and after temperature scaling. Validation after it is in-sample, and marked so."""
    splits: dict[str, dict[str, Any]] = {}
    for name, split in predictions.items():
        settings: dict[str, Any] = {"bins": config.bins, "edges": config.edges}
        calibrated = evaluate(split.with_temperature(temperature), **settings)
        if name == "validation":
            calibrated["in_sample"] = True
        splits[name] = {"uncalibrated": evaluate(split, **settings), "calibrated": calibrated}
    return splits


def history(trainer: MixupTrainer, losses: dict[int, float]) -> list[dict[str, Any]]:
    """What every epoch found, and which one was kept."""
    best = trainer.state.best_global_step
    return [
        {
            "epoch": round(entry["epoch"]),
            "train_loss": losses.get(round(entry["epoch"]) - 1),
            "accuracy": entry["eval_accuracy"],
            "validation_nll": entry["eval_nll"],
            "validation_nll_calibrated": entry[f"eval_{SELECTION_METRIC}"],
            "temperature": entry["eval_temperature"],
            "chosen": entry["step"] == best,
        }
        for entry in trainer.state.log_history
        if f"eval_{SELECTION_METRIC}" in entry
    ]


def save_model(
    run: Run, trainer: MixupTrainer, prepared: Prepared, temperature: float, validation: Predictions
) -> None:
    """A standard checkpoint whose plain softmax is calibrated, proven on a few rows before it is kept."""
    model = merged(trainer.accelerator.unwrap_model(trainer.model))
    fold_temperature(model, temperature)
    encoded = prepared.encoded["validation"]
    few = np.arange(min(len(encoded), 32))
    batch = trainer.data_collator([encoded[int(position)] for position in few])
    batch.pop("labels")
    model.eval()
    with torch.no_grad():
        logits = model(**{name: tensor.to(trainer.args.device) for name, tensor in batch.items()}).logits
    folded = Predictions.from_logits(logits.float().cpu().numpy(), validation.labels[few])
    expected = validation.select(few).with_temperature(temperature)
    error = float(np.abs(folded.probabilities() - expected.probabilities()).max())
    if error > 1e-4:
        raise RuntimeError(f"folding the temperature changed probabilities by {error:.2g}")
    model.save_pretrained(run.model)  # type: ignore[operator]
    prepared.tokenizer.save_pretrained(run.model)
