"""Many runs, one comparison: plan the runs, make those that are missing, and gather what they found.

DIR/config.yaml           the effective options; `calmix compare --config` takes them
    cells.json            the runs this comparison is made of
    runs/                 the store of runs; several comparisons may share one that lies elsewhere
    runs.parquet, differences.parquet   the results, enough to render the rest again
    summary.csv, summary.md, report.html
"""

from __future__ import annotations

import dataclasses
import os
import shlex
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from calmix.experiments.arm_differences import find_differences
from calmix.experiments.cell import Cell, Task
from calmix.experiments.executors import EXECUTORS, make_executor, run_all, threads_per_worker
from calmix.experiments.grid import Arm, expand, parse_method, parse_vary, reference_of
from calmix.experiments.memory_files import with_files
from calmix.experiments.progress import CellProgress
from calmix.experiments.recommendation import best_run, recommend
from calmix.experiments.required_runs import DEFAULT_MARGIN
from calmix.experiments.results import Results, collect
from calmix.experiments.significance import with_significance
from calmix.experiments.summary import mark_better, summarise, write_summary
from calmix.io.records import read_json_record
from calmix.io.run_directory import CELLS_FILE, is_comparison, write_json, write_yaml
from calmix.mixing.catalogue import check_method
from calmix.runtime.option_values import parse_bins
from calmix.training.configuration import TrainConfig
from calmix.training.pipeline.fingerprint import Fingerprints
from calmix.training.pipeline.first_look import check_data, check_model_name
from calmix.training.pipeline.run_store import RunStore
from calmix.user_error import UserError, argument, check_least

CONFIG_FILE, SUMMARY_FILE = "config.yaml", "summary.csv"
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
        stored = read_json_record(directory / CELLS_FILE)
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

    def make(self) -> None:
        """Write the plan down, and make the runs that are missing; in `working_in` the directory."""
        directory = self.config.directory
        self.plan.write(directory)  # first: it marks the directory as ours
        # Worker processes, and whoever continues the comparison, read files.
        plan = dataclasses.replace(self.plan, config=with_files(self.plan.config, directory))
        plan.write(directory)
        write_yaml(directory / CONFIG_FILE, plan.config)
        tasks = [
            Task(str(self.store.path), cell.fingerprint, with_files(made.as_dict(), directory))
            for cell, made in zip(self.plan.cells, self.configs, strict=True)
        ]
        make_runs(self.config, self.store, self.plan.cells, tasks)


def compare(config: CompareConfig) -> Results:
    """Make all runs of a comparison that are not there yet, and gather the results of all."""
    planned = plan_comparison(config)
    with working_in(config.directory):
        planned.make()
        results = gather(config.directory)
        if not results.runs:
            raise _nothing_finished(results)
        results.write(config.directory)
        drop_models(planned.store, results, config.keep_models)
        if config.keep_models != "all":
            drop_teachers(planned.store, planned.plan.cells, planned.configs)
    return results


def plan_comparison(config: CompareConfig) -> Planned:
    """Check everything, and name every run."""
    check_before_torch(config)

    from calmix.training.pipeline.guidance import needs_plain_run

    config = with_threads(config)
    arms = expand(config.base, config.methods, parse_vary(config.vary))
    place = OWN_STORE if config.store is None else os.path.relpath(config.store, config.directory)
    store = RunStore(config.store or config.directory / OWN_STORE)
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
    check_model_name(config.base.model)
    check_data(config.base)


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


def load(directory: Path) -> Results:
    """The results of a comparison that was made before: from its runs if they are there, else as stored."""
    if not is_comparison(directory) or not Plan.read(directory).open_store(directory).path.is_dir():
        return Results.read(directory)
    results = gather(directory)
    if not results.runs:
        raise UserError("no run of this comparison has finished", file=directory, remedy="run it again")
    results.write(directory)
    return results


def with_margin(results: Results, margin: float | None) -> Results:
    """With another margin than the one it was made with, if one is given."""
    if margin is None:
        return results
    check_margin(margin)
    return dataclasses.replace(results, config={**results.config, "margin": margin})


def gather(directory: Path) -> Results:
    """Metrics, differences and failures of the runs in the store."""
    plan = Plan.read(directory)
    store = plan.open_store(directory)
    bins, closed = parse_bins(plan.config["bins"]), plan.config["closed"]
    failures = [
        {
            "arm": cell.arm.name,
            "seed": cell.seed,
            "run": cell.fingerprint,
            **(store.failure(cell.fingerprint) or {"reason": "not finished", "is_user_error": False}),
        }
        for cell in plan.cells
        if not store.is_finished(cell.fingerprint)
    ]
    for failure in failures:
        failure.pop("traceback", None)
    # By arm, then by seed: the order in which a reader looks for them.
    cells = sorted(plan.cells, key=lambda cell: (plan.arms.index(cell.arm), cell.seed))
    runs = collect(store, cells, bins=bins, closed=closed)
    results = Results(plan.config, plan.arms, runs, failures=failures)
    differences = find_differences(store, cells, results, bins=bins[0], closed=closed) if runs else []
    return dataclasses.replace(results, differences=differences)


def make_runs(config: CompareConfig, store: RunStore, cells: Sequence[Cell], tasks: Sequence[Task]) -> None:
    """Run what is missing. Cells of equal fingerprint (an option that does nothing) are one run."""
    by_fingerprint = {cell.fingerprint: cell for cell in cells}
    unique = {task.fingerprint: task for task in tasks}
    missing = [task for key, task in unique.items() if not store.is_whole(key)]
    if not missing:
        return
    past = [store.run(key).metrics()["seconds"] for key in unique if store.is_finished(key)]
    threads = config.base.threads or 1
    executor = make_executor(config.executor, config.workers, threads, device=config.base.device)
    progress = CellProgress(len(unique), len(unique) - len(missing), executor.capacity, past)
    found = f", {len(past)} of them there already" if past else ""
    progress.say(f"{len(unique)} runs{found}; {executor.capacity} at a time, threads per run: {threads}")

    def started(task: Task) -> None:
        title = by_fingerprint[task.fingerprint].title
        progress.start(task.fingerprint, title, store.log_file(task.fingerprint))

    try:
        for task, outcome in run_all(executor, missing, started=started, looked=progress.look):
            if outcome.reason is not None and store.failure(task.fingerprint) is None:
                store.record_failure(task.fingerprint, outcome.reason)
            progress.end(task.fingerprint, seconds=outcome.seconds, reason=outcome.reason)
    finally:
        progress.close()


def drop_models(store: RunStore, results: Results, keep: str) -> None:
    """Keep the weights of the best seed of every arm, of all runs, or of none."""
    if keep == "all":
        return
    finished = {record["run"] for record in results.runs}
    there = [arm for arm in results.arms if results.select(arm=arm.name)]
    kept = {best_run(results, arm)[1] for arm in there} if keep == "best" else set()
    for fingerprint in finished - kept:
        store.drop_model(fingerprint)


def drop_teachers(store: RunStore, cells: Sequence[Cell], configs: Sequence[TrainConfig]) -> None:
    """Teachers that are no arm of their own have done their work: what they said is kept, their weights are
    not."""
    from calmix.training.distillation.teaching import is_method, teacher_config

    arms = {cell.fingerprint for cell in cells}
    for config in configs:
        for name in filter(is_method, config.teacher):
            fingerprint = store.fingerprints.of(teacher_config(config, name))
            if fingerprint not in arms:
                store.drop_model(fingerprint)


def check_margin(points: float) -> None:
    """In points of accuracy; NaN is none."""
    if not 0 < points < 100:
        raise UserError(f"{argument('margin')} is {points:g}", remedy="give points of accuracy, such as 1")


def report_data(results: Results, directory: Path) -> dict[str, Any]:
    """Everything that `--json` prints and the pages show, as plain values; writes `summary.csv`."""
    summary, differences = summarise(results), with_significance(results)
    mark_better(summary, differences)
    write_summary(summary, results.metrics(), directory / SUMMARY_FILE)
    recommendation = recommend(results, summary).as_dict()
    recommendation["command"] = next_command(directory, recommendation["next_seeds"])
    for key, run in (("model", "run"), ("alternative_model", "alternative_run")):
        model = store_path(directory) / str(recommendation[run]) / "model"
        recommendation[key] = str(model) if recommendation[run] and model.is_dir() else None
    seconds = {arm.name: [r["seconds"] for r in results.select(arm=arm.name)] for arm in results.arms}
    return {
        "output": str(directory),
        "recommendation": recommendation,
        "arms": [
            {
                **dataclasses.asdict(arm),
                "reference": getattr(reference_of(arm, results.arms), "name", None),
                "seeds": sorted({record["seed"] for record in results.select(arm=arm.name)}),
                "seconds": sum(seconds[arm.name]) / len(seconds[arm.name]) if seconds[arm.name] else None,
            }
            for arm in results.arms
        ],
        "summary": summary,
        "differences": differences,
        "failures": results.failures,
        "config": results.config,
    }


def store_path(directory: Path) -> Path:
    """Where the runs of a comparison lie."""
    return directory / (Plan.read(directory).store if is_comparison(directory) else OWN_STORE)


def next_command(directory: Path, seeds: Sequence[int]) -> str | None:
    """The same comparison with more seeds; it goes on in its directory and repeats no run."""
    if not seeds or not (directory / CONFIG_FILE).is_file():
        return None
    config, listed = shlex.quote(str(directory / CONFIG_FILE)), ",".join(map(str, seeds))
    return f"calmix compare --config {config} --seeds {listed} --output {shlex.quote(str(directory))}"


def with_threads(config: CompareConfig) -> CompareConfig:
    """Fix the threads of a run, on which its last bits depend: as asked for, else as in the runs that this
    directory holds already, else the cores divided among the workers."""
    threads = config.base.threads
    if threads is None and is_comparison(config.directory):
        threads = Plan.read(config.directory).config.get("threads")
    threads = threads or threads_per_worker(config.workers or 1)
    return dataclasses.replace(config, base=dataclasses.replace(config.base, threads=threads))


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


@contextmanager
def working_in(directory: Path) -> Iterator[None]:
    """One comparison at a time in a directory; the system lets go of the lock when its holder dies."""
    directory.mkdir(parents=True, exist_ok=True)
    with (directory / ".lock").open("a") as file:
        if sys.platform != "win32":
            import fcntl

            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise UserError(
                    "another comparison is at work in this directory",
                    file=directory,
                    remedy=f"wait for it, or name another {argument('output')}",
                ) from None
        yield


def _nothing_finished(results: Results) -> Exception:
    first = results.failures[0]
    text = f"all {len(results.failures)} runs failed; {first['arm']}, seed {first['seed']}: {first['reason']}"
    is_fixable = all(failure["is_user_error"] for failure in results.failures)
    return UserError(text) if is_fixable else RuntimeError(text)
