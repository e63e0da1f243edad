"""From labelled files to a run directory: read, check, train, choose the epoch, calibrate, measure, save.

Everything that can be wrong with the input is found before the run directory is made. `metrics.json` is
written last and marks the run as finished.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch

from calmix.data.checks import Finding, findings_table
from calmix.data.grouped_batches import RowGroups
from calmix.data.images import UnreadableImage
from calmix.data.unlabelled import WithUnlabelled
from calmix.io.run_directory import RunDirectory, write_json, write_yaml
from calmix.io.spreadsheet import spreadsheet_safe
from calmix.io.writing import write_table
from calmix.mixing.known_rows import KnownRows
from calmix.printable import say
from calmix.runtime.hardware import check_device, needs_process_group, prepared_processor
from calmix.runtime.processes import is_first_process
from calmix.runtime.progress import Progress, quiet, silence_transformers
from calmix.training.arguments import MixupArguments, as_numbers
from calmix.training.checkpoints import KEPT, newest_complete, remove_newer
from calmix.training.configuration import TrainConfig
from calmix.training.distillation.teachers import Teacher
from calmix.training.epoch_predictions import EpochPredictions
from calmix.training.epoch_rules import trainer_settings
from calmix.training.frozen_layers import train_from_cache
from calmix.training.pipeline.finalise import finish
from calmix.training.pipeline.guidance import needs_plain_run
from calmix.training.pipeline.output_directory import as_begun, check_output
from calmix.training.pipeline.prepared import Prepared, prepare
from calmix.training.pipeline.run_files import (
    FINGERPRINTS_FILE,
    discard,
    tidy_finished,
    writing_to,
)
from calmix.training.pipeline.settling import settled_to_train
from calmix.training.selection import epoch_metrics
from calmix.training.trainer import MixupTrainer
from calmix.user_error import UserError

GROUPS = "groups of rows"
"""Among the fingerprints of splits: a name that no split has."""


def train(
    config: TrainConfig,
    *,
    resume: bool = False,
    plain_run: RunDirectory | None = None,
    passes: Path | None = None,
    teachers: Sequence[Teacher] | None = None,
) -> RunDirectory:
    """Train one classifier and leave a finished run directory.

    With `resume`, a run that was cut off goes on from its newest whole checkpoint and ends with the same
    bits as an unbroken one; a finished run is returned as it is. A guided method needs `plain_run`, a plain
    run on the same rows (`experiments.staged` makes it); `passes` is where its threshold passes are kept.
    `teachers` are those of a student, opened; left out, they are found where `config.teacher` says.
    """
    run = RunDirectory(Path(config.output))
    was_there = run.path.exists()
    config = as_begun(config, run) if resume else config
    check_output(run, config, resume=resume)
    if run.is_finished:
        tidy_finished(run)
        return run
    with writing_to(run):
        # Again: another process may have ended in between.
        check_output(run, config, resume=resume)
        if run.is_finished:
            return run
        return train_alone(config, plain_run, passes, teachers, resume=resume, was_there=was_there)


def train_alone(
    config: TrainConfig,
    plain_run: RunDirectory | None = None,
    passes: Path | None = None,
    teachers: Sequence[Teacher] | None = None,
    *,
    resume: bool,
    was_there: bool,
) -> RunDirectory:
    """`train` for whoever is the only one to write into the run directory, and has checked it.

    `was_there`: whether the directory is older than this call; one that is not is removed after a failure
    that leaves nothing to continue from.
    """
    run = RunDirectory(Path(config.output))
    check_device(config.device)
    if needs_plain_run(config) and plain_run is None:
        raise UserError(f"{config.method} needs a plain run on the same rows", remedy="give plain_run")
    config, choice = settled_to_train(config)
    with prepared_processor(config.threads):
        passes = passes or run.path.parent / "threshold_passes"
        return _train(run, config, resume, was_there, plain_run, passes, teachers, choice)


def _train(
    run: RunDirectory,
    config: TrainConfig,
    resume: bool,
    was_there: bool,
    plain_run: RunDirectory | None,
    passes: Path,
    teachers: Sequence[Teacher] | None,
    choice: str | None,
) -> RunDirectory:
    started = time.monotonic()
    silence_transformers()
    prepared = prepare(config, plain_run, passes, teachers)
    progress = Progress(config.method)
    try:
        known = prepared.guidance.known_rows() if prepared.guidance else None
        trainer = make_trainer(config, run, prepared, progress, known)
        trainer.preflight(is_taught=prepared.teaching is not None)
        trained = {name: rows for name, rows in prepared.encoded.items() if name not in prepared.splits.tests}
        train_from_cache(config, trainer, prepared.prefix, trained)
        checkpoint = find_checkpoint(run) if resume else None
        # All have seen what was in the run directory before the first one changes it.
        trainer.accelerator.wait_for_everyone()
        if trainer.is_world_process_zero():
            open_run(run, config, prepared, trainer.groups, resume=checkpoint is not None)
            remove_newer(run.checkpoints, checkpoint)
            if choice is not None:
                say(choice)
            report_findings(run, prepared.findings)
        if prepared.teaching is not None:
            trainer.accelerator.wait_for_everyone()  # the run directory is there
            trainer.learn_from(prepared.teaching.logits(run))
        trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)
    except UserError as error:
        # Where a file went away in mid-training, the run can go on from its checkpoint once it is back.
        resumes = isinstance(error, UnreadableImage) and newest_complete(run.checkpoints) is not None
        if not was_there and not resumes:  # of this call's making, and nothing in it can be used
            discard(run)
        raise
    finally:
        progress.stop()
    finish(run, config, prepared, trainer, started)
    return run


def find_checkpoint(run: RunDirectory) -> Path | None:
    """The newest checkpoint that can be continued; what is wrong with newer ones is said."""
    problems: list[str] = []
    checkpoint = newest_complete(run.checkpoints, said=problems.append)
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
        "logging_strategy": "no",
        "disable_tqdm": True,
    }
    try:
        return MixupArguments(**{**settings, **as_numbers(config.trainer)})
    except (TypeError, ValueError, ImportError) as error:
        raise UserError(f"trainer: {error}", remedy="see transformers.TrainingArguments") from error


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
    view, _ = prepared.encoded["validation"].by_length()
    rows: Any = prepared.encoded["train"]
    if "unlabelled" in prepared.encoded:
        more: Any = prepared.encoded["unlabelled"]
        rows = WithUnlabelled(rows, more)
    trainer = MixupTrainer(
        model=prepared.model,
        args=make_arguments(config, run),
        train_dataset=rows,
        eval_dataset=view,
        data_collator=prepared.inputs.collator(is_choice=prepared.encoded["train"].is_choice),
        compute_metrics=partial(epoch_metrics, bins=config.bins[0], closed=config.closed),
        processing_class=prepared.inputs.processing_class,
        data_map=data_map,
    )
    trainer.checkpoints_kept = KEPT
    quiet(trainer)
    trainer.add_callback(progress)
    if config.keep_epoch_predictions:
        trainer.add_callback(EpochPredictions(trainer, run, prepared.encoded, prepared.splits.tests))
    return trainer


def open_run(
    run: RunDirectory, config: TrainConfig, prepared: Prepared, groups: RowGroups | None, *, resume: bool
) -> None:
    """Make the run directory, or see that the one to resume was made from the same data, teachers and groups
    of rows."""
    fingerprints = prepared.fingerprints() | ({} if groups is None else {GROUPS: groups.fingerprint()})
    file = run.checkpoints / FINGERPRINTS_FILE
    if resume:
        try:
            began = json.loads(file.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise UserError(
                "it cannot be read what data the run began with", file=file, remedy="start a new run"
            ) from error
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
    write_json(file, fingerprints)
