"""A run with what must come before it: plain run, selection of rows, guided run; teacher, student.

A plain run or a teacher is looked up by its fingerprint in a store of runs, and made where it is missing, so
that it is trained once for all that follow.
"""

from __future__ import annotations

import os
import sys
from functools import partial
from pathlib import Path

from calmix.experiments.store import RunStore
from calmix.processes import is_first_process
from calmix.run import Run
from calmix.training.configuration import TrainConfig
from calmix.training.guidance import needs_plain_run, open_plain_run, plain_config
from calmix.training.recipe import check_output, train
from calmix.training.rehearsal import rehearse
from calmix.training.teachers import Teacher, stage_teacher
from calmix.training.teaching import is_method, open_teachers, teacher_config

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
    check_output(run, config, resume=resume)
    needs_plain = needs_plain_run(config)
    if run.is_finished or not (needs_plain or config.teacher):
        return train(config, resume=resume)
    is_cache, store = store is None, store or default_store()
    # First: what is wrong with it is known before anything is trained.
    plain_run = open_plain_run(config.plain_run) if config.plain_run else None
    first_stages = [teacher_config(config, name) for name in config.teacher if is_method(name)]
    if needs_plain and plain_run is None:
        first_stages.append(plain_config(config))
    if not all(store.is_finished(store.fingerprints.of(stage)) for stage in first_stages):
        rehearse(config)
    teachers = find_teachers(config, store) if config.teacher else None
    if not needs_plain:
        return train(config, resume=resume, teachers=teachers)
    if plain_run is None:
        fingerprint = store.fingerprints.of(plain_config(config))
        state = "found" if store.is_finished(fingerprint) else "to be made"
        say(f"stage 1 of 2: plain run for the data map, {state} in {store.path / fingerprint}")
        plain_run = store.run_for(plain_config(config), fingerprint)
        if is_cache and is_first_process():
            store.drop_model(fingerprint)  # its dynamics are what later runs come for, and they are small
    say(f"stage 2 of 2: {config.method}")
    return train(config, resume=resume, plain_run=plain_run, passes=store.passes, teachers=teachers)


def find_teachers(config: TrainConfig, store: RunStore) -> list[Teacher]:
    """The teachers of a student; those that methods name come from the store, trained there if missing."""
    opened = open_teachers(config)  # first: what is wrong with these is known before anything is trained
    for name in [name for name in config.teacher if name not in opened]:
        made = teacher_config(config, name)
        fingerprint = store.fingerprints.of(made)
        state = "found" if store.is_finished(fingerprint) else "to be made"
        say(f"teacher {name}, {state} in {store.path / fingerprint}")
        run = store.run_for(made, fingerprint)
        restore = partial(store.restore_model, made, fingerprint)
        opened[name] = stage_teacher(name, run, fingerprint, restore)
    return [opened[name] for name in config.teacher]


def say(line: str) -> None:
    if is_first_process():
        print(line, file=sys.stderr)
