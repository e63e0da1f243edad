"""What training leaves: predictions, calibrator, metrics, dynamics and the folded checkpoint."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Mapping
from typing import Any

import numpy as np
from torch import nn
from transformers import Trainer

from calmix.calibration.calibrators.calibrator import Calibrator
from calmix.calibration.calibrators.temperature import TemperatureScaling
from calmix.calibration.files.prediction_files import write_predictions
from calmix.calibration.predictions import Predictions
from calmix.data.rows import Rows
from calmix.dynamics.dynamics_file import write_dynamics
from calmix.inference.prediction import row_predictions
from calmix.io.manifest import make_manifest, sync
from calmix.io.run_directory import RunDirectory, remove_leftovers, write_json
from calmix.mixing.needs import AUM
from calmix.models.inputs import Encoded
from calmix.runtime.option_values import PERTURBED
from calmix.training.checkpoints.calibrated import save_folded
from calmix.training.configuration import TrainConfig
from calmix.training.default_settings import default_settings
from calmix.training.epochs.measures import SELECTION_METRIC
from calmix.training.hf_compat import evaluations
from calmix.training.learning import Learning, Settings, ValidationFacts, judge_learning
from calmix.training.pipeline.calibrating import TEMPERATURE, RunCalibration, perturbed_logits
from calmix.training.pipeline.final_logits import final_logits, proof_rows
from calmix.training.pipeline.guidance import write_guidance
from calmix.training.pipeline.prepared import Prepared
from calmix.training.pipeline.run_files import remove_checkpoints
from calmix.training.targets.prior_correction import correction_facts
from calmix.training.trainer import MixupTrainer
from calmix.user_error import UserError, argument

# Between the epoch's own evaluation and that of the loaded model: the last bits; of mixed precision, more.
NLL_TOLERANCE, NLL_TOLERANCE_MIXED = 1e-3, 5e-2
# The history of a run: what an epoch measures, by its name in `metrics.json`.
MEASURED = {
    "accuracy": "accuracy",
    "validation_mcc": "mcc",  # not in runs begun before it was measured
    "validation_ece": "ece",
    "validation_nll": "nll",
    "validation_nll_calibrated": SELECTION_METRIC,
    "temperature": "temperature",
}


def finish(
    run: RunDirectory,
    config: TrainConfig,
    prepared: Prepared,
    trainer: MixupTrainer,
    cached: Mapping[str, Encoded],
    started: float,
) -> None:
    """Predictions, calibrator, metrics, dynamics and the folded checkpoint."""
    splits = prepared.splits
    named: dict[str, Rows] = {"validation": splits.validation, **splits.tests}
    model, predictor, logits = final_logits(prepared, trainer, cached)
    predictions = {name: row_predictions(logits[name], rows) for name, rows in named.items()}
    damaged = None
    if config.calibrator == PERTURBED:
        damaged = perturbed_logits(predictor, prepared.inputs, splits.validation, seed=config.seed)
    recorder = trainer.merged_recorder()
    journal = trainer.merged_journal()
    if not trainer.is_world_process_zero():
        # All leave together: a launcher may take the end of one process for a failure of the others.
        trainer.accelerator.wait_for_everyone()
        return
    validation = predictions["validation"]
    fitted = RunCalibration.fit(config, model, validation)
    scaling = fitted.temperature
    check_chosen(run, trainer, scaling.nll_before_, is_half=config.freeze_cache == "float16")
    for name, split in predictions.items():
        write_predictions(run.predictions_file(name), split)
    write_guidance(run, prepared.guidance, trainer.groups, splits.train, journal)
    dynamics = None if recorder is None else recorder.dynamics()
    if dynamics is not None and dynamics.seen.any():
        write_dynamics(run.dynamics_file, dynamics)
    trust = {"trust_remote_code": config.trust_remote_code}
    save_model(run, model, predictor, prepared, fitted.calibrator, validation, **trust)
    fitted.save(run)
    write_json(run.calibration_file, fitted.facts())
    epochs = history(trainer, journal.losses())
    learning = judge_run(config, prepared, validation, scaling, epochs)
    metrics = {
        **run_facts(config, prepared, trainer, started),
        **({"temperature": scaling.temperature_} if fitted.kind == TEMPERATURE else {}),
        "calibrator": fitted.kind,
        "splits": fitted.with_slices(fitted.measure(predictions, config), predictions, named, config),
        "history": epochs,
        "learning": learning.as_dict(),
        "data_checks": data_checks(prepared),
    }
    if damaged is not None:
        metrics[PERTURBED] = fitted.add_perturbed(
            run, damaged, predictions, splits.validation, config, metrics["splits"]
        )
    if prepared.teaching is not None and trainer.teacher is not None:
        metrics["distillation"] = prepared.teaching.facts(trainer.teacher)
    if trainer.balance is not None:
        names, settings = splits.train.label_names, {"bins": config.bins, "closed": config.closed}
        metrics["prior_correction"] = correction_facts(trainer.balance, predictions, names, **settings)
    seal(run, metrics, trainer)


def seal(run: RunDirectory, metrics: dict[str, Any], trainer: MixupTrainer) -> None:
    """The run is finished once `metrics.json` is there: it is written last."""
    remove_leftovers(run.path)
    metrics["files"] = sealed_files(run)
    write_json(run.metrics_file, metrics)
    remove_checkpoints(run)
    trainer.accelerator.wait_for_everyone()


def run_facts(
    config: TrainConfig, prepared: Prepared, trainer: MixupTrainer, started: float
) -> dict[str, Any]:
    """For `metrics.json`: what was trained, on what, and how."""
    splits = prepared.splits
    named: dict[str, Rows] = {"validation": splits.validation, **splits.tests}
    return {
        "method": config.method,
        "model": config.model,
        "seed": config.seed,
        "seconds": round(time.monotonic() - started, 3),
        "device": str(trainer.args.device),
        "ece_bins": config.bins[0],
        "ece_edges": config.closed,
        "task": splits.train.task,
        "label_names": list(splits.train.label_names),
        "learning_rate": config.learning_rate,
        "epochs": config.epochs,
        "select_by": config.select_by,
        "sizes": {
            "train": trained_rows(prepared, trainer),
            **{name: len(rows) for name, rows in named.items()},
        },
        "effective_options": effective_options(config, prepared, trainer),
        **pixel_facts(prepared),
    }


def data_checks(prepared: Prepared) -> list[dict[str, Any]]:
    return [
        {"severity": f.severity, "split": f.split, "message": f.message, "count": f.count}
        for f in prepared.findings
    ]


def check_chosen(run: RunDirectory, trainer: MixupTrainer, measured: float, *, is_half: bool = False) -> None:
    """See that the model in hand is that of the chosen epoch: its `measured` NLL is what it was then.

    `is_half`: the epochs were evaluated from activations in half precision.

    A best checkpoint that is gone is passed over by the Trainer: the last epoch would be saved in its name.
    """
    best = trainer.state.best_global_step
    chosen = [entry for entry in evaluations(trainer, SELECTION_METRIC) if entry["step"] == best]
    if not chosen:
        return
    expected = chosen[-1]["eval_nll"]
    is_mixed = bool(trainer.args.bf16 or trainer.args.fp16) or is_half
    if abs(measured - expected) > (NLL_TOLERANCE_MIXED if is_mixed else NLL_TOLERANCE) * (1 + expected):
        raise UserError(
            f"the weights of the chosen epoch {round(chosen[-1]['epoch'])} are lost: validation NLL is "
            f"{measured:.4f}, and was {expected:.4f}",
            file=run.path,
            remedy=f"{argument('resume')} trains again from the newest whole checkpoint",
        )


def trained_rows(prepared: Prepared, trainer: MixupTrainer) -> int:
    """The training rows with labels that the run was really trained on: those of its groups, once each."""
    if trainer.groups is None:
        return len(prepared.splits.train)
    return len(np.unique(np.concatenate(trainer.groups.positions)))


def effective_options(config: TrainConfig, prepared: Prepared, trainer: MixupTrainer) -> dict[str, Any]:
    """What the run was made with, given or not: options that are not the default, all options of the method
    and what `auto` became, and the numbers that guided it."""
    options = trainer.method.effective_options(trainer.num_classes)
    found: dict[str, Any] = {
        **config.that_change_the_result(),
        **{f"method.{name}": value for name, value in options.items()},
        "rows_available": len(prepared.splits.train),
        "layer_precision": trainer.layer_precision,
    }
    if trainer.groups is not None:
        found["rows_per_epoch"] = trainer.groups.rows_per_epoch
    if prepared.guidance is not None and AUM in trainer.method.needed:
        found["aum_median"] = float(np.nanmedian(prepared.guidance.datamap.aum))
    return found


def sealed_files(run: RunDirectory) -> dict[str, dict[str, Any]]:
    """Sizes and hashes of what was written, and is on disk: later damage is found before it is used."""
    calibrator = (run.calibrator_file, run.calibrator_file.with_suffix(".safetensors"))
    places = (run.dynamics_file, run.guidance_file, run.calibration_file, *calibrator)
    files = [file for file in places if file.is_file()]
    for directory in (run.model, run.predictions_directory, run.perturbed):
        found = [file for file in directory.rglob("*") if file.is_file() and file.suffix != ".md"]
        files += [file for file in found if not file.name.startswith(".")]
    for path in (*files, *{file.parent for file in files}):
        sync(path)
    return make_manifest(run.path, files)


def learning_settings(config: TrainConfig, prepared: Prepared) -> Settings:
    """How the run was trained, and what is usual."""
    usual = default_settings(config.model, len(prepared.splits.train), config.batch_size)
    assert config.learning_rate is not None and config.epochs is not None  # settled before training
    return Settings(
        learning_rate=config.learning_rate,
        epochs=config.epochs,
        usual_rate=usual.learning_rate,
        usual_epochs=usual.epochs,
        soft_targets=config.method != "plain" or config.label_smoothing > 0 or bool(config.teacher),
    )


def judge_run(
    config: TrainConfig,
    prepared: Prepared,
    validation: Predictions,
    scaling: TemperatureScaling,
    epochs: list[dict[str, Any]],
) -> Learning:
    """Whether the run has learned anything, and what to change if it has not."""
    settings = learning_settings(config, prepared)
    facts = ValidationFacts.of(
        validation, scaling.temperature_, scaling.at_bound_, settings.lowest_temperature
    )
    return judge_learning(facts, epochs, settings)


def pixel_facts(prepared: Prepared) -> dict[str, Any]:
    """Mean and deviation of the training images: noise that is drawn like them needs both."""
    statistics = getattr(prepared.inputs, "statistics", None)
    return {} if statistics is None else {"pixels": dataclasses.asdict(statistics)}


def history(
    trainer: MixupTrainer, losses: dict[int, float], measured: Mapping[str, str] = MEASURED
) -> list[dict[str, Any]]:
    """What every epoch found, by the names that `measured` gives to it, and which one was kept."""
    found = evaluations(trainer, SELECTION_METRIC)
    best = trainer.state.best_global_step or (found[-1]["step"] if found else None)
    return [
        {
            "epoch": round(entry["epoch"]),
            "train_loss": losses.get(round(entry["epoch"]) - 1),
            **{name: entry.get(f"eval_{metric}") for name, metric in measured.items()},
            "chosen": entry["step"] == best,
        }
        for entry in found
    ]


def save_model(
    run: RunDirectory,
    model: nn.Module,
    predictor: Trainer,
    prepared: Prepared,
    calibrator: Calibrator,
    validation: Predictions,
    *,
    trust_remote_code: bool = False,
) -> None:
    """A standard checkpoint whose plain softmax is calibrated: loaded again, and proven on a few rows."""
    few, batch = proof_rows(predictor, prepared)
    save_folded(
        model,
        run.model,
        calibrator,
        prepared.inputs.save,
        batch,
        validation.select(few),
        trust_remote_code=trust_remote_code,
    )
