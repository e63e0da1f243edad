"""A run with what must come before it: plain run, selection of rows, guided run.

The plain run is looked up by its fingerprint in a store of runs, and made where it is missing, so that it is
trained once for all guided methods that follow.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from calmix.experiments.store import RunStore
from calmix.processes import is_first_process
from calmix.run import Run
from calmix.training.configuration import TrainConfig
from calmix.training.guidance import needs_plain_run, plain_config
from calmix.training.recipe import check_output, train

CACHE_VARIABLE = "CALMIX_CACHE"


def default_store() -> RunStore:
    """The store of first stages: the directory that CALMIX_CACHE names, else ~/.cache/calmix."""
    named = os.environ.get(CACHE_VARIABLE)
    return RunStore((Path(named) if named else Path.home() / ".cache" / "calmix") / "runs")


def train_staged(
    config: TrainConfig,
    *,
    store: RunStore | None = None,
    plain_run: Run | None = None,
    resume: bool = False,
) -> Run:
    """Train one classifier, and first what its method needs.

    A stage that was cut off goes on where it was, whether or not `resume` is set: it is told by what it is
    made of. `plain_run` is used in place of one from the store.
    """
    run = Run(Path(config.output))
    check_output(run, config, resume=resume)
    if run.is_finished or not needs_plain_run(config):
        return train(config, resume=resume)
    is_cache, store = store is None, store or default_store()
    if plain_run is None:
        fingerprint = store.fingerprints.of(plain_config(config))
        state = "found" if store.is_finished(fingerprint) else "to be made"
        say(f"stage 1 of 2: plain run for the data map, {state} in {store.path / fingerprint}")
        plain_run = store.run_for(plain_config(config), fingerprint)
        if is_cache and is_first_process():
            store.drop_model(fingerprint)  # its dynamics are what later runs come for, and they are small
    say(f"stage 2 of 2: {config.method}")
    return train(config, resume=resume, plain_run=plain_run, passes=store.passes)


def say(line: str) -> None:
    if is_first_process():
        print(line, file=sys.stderr)
