"""What a comparison is made of: its options, and the plan of its runs, `cells.json`."""

from __future__ import annotations

import dataclasses
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from calmix.experiments.cell import Cell
from calmix.experiments.executors import EXECUTORS, threads_per_worker
from calmix.experiments.grid import Arm, expand, parse_method, parse_vary
from calmix.experiments.required_runs import DEFAULT_MARGIN
from calmix.io.parser_errors import refusing
from calmix.io.record_shapes import PLAN, check_shape
from calmix.io.records import REMEDY, read_json_record
from calmix.io.run_directory import CELLS_FILE, is_comparison, write_json
from calmix.mixing.catalogue import check_method
from calmix.runtime.optional_packages import check_trackers
from calmix.training.configuration import TrainConfig
from calmix.training.pipeline.fingerprint import Fingerprints
from calmix.training.pipeline.first_look import check_data, check_model_name
from calmix.training.pipeline.run_store import RunStore
from calmix.user_error import UserError, argument, check_least

OWN_STORE = "runs"
KEEP_MODELS = ("best", "all", "none")


@dataclass(frozen=True)
class CompareConfig:
    """What is compared. `base` holds the data and all settings that the runs share; its `output` is the
    directory of the comparison, its method and seed do not matter."""

    base: TrainConfig
    methods: tuple[str, ...] = ("plain",)
    seeds: tuple[int, ...] = (0, 1, 2)
    vary: tuple[str, ...] = ()
    executor: str = "local"
    workers: int | None = None
    keep_models: str = "best"
    margin: float = DEFAULT_MARGIN
    """What counts as no worse, in points of accuracy."""
    store: Path | None = None
    """Where the runs are kept; in the directory of the comparison if left out."""

    def __post_init__(self) -> None:
        if not self.methods:
            raise UserError("no methods to compare", remedy=f"give {argument('methods', 'plain,cls-mixup')}")
        if not self.seeds:
            raise UserError("no seeds", remedy=f"give {argument('seeds', '0,1,2')}")
        if self.executor not in EXECUTORS:
            raise UserError(
                f"{argument('executor')} is {self.executor!r}", remedy=f"choose one of {', '.join(EXECUTORS)}"
            )
        if self.workers is not None:
            check_least("workers", self.workers, 1)
        if self.keep_models not in KEEP_MODELS:
            choices = ", ".join(KEEP_MODELS)
            raise UserError(
                f"{argument('keep_models')} is {self.keep_models!r}", remedy=f"choose one of {choices}"
            )
        check_margin(self.margin)
        for name in ("weight_column", "annotations_column", "label_prob_columns"):
            if getattr(self.base, name):
                raise UserError(
                    f"{argument(name)}: paired differences count every row once, by one label",
                    remedy="train each arm with 'calmix train', and evaluate the runs one by one",
                )

    @property
    def directory(self) -> Path:
        return Path(self.base.output)

    def as_dict(self) -> dict[str, Any]:
        """The options as `calmix compare --config` reads them."""
        shared = self.base.as_dict()
        for name in ("method", "seed"):
            del shared[name]
        own = {
            "methods": list(self.methods),
            "seeds": list(self.seeds),
            "vary": list(self.vary),
            "executor": self.executor,
            "workers": self.workers,
            "keep_models": self.keep_models,
            "margin": self.margin,
        }
        return {**own, **shared}


@dataclass(frozen=True)
class Plan:
    """The runs of a comparison and the settings they share."""

    config: dict[str, Any]
    arms: list[Arm]
    cells: list[Cell]
    store: str = OWN_STORE
    """Seen from the directory of the comparison."""

    def write(self, directory: Path) -> None:
        cells = [
            {"arm": cell.arm.name, "seed": cell.seed, "fingerprint": cell.fingerprint} for cell in self.cells
        ]
        arms = [dataclasses.asdict(arm) for arm in self.arms]
        content: dict[str, Any] = {"config": self.config, "arms": arms, "cells": cells}
        if self.store != OWN_STORE:
            content["store"] = self.store
        write_json(directory / CELLS_FILE, content)

    @classmethod
    def read(cls, directory: Path) -> Plan:
        file = directory / CELLS_FILE
        stored = read_json_record(file)
        check_shape(stored, PLAN, file)
        with refusing("damaged", file, REMEDY):
            arms = {arm["name"]: Arm(**arm) for arm in stored["arms"]}
            cells = [Cell(arms[cell["arm"]], cell["seed"], cell["fingerprint"]) for cell in stored["cells"]]
            return cls(stored["config"], list(arms.values()), cells, stored.get("store", OWN_STORE))

    def open_store(self, directory: Path) -> RunStore:
        return RunStore(directory / self.store)


@dataclass(frozen=True)
class Planned:
    """A comparison before its runs are made: its options, its plan, and the configuration of every cell."""

    config: CompareConfig
    plan: Plan
    configs: list[TrainConfig]
    store: RunStore


def plan_comparison(config: CompareConfig) -> Planned:
    """Check everything, and name every run."""
    check_before_torch(config)

    from calmix.training.pipeline.first_stage import needs_plain_run

    config = with_threads(config)
    arms = expand(config.base, config.methods, parse_vary(config.vary))
    place = store_of(config)
    store = RunStore(config.store or config.directory / place)
    # Seed by seed, so that a comparison that was stopped early has something to compare.
    given = [(arm, seed, arm.config(config.base, seed)) for seed in config.seeds for arm in arms]
    configs = [(arm, seed, store.fingerprints.settled(made)) for arm, seed, made in given]
    say_choices([made for _, _, made in given], store.fingerprints)
    if any(needs_plain_run(made) for _, _, made in configs):
        # First stages first: otherwise workers would wait for the plain run that others are at.
        configs.sort(key=lambda planned: not planned[0].is_plain)
    cells = [Cell(arm, seed, store.fingerprints.of(made)) for arm, seed, made in configs]
    settings = shared_settings([made for _, _, made in configs])
    plan = Plan({**config.as_dict(), **settings}, arms, cells, place)
    return Planned(config, plan, [made for _, _, made in configs], store)


def check_before_torch(config: CompareConfig) -> None:
    """What is wrong with the command and needs no torch to be seen."""
    check_directory(config.directory)
    for text in config.methods:
        check_method(parse_method(text)[0], {})
    check_trackers(config.base.report_to)
    check_model_name(config.base.model)
    check_data(config.base)


def check_directory(directory: Path) -> None:
    """Refuse to write among files that are not of a comparison."""
    if directory.exists() and not directory.is_dir():
        raise UserError("the output is a file", file=directory, remedy="name a directory")
    if not directory.is_dir() or is_comparison(directory):
        return
    # Hidden files are the lock, and what a comparison that was killed at its very start has left.
    if any(not file.name.startswith(".") for file in directory.iterdir()):
        raise UserError(
            "the output directory is not empty and holds no comparison",
            file=directory,
            remedy=f"name another {argument('output')}",
        )


def store_of(config: CompareConfig) -> str:
    """The store as its plan names it: the one asked for, else that of the runs that this directory names
    already."""
    if config.store is not None:
        # Of real paths: from a link, ".." leads to where its target lies.
        return os.path.relpath(os.path.realpath(config.store), os.path.realpath(config.directory))
    return Plan.read(config.directory).store if is_comparison(config.directory) else OWN_STORE


def with_threads(config: CompareConfig) -> CompareConfig:
    """Fix the threads of a run, on which its last bits depend: as asked for, else as in the runs that this
    directory holds already, else the cores divided among the workers."""
    threads = config.base.threads
    if threads is None and is_comparison(config.directory):
        threads = Plan.read(config.directory).config.get("threads")
    threads = threads or threads_per_worker(config.workers or 1)
    return dataclasses.replace(config, base=dataclasses.replace(config.base, threads=threads))


def say_choices(configs: Sequence[TrainConfig], fingerprints: Fingerprints) -> None:
    """One line for every choice of learning rate and epochs that nobody made: arms of one model share it."""
    lines = [line for config in configs if (line := fingerprints.choice(config)) is not None]
    for line in dict.fromkeys(lines):
        print(line, file=sys.stderr)


def shared_settings(configs: Sequence[TrainConfig]) -> dict[str, Any]:
    """The learning rate and epochs of all runs, where they are the same: as given, or as was chosen."""
    found: dict[str, Any] = {}
    for name in ("learning_rate", "epochs"):
        values = {getattr(config, name) for config in configs}
        if len(values) == 1:
            found[name] = values.pop()
    return found


def check_margin(points: float) -> None:
    """In points of accuracy; NaN is none."""
    if not 0 < points < 100:
        raise UserError(f"{argument('margin')} is {points:g}", remedy="give points of accuracy, such as 1")
