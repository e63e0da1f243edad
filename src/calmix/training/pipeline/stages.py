"""A run with what must come before it: plain run, selection of rows, guided run; teacher, student.

A plain run or a teacher is looked up by its fingerprint in a store of runs, and made where it is missing, so
that it is trained once for all that follow.
"""

from __future__ import annotations

import dataclasses
import shutil
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from calmix.io.run_directory import RunDirectory
from calmix.printable import say
from calmix.runtime.cache_directory import cache_directory
from calmix.runtime.hardware import broadcast_from_rank0, wait_for_all_processes
from calmix.runtime.processes import is_first_process
from calmix.training.configuration import TrainConfig
from calmix.training.distillation.teachers import CheckpointTeacher, Teacher, stage_teacher
from calmix.training.distillation.teaching import open_teachers, teacher_config
from calmix.training.learning import stage_warning
from calmix.training.pipeline.dry_run import dry_run_guided
from calmix.training.pipeline.first_stage import needs_plain_run, open_plain_run, plain_config
from calmix.training.pipeline.output_directory import as_begun, check_output
from calmix.training.pipeline.recipe import form_group, train_alone
from calmix.training.pipeline.run_files import tidy_finished, writing_to
from calmix.training.pipeline.run_store import RunStore, list_model_again, make_resumable
from calmix.training.pipeline.settling import settled_to_train
from calmix.user_error import UserError


def default_store() -> RunStore:
    """The store of first stages."""
    return RunStore(cache_directory() / "runs")


def train_staged(
    config: TrainConfig,
    *,
    store: RunStore | None = None,
    resume: bool = False,
) -> RunDirectory:
    """Train one classifier, and first what its method needs.

    A stage that was cut off goes on where it was, whether or not `resume` is set: it is told by what it is
    made of. `config.plain_run` is used in place of one from the store.
    """
    run = RunDirectory(Path(config.output))
    was_there = run.path.exists()
    config = as_begun(config, run) if resume else config
    check_output(run, config, resume=resume)
    if run.is_finished:
        tidy_finished(run)
        if store is None and needs_plain_run(config) and config.plain_run is None:
            tidy_cache(config)
        return run
    with writing_to(run):
        # Again: another process may have ended in between.
        check_output(run, config, resume=resume)
        return run if run.is_finished else _train_staged(config, store, resume=resume, was_there=was_there)


def _train_staged(
    config: TrainConfig, store: RunStore | None, *, resume: bool, was_there: bool
) -> RunDirectory:
    run = RunDirectory(Path(config.output))
    needs_plain = needs_plain_run(config)
    settings: Any = {"resume": resume, "was_there": was_there}
    if not (needs_plain or config.teacher):
        return train_alone(config, **settings)
    is_cache, store = store is None, store or default_store()
    # First: what is wrong with them is known before anything is trained.
    plain_run = open_plain_run(config.plain_run) if config.plain_run else None
    opened = open_teachers(config) if config.teacher else {}
    config, choice = settled_to_train(config)
    stages = {name: teacher_config(config, name) for name in config.teacher if name not in opened}
    first = [*stages.values(), *([plain_config(config)] if needs_plain and plain_run is None else [])]
    if not all(store.is_finished(store.fingerprints.of(stage)) for stage in first):
        dry_run_guided(config, list(opened.values()))
    if choice is not None:
        say_once(choice)
    teachers = [opened.get(name) or make_teacher(name, stages[name], store) for name in config.teacher]
    if not needs_plain:
        return train_alone(config, teachers=teachers, **settings)
    fingerprint = None
    if plain_run is None:
        fingerprint = store.fingerprints.of(plain_config(config))
        state = "found" if store.is_finished(fingerprint) else "to be made"
        say_once(f"stage 1 of 2: plain run for the data map, {state} in {store.path / fingerprint}")
        plain_run = run_for(store, plain_config(config), fingerprint)
        warn_unlearned(plain_run, "the plain run")
    say_once(f"stage 2 of 2: {config.method}")
    train_alone(config, plain_run, store.passes, teachers, **settings)
    is_teacher = any(isinstance(one, CheckpointTeacher) and one.stage == plain_run for one in teachers)
    if is_cache and fingerprint is not None and not is_teacher and is_first_process():
        store.drop_model(fingerprint)  # its dynamics are what later runs come for, and they are small
    return run


def tidy_cache(config: TrainConfig) -> None:
    """Drop the weights of a first stage that a process killed at its very end has left in the cache."""
    store = default_store()
    with suppress(UserError, OSError):  # the data may have moved since: the run is finished all the same
        fingerprint = store.fingerprints.of(plain_config(config))
        if is_first_process() and store.run(fingerprint).model.is_dir() and not config.teacher:
            with store.locked(fingerprint):
                store.drop_model(fingerprint)


def run_for(store: RunStore, config: TrainConfig, fingerprint: str | None = None) -> RunDirectory:
    """The finished run of this configuration: found, continued or made.

    `config.output` does not matter. Whoever asks for a run that another process is making waits for it.
    """
    fingerprint = fingerprint or store.fingerprints.of(config)
    run = store.run(fingerprint)
    form_group(config)
    with store.locked(fingerprint):
        if not broadcast_from_rank0(is_first_process() and store.is_whole(fingerprint)):
            _make(store, run, config)
        # Left behind by a process that was killed between its last two steps.
        shutil.rmtree(run.checkpoints, ignore_errors=True)
    return run


def restore_model(store: RunStore, config: TrainConfig, fingerprint: str) -> None:
    """Train the deleted weights of a run again: to the same bits, since all else is the same.

    The run itself stays as it is, for others may be reading it.
    """
    run, again = store.run(fingerprint), store.run(f"{fingerprint}.restored")
    form_group(config)
    with store.locked(fingerprint):
        if not run.model.is_dir():
            _make(store, again, config)
            if is_first_process():
                again.metrics_file.unlink()  # without its model it is not finished any more
                again.model.replace(run.model)
                list_model_again(run)
        if is_first_process():
            shutil.rmtree(again.path, ignore_errors=True)
        wait_for_all_processes()


def _make(store: RunStore, run: RunDirectory, config: TrainConfig) -> None:
    """Train a run in its directory, from where a killed process has left it."""
    config = dataclasses.replace(config, output=str(run.path))
    if is_first_process():
        if run.is_finished and not store.is_whole(run.path.name):
            say_once(f"{run.path} is damaged: the run is made again")
            run.metrics_file.unlink()
        make_resumable(run, config)
    wait_for_all_processes()
    train_staged(config, store=store, resume=True)


def make_teacher(name: str, config: TrainConfig, store: RunStore) -> Teacher:
    """A teacher that a method names comes from the store, trained there if it is missing."""
    fingerprint = store.fingerprints.of(config)
    state = "found" if store.is_finished(fingerprint) else "to be made"
    say_once(f"teacher {name}, {state} in {store.path / fingerprint}")
    run = run_for(store, config, fingerprint)
    warn_unlearned(run, f"the teacher {name}")
    restore = partial(restore_model, store, config, fingerprint)
    return stage_teacher(name, run, fingerprint, restore, trust_remote_code=config.trust_remote_code)


def warn_unlearned(stage: RunDirectory, name: str) -> None:
    """Whatever is learned from a stage that has not learned is worth nothing."""
    warning = stage_warning(stage.metrics(), name)
    if warning is not None:
        say_once(warning)


def say_once(line: str) -> None:
    if is_first_process():
        say(line)
