"""Many runs, one comparison: make the runs that are missing, and collect their results.

DIR/config.yaml           the effective options; `calmix compare --config` takes them
    cells.json            the runs of this comparison (`comparison_plan`)
    runs/                 the store of runs; several comparisons may share one elsewhere
    runs.parquet, differences.parquet   the results, enough to render the rest again
    summary.csv, summary.md, report.html
"""

from __future__ import annotations

import dataclasses
import shlex
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from calmix.experiments.arm_differences import find_differences
from calmix.experiments.cell import Cell, Task
from calmix.experiments.comparison_plan import (
    OWN_STORE,
    CompareConfig,
    Plan,
    Planned,
    check_margin,
    plan_comparison,
)
from calmix.experiments.executors import make_executor, run_all
from calmix.experiments.grid import reference_of
from calmix.experiments.memory_files import with_files
from calmix.experiments.progress import CellProgress
from calmix.experiments.recommendation import best_run, recommend
from calmix.experiments.results import RUNS_FILE, Results, collect
from calmix.experiments.significance import with_significance
from calmix.experiments.slices import slice_sentences, slices_of
from calmix.experiments.summary import mark_better, summarise, write_summary
from calmix.io.run_directory import RunDirectory, is_comparison, write_yaml
from calmix.runtime.option_values import PERTURBED, parse_bins
from calmix.training.configuration import TrainConfig
from calmix.training.pipeline.run_store import RunStore
from calmix.user_error import UserError, argument

CONFIG_FILE, SUMMARY_FILE = "config.yaml", "summary.csv"


def compare(config: CompareConfig) -> Results:
    """Make all runs of a comparison that are not there yet, and gather the results of all."""
    planned = plan_comparison(config)
    with working_in(config.directory):
        make_planned(planned)
        results = gather(config.directory)
        if not results.runs:
            raise _nothing_finished(results)
        results.write(config.directory)
        drop_models(planned.store, results, config.keep_models)
        if config.keep_models != "all":
            drop_teachers(planned.store, planned.plan.cells, planned.configs)
    return results


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


def make_planned(planned: Planned) -> None:
    """Write the plan, and make the runs that are missing; in `working_in` the directory."""
    directory = planned.config.directory
    planned.plan.write(directory)  # first: it marks the directory as ours
    # Worker processes, and whoever continues the comparison, read files.
    plan = dataclasses.replace(planned.plan, config=with_files(planned.plan.config, directory))
    plan.write(directory)
    write_yaml(directory / CONFIG_FILE, plan.config)
    tasks = [
        Task(
            str(planned.store.path),
            cell.fingerprint,
            with_files(made.as_dict(), directory),
            planned.store.fingerprints.data_of(made),
        )
        for cell, made in zip(planned.plan.cells, planned.configs, strict=True)
    ]
    make_runs(planned.config, planned.store, planned.plan.cells, tasks)


def make_runs(config: CompareConfig, store: RunStore, cells: Sequence[Cell], tasks: Sequence[Task]) -> None:
    """Run what is missing. Cells of equal fingerprint (an option that does nothing) are one run."""
    by_fingerprint = {cell.fingerprint: cell for cell in cells}
    unique = {task.fingerprint: task for task in tasks}
    missing = [task for key, task in unique.items() if not store.is_whole(key)]
    if not missing:
        return
    made = unique.keys() - {task.fingerprint for task in missing}
    past = [store.run(key).metrics()["seconds"] for key in made]
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


def load(directory: Path) -> Results:
    """The results of a comparison that was made before: from its runs, or as stored where these are gone."""
    if not is_comparison(directory):
        return Results.read(directory)
    results = gather(directory)
    if results.failures and (directory / RUNS_FILE).is_file():
        stored, store = Results.read(directory), Plan.read(directory).open_store(directory)
        if not all(store.is_finished(record["run"]) for record in stored.runs):
            return stored
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
    """Teachers that are no arm of their own have done their work: their logits are kept, their weights are
    not."""
    from calmix.training.distillation.teaching import is_method, teacher_config

    arms = {cell.fingerprint for cell in cells}
    for config in configs:
        for name in filter(is_method, config.teacher):
            fingerprint = store.fingerprints.of(teacher_config(config, name))
            if fingerprint not in arms:
                store.drop_model(fingerprint)


def report_data(results: Results, directory: Path, output: Path | None = None) -> dict[str, Any]:
    """Everything that `--json` prints and the pages show, as plain values; writes `summary.csv`.

    The runs and the models are those of the comparison in `directory`, also where another `output` is given.
    """
    output = output or directory
    summary, differences = summarise(results), with_significance(results)
    mark_better(summary, differences)
    write_summary(summary, results.metrics(), output / SUMMARY_FILE)
    sliced = results.config.get("slice") is not None
    slices, unsliced = slices_of(results, store_path(directory)) if sliced else ([], [])
    recommendation = recommend(results, summary).as_dict()
    recommendation["notes"] = (*calibrator_notes(results), *recommendation["notes"])
    recommendation["command"] = next_command(directory, recommendation["next_seeds"])
    for key, run in (("model", "run"), ("alternative_model", "alternative_run")):
        model = store_path(directory) / str(recommendation[run]) / "model"
        recommendation[key] = str(model) if recommendation[run] and model.is_dir() else None
    seconds = {arm.name: [r["seconds"] for r in results.select(arm=arm.name)] for arm in results.arms}
    return {
        "output": str(output),
        "directory": str(directory),
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
        **({"slices": slices, "slice_sentences": [*slice_sentences(slices), *unsliced]} if sliced else {}),
        "differences": differences,
        "failures": results.failures,
        "config": results.config,
    }


def calibrator_notes(results: Results) -> list[str]:
    """What "+ TS" means where runs have another calibrator than a temperature."""
    usual = results.config.get("calibrator", TrainConfig.calibrator)
    kinds = {str(arm.settings.get("calibrator", usual)) for arm in results.arms}
    others = sorted(kinds - {TrainConfig.calibrator, PERTURBED})
    if not others:
        return []
    return [
        f'"+ TS" and "temperature scaling" stand for the calibrator of the runs: {", ".join(sorted(kinds))}'
    ]


def store_path(directory: Path) -> Path:
    """Where the runs of a comparison lie."""
    return directory / (Plan.read(directory).store if is_comparison(directory) else OWN_STORE)


def next_command(directory: Path, seeds: Sequence[int]) -> str | None:
    """The same comparison with more seeds; it goes on in its directory and repeats no run."""
    if not seeds or not (directory / CONFIG_FILE).is_file():
        return None
    config, listed = shlex.quote(str(directory / CONFIG_FILE)), ",".join(map(str, seeds))
    return f"calmix compare --config {config} --seeds {listed} --output {shlex.quote(str(directory))}"


def recommended_run(directory: Path) -> RunDirectory:
    """The run with the recommended model; an error that says why where there is none."""
    is_stored = (directory / RUNS_FILE).is_file()
    results = Results.read(directory) if is_stored else gather(directory)
    store = RunStore(store_path(directory))
    chosen = recommend(results, summarise(results)).run if results.runs else None
    if chosen is None:
        raise UserError(
            "this comparison recommends no model",
            file=directory,
            remedy=f"name one of its runs, in {store.path}",
        )
    run = store.run(chosen)
    if not run.model.is_dir():
        raise UserError(
            f"the recommended model, of run {chosen}, was not kept",
            file=directory,
            remedy=f"make the comparison again with {argument('keep_models', 'best')}",
        )
    return run


def _nothing_finished(results: Results) -> Exception:
    first = results.failures[0]
    text = f"all {len(results.failures)} runs failed; {first['arm']}, seed {first['seed']}: {first['reason']}"
    is_fixable = all(failure["is_user_error"] for failure in results.failures)
    return UserError(text) if is_fixable else RuntimeError(text)
