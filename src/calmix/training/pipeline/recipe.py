"""From labelled files to a run directory: read, check, train, choose the epoch, calibrate, measure, save.

Everything that can be wrong with the input is found before the run directory is made. `metrics.json` is
written last and marks the run as finished.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import torch
from transformers.utils.import_utils import is_liger_kernel_available

from calmix.data.batches.grouped import RowGroups
from calmix.data.batches.unlabelled import WithUnlabelled
from calmix.data.checks import Finding, findings_table
from calmix.data.images.stored import UnreadableImage
from calmix.io.run_directory import RunDirectory, write_json, write_yaml
from calmix.io.spreadsheet import spreadsheet_safe
from calmix.io.writing import write_table
from calmix.mixing.known_rows import KnownRows
from calmix.printable import say
from calmix.runtime.hardware import check_device, needs_process_group, prepared_processor
from calmix.runtime.processes import is_first_process
from calmix.runtime.progress import Progress, quiet, silence_transformers
from calmix.training.arguments import MixupArguments, as_numbers
from calmix.training.checkpoints.calibrated import scaling_for
from calmix.training.checkpoints.resumable import KEPT, newest_complete, remove_newer, remove_not_finite
from calmix.training.configuration import TrainConfig
from calmix.training.distillation.teachers import Teacher
from calmix.training.epochs.evaluated import EvaluationEpochs
from calmix.training.epochs.kept_predictions import EpochPredictions
from calmix.training.epochs.measures import epoch_metrics, label_epoch_metrics
from calmix.training.epochs.rules import trainer_settings
from calmix.training.epochs.validation_logits import ValidationLogits
from calmix.training.fast_layers import BFLOAT16
from calmix.training.frozen_layers import predict_from_cache, train_from_cache
from calmix.training.pipeline.finalise import finish
from calmix.training.pipeline.finalise_labels import finish_labels
from calmix.training.pipeline.first_stage import needs_plain_run
from calmix.training.pipeline.prepared import Prepared, prepare
from calmix.training.pipeline.run_files import (
    FINGERPRINTS_FILE,
    discard,
)
from calmix.training.pipeline.settling import settled_to_train
from calmix.training.pipeline.trackers import Trackers, in_one_line, tracker_settings
from calmix.training.recording import Diverged
from calmix.training.trainer import MixupTrainer
from calmix.user_error import UserError

GROUPS, PRECISION = "groups of rows", "precision of layers"
"""Among the fingerprints of splits: names that no split has."""


def train_alone(
    config: TrainConfig,
    plain_run: RunDirectory | None = None,
    passes: Path | None = None,
    teachers: Sequence[Teacher] | None = None,
    *,
    resume: bool,
    was_there: bool,
) -> RunDirectory:
    """Train one classifier and leave a finished run directory; the caller has locked and checked it.

    With `resume`, a run that was cut off continues from its newest complete checkpoint and ends with the same
    bits as an unbroken one. A guided method needs `plain_run`, a plain run on the same rows (`stages` makes
    it); `passes` is where its threshold passes are kept. `teachers` are those of a student, opened; else
    those that `config.teacher` names.
    `was_there`: whether the directory is older than this call; one that is not is removed after a failure
    that leaves nothing to continue from.
    """
    run = RunDirectory(Path(config.output))
    check_device(config.device)
    if needs_plain_run(config) and plain_run is None:
        raise UserError(f"{config.method} needs a plain run on the same rows", remedy="give plain_run")
    config, choice = settled_to_train(config)
    with prepared_processor(config.threads), Trackers(config.report_to) as trackers:
        passes = passes or run.path.parent / "threshold_passes"
        return _train(run, config, resume, was_there, plain_run, passes, teachers, choice, trackers)


def _train(
    run: RunDirectory,
    config: TrainConfig,
    resume: bool,
    was_there: bool,
    plain_run: RunDirectory | None,
    passes: Path,
    teachers: Sequence[Teacher] | None,
    choice: str | None,
    trackers: Trackers,
) -> RunDirectory:
    started = time.monotonic()
    silence_transformers()
    prepared = prepare(config, plain_run, passes, teachers)
    progress = Progress(config.method)
    try:
        known = prepared.guidance.known_rows() if prepared.guidance else None
        trainer = make_trainer(config, run, prepared, progress, known)
        trackers.attach(trainer, run)
        trainer.preflight(is_taught=prepared.teaching is not None)
        tests = {name: prepared.encoded[name] for name in prepared.splits.tests}
        trained = {name: rows for name, rows in prepared.encoded.items() if name not in tests}
        train_from_cache(config, trainer, prepared.prefix, trained)
        # Before training: what cannot be read or written is found now.
        predicted = predict_from_cache(
            config, prepared.prefix, {**tests, "validation": trained["validation"]}
        )
        checkpoint = find_checkpoint(run) if resume else None
        if checkpoint is not None:  # on a machine that would choose another one, too
            trainer.args.precision = began_with(run).get(PRECISION, trainer.layer_precision)
        # All have seen what was in the run directory before the first one changes it.
        trainer.accelerator.wait_for_everyone()
        if trainer.is_world_process_zero():
            open_run(run, config, prepared, trainer, resume=checkpoint is not None)
            remove_newer(run.checkpoints, checkpoint)
            if choice is not None:
                say(choice)
            if trainer.layer_precision == BFLOAT16 and config.precision != BFLOAT16:
                say("layers are trained in bfloat16, which this processor multiplies faster (--precision)")
            report_findings(run, prepared.findings)
        if prepared.teaching is not None:
            trainer.accelerator.wait_for_everyone()  # the run directory is there
            trainer.learn_from(prepared.teaching.logits(run))
        trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)
    except UserError as error:
        trackers.end(failed=True)  # before the files that they write are removed
        # Where a file went away in mid-training, the run can go on from its checkpoint once it is back.
        if isinstance(error, Diverged):
            remove_not_finite(run.checkpoints)
        resumes = isinstance(error, UnreadableImage | Diverged)
        checkpoint = newest_complete(run.checkpoints) if resumes else None
        if not was_there and checkpoint is None:  # of this call's making, and nothing in it can be used
            discard(run)
        if isinstance(error, Diverged) and checkpoint is not None:
            raise UserError(f"{error.args[0]}; the last good checkpoint is kept: {checkpoint}") from None
        raise
    finally:
        progress.stop()
    end = finish_labels if prepared.splits.train.is_multi_label else finish
    end(run, config, prepared, trainer, predicted, started)
    trackers.report(trainer, run)
    return run


def find_checkpoint(run: RunDirectory) -> Path | None:
    """The newest checkpoint that can be continued; damage of newer ones is reported."""
    problems: list[str] = []
    checkpoint = newest_complete(run.checkpoints, warn=problems.append)
    # One that was cut off is what a killed run leaves: nothing is lost with it that was ever whole.
    damaged = [problem for problem in problems if "it was cut off" not in problem]
    if damaged and is_first_process():
        place = "from scratch" if checkpoint is None else f"from {checkpoint.name}"
        for line in (*damaged, f"the run is trained {place}"):
            say(line)
    return checkpoint


def report_findings(run: RunDirectory, findings: Sequence[Finding]) -> None:
    """What the data checks found, before hours of training: on the terminal, and row by row in a file."""
    run.data_checks_file.unlink(missing_ok=True)
    if findings:
        write_table(run.data_checks_file, spreadsheet_safe(findings_table(findings)))
    for finding in findings:
        say(finding)


def make_arguments(config: TrainConfig, run: RunDirectory) -> MixupArguments:
    settings: dict[str, Any] = {
        **config.trainer_arguments(),
        "output_dir": str(run.checkpoints.absolute()),
        "method_options": config.options_of_method(),
        "per_device_eval_batch_size": max(config.batch_size, 64),
        "use_cpu": config.device == "cpu",
        "dataloader_pin_memory": torch.cuda.is_available() and config.device != "cpu",
        "eval_strategy": "epoch",
        **trainer_settings(config.select_by),
        **tracker_settings(config, run),
        "disable_tqdm": True,
    }
    with refusing_settings(config):
        given = {**as_numbers(config.trainer), "run_name": settings["run_name"]}
        arguments = MixupArguments(**{**settings, **given})
        if arguments.use_liger_kernel and not is_liger_kernel_available():
            raise ImportError("use_liger_kernel needs liger-kernel, which is not installed")
    return arguments


@contextmanager
def refusing_settings(config: TrainConfig) -> Iterator[None]:
    """What transformers raises about fields that were given under `trainer:` is invalid input."""
    try:
        yield
    except UserError:
        raise
    except Exception as error:
        if not config.trainer:
            raise
        remedy = f"see transformers.TrainingArguments; given were: {', '.join(config.trainer)}"
        raise UserError(f"trainer: {in_one_line(error)}", remedy=remedy) from error


def form_group(config: TrainConfig) -> None:
    """The processes of a run find each other now, in the way that its Trainer would later: first stages are
    looked up, locked and made together."""
    if needs_process_group():
        _ = make_arguments(config, RunDirectory(Path(config.output))).device


def make_trainer(
    config: TrainConfig,
    run: RunDirectory,
    prepared: Prepared,
    progress: Progress,
    data_map: KnownRows | RowGroups | None,
) -> MixupTrainer:
    view, order = prepared.encoded["validation"].by_length()
    rows: Any = prepared.encoded["train"]
    if "unlabelled" in prepared.encoded:
        more: Any = prepared.encoded["unlabelled"]
        rows = WithUnlabelled(rows, more)
    settings: dict[str, Any] = {"bins": config.bins[0], "closed": config.closed}
    measured = partial(epoch_metrics, **settings)
    if prepared.splits.train.is_multi_label:
        measured = partial(label_epoch_metrics, **settings, scaling=scaling_for(prepared.model))
    arguments = make_arguments(config, run)
    remembered = ValidationLogits()
    with refusing_settings(config):
        trainer = MixupTrainer(
            model=prepared.model,
            args=arguments,
            train_dataset=rows,
            eval_dataset=view,
            data_collator=prepared.inputs.collator(is_choice=prepared.encoded["train"].is_choice),
            compute_metrics=measured,
            processing_class=prepared.inputs.processing_class,
            callbacks=[EvaluationEpochs(config.evaluate_every), remembered],
            data_map=data_map,
            row_weights=prepared.splits.train.weights,
            soft_labels=prepared.splits.train.soft_labels,
        )
    held = prepared.splits.validation
    facts: dict[str, Any] = {} if trainer.balance is None else {"prior_shift": trainer.prior_shift}
    for name, known in (("weights", held.weights), ("targets", held.soft_labels)):
        facts |= {} if known is None else {name: known[order]}
    trainer.compute_metrics = remembered.remembering(partial(measured, **facts))
    trainer.checkpoints_kept = KEPT
    quiet(trainer)
    trainer.add_callback(progress)
    if config.keep_epoch_predictions:
        trainer.add_callback(EpochPredictions(trainer, run, prepared.encoded, prepared.splits.tests))
    return trainer


def open_run(
    run: RunDirectory, config: TrainConfig, prepared: Prepared, trainer: MixupTrainer, *, resume: bool
) -> None:
    """Make the run directory, or see that the one to resume was made from the same data, teachers and groups
    of rows."""
    groups = trainer.groups
    fingerprints = prepared.fingerprints() | ({} if groups is None else {GROUPS: groups.fingerprint()})
    if resume:
        began = began_with(run)
        # What was not written down yet when the run began cannot be compared.
        changed = [name for name, now in fingerprints.items() if began.get(name, now) != now]
        if GROUPS in changed:
            raise UserError(
                "the groups of rows are not those that the run began with: the plain run has changed",
                file=run.path,
                remedy="resume with the same plain run, or start a new run",
            )
        if changed:
            what = "the teacher has" if changed[0].startswith("teacher ") else "the data files have"
            raise UserError(
                f"{what} changed since the run began ({changed[0]})", file=run.path, remedy="start a new run"
            )
        return
    write_yaml(run.config_file, config.as_dict())
    write_json(run.checkpoints / FINGERPRINTS_FILE, {**fingerprints, PRECISION: trainer.layer_precision})


def began_with(run: RunDirectory) -> dict[str, str]:
    """The fingerprints of what a run began with, and the precision of its layers."""
    file = run.checkpoints / FINGERPRINTS_FILE
    try:
        return dict(json.loads(file.read_text(encoding="utf-8")))
    except (OSError, ValueError) as error:
        raise UserError(
            "it cannot be read what data the run began with", file=file, remedy="start a new run"
        ) from error
