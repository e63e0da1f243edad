"""A run with what must come before it: plain run, selection of rows, guided run; teacher, student.

A plain run or a teacher is looked up by its fingerprint in a store of runs, and made where it is missing, so
that it is trained once for all that follow.
"""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import Any

from calmix.experiments.store import RunStore
from calmix.printable import say as print_safely
from calmix.processes import is_first_process
from calmix.run import Run
from calmix.training.configuration import TrainConfig
from calmix.training.guidance import needs_plain_run, open_plain_run, plain_config
from calmix.training.learning import stage_warning
from calmix.training.output_directory import as_begun, check_output
from calmix.training.recipe import train_alone
from calmix.training.rehearsal import rehearse
from calmix.training.run_files import tidy_finished, writing_to
from calmix.training.settling import settled_to_train
from calmix.training.teachers import CheckpointTeacher, Teacher, stage_teacher
from calmix.training.teaching import open_teachers, teacher_config

CACHE_VARIABLE = "CALMIX_CACHE"


def default_store() -> RunStore:
    """The store of first stages: the directory that CALMIX_CACHE names, else ~/.cache/calmix."""
    named = os.environ.get(CACHE_VARIABLE)
    return RunStore((Path(named) if named else Path.home() / ".cache" / "calmix") / "runs")


def train_staged(
    config: TrainConfig,
    *,
    store: RunStore | None = None,
    resume: bool = False,
) -> Run:
    """Train one classifier, and first what its method needs.

    A stage that was cut off goes on where it was, whether or not `resume` is set: it is told by what it is
    made of. `config.plain_run` is used in place of one from the store.
    """
    run = Run(Path(config.output))
    was_there = run.path.exists()
    config = as_begun(config, run) if resume else config
    check_output(run, config, resume=resume)
    if run.is_finished:
        tidy_finished(run)
        return run
    with writing_to(run):
        # Again: another process may have ended in between.
        check_output(run, config, resume=resume)
        return run if run.is_finished else _train_staged(config, store, resume=resume, was_there=was_there)


def _train_staged(config: TrainConfig, store: RunStore | None, *, resume: bool, was_there: bool) -> Run:
    run = Run(Path(config.output))
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
        rehearse(config, list(opened.values()))
    if choice is not None:
        say(choice)
    teachers = [opened.get(name) or make_teacher(name, stages[name], store) for name in config.teacher]
    if not needs_plain:
        return train_alone(config, teachers=teachers, **settings)
    fingerprint = None
    if plain_run is None:
        fingerprint = store.fingerprints.of(plain_config(config))
        state = "found" if store.is_finished(fingerprint) else "to be made"
        say(f"stage 1 of 2: plain run for the data map, {state} in {store.path / fingerprint}")
        plain_run = store.run_for(plain_config(config), fingerprint)
        warn(plain_run, "the plain run")
    say(f"stage 2 of 2: {config.method}")
    train_alone(config, plain_run, store.passes, teachers, **settings)
    is_teacher = any(isinstance(one, CheckpointTeacher) and one.stage == plain_run for one in teachers)
    if is_cache and fingerprint is not None and not is_teacher and is_first_process():
        store.drop_model(fingerprint)  # its dynamics are what later runs come for, and they are small
    return run


def make_teacher(name: str, config: TrainConfig, store: RunStore) -> Teacher:
    """A teacher that a method names comes from the store, trained there if it is missing."""
    fingerprint = store.fingerprints.of(config)
    state = "found" if store.is_finished(fingerprint) else "to be made"
    say(f"teacher {name}, {state} in {store.path / fingerprint}")
    run = store.run_for(config, fingerprint)
    warn(run, f"the teacher {name}")
    restore = partial(store.restore_model, config, fingerprint)
    return stage_teacher(name, run, fingerprint, restore, trust_remote_code=config.trust_remote_code)


def warn(stage: Run, name: str) -> None:
    """Whatever is learned from a stage that has not learned is worth nothing."""
    warning = stage_warning(stage.metrics(), name)
    if warning is not None:
        say(warning)


def say(line: str) -> None:
    if is_first_process():
        print_safely(line)
