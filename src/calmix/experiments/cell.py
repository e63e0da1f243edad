"""One run of a comparison, as a worker process or a Ray task does it."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from calmix.experiments.grid import Arm
from calmix.training.pipeline.run_store import RunStore
from calmix.user_error import UserError

if TYPE_CHECKING:
    from calmix.training.configuration import TrainConfig


@dataclass(frozen=True)
class Cell:
    """An arm under one seed, and the name of its run in the store."""

    arm: Arm
    seed: int
    fingerprint: str

    @property
    def title(self) -> str:
        return f"{self.arm.name}, seed {self.seed}"


@dataclass(frozen=True)
class Task:
    """What a worker must know: plain values, so that it can be sent anywhere."""

    store: str
    fingerprint: str
    config: dict[str, Any]
    data: Mapping[str, str]
    """Fingerprints of the splits when the run was named."""


@dataclass(frozen=True)
class Outcome:
    """How a cell ended: without a reason it is finished."""

    seconds: float
    reason: str | None = None
    is_user_error: bool = False


def run_cell(task: Task) -> Outcome:
    """Make the run of a cell. A failure is written down and reported, never raised."""
    from calmix.training.configuration import TrainConfig
    from calmix.training.pipeline.stages import run_for

    started = time.monotonic()
    store = RunStore(task.store)
    store.path.mkdir(parents=True, exist_ok=True)
    store.forget_failure(task.fingerprint)
    with output_to(store.log_file(task.fingerprint)):
        try:
            config = TrainConfig.from_dict(task.config)
            check_data(store, config, task.data)
            run_for(store, config, task.fingerprint)
        except Exception as error:
            failure = store.record_failure(task.fingerprint, error)
            print("".join(failure["traceback"]) or failure["reason"], file=sys.stderr)
            return Outcome(time.monotonic() - started, failure["reason"], failure["is_user_error"])
    return Outcome(time.monotonic() - started)


def check_data(store: RunStore, config: TrainConfig, data: Mapping[str, str]) -> None:
    """Hours may lie between the plan and a run: a file that has changed since would give a run of other data
    under the name of the first."""
    if dict(data) != store.fingerprints.data_of(config):
        raise UserError(
            "the data have changed since the comparison was started",
            file=config.train,
            remedy="start it again: it then takes the files as they are",
        )


@contextmanager
def output_to(log: Path) -> Iterator[None]:
    """Standard output and standard error of this process, those of libraries in C too, go to a file."""
    sys.stdout.flush()
    sys.stderr.flush()
    kept = [os.dup(1), os.dup(2)]
    with log.open("a") as file:
        try:
            for descriptor in (1, 2):
                os.dup2(file.fileno(), descriptor)
            yield
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            for descriptor, before in zip((1, 2), kept, strict=True):
                os.dup2(before, descriptor)
                os.close(before)
