"""Run a preset at a scale: make what is missing, measure, write the outcome.

OUT/<paper>/<place>-<scale>.json   the outcome, after every block what is known by then
    work/runs/                     the store of runs, shared by all presets
    work/comparisons/              one comparison per block; `calmix compare --from` shows it
    work/data/, work/network/      samples of the data; the tiny network of the smallest scale
    work/detection/                scores of rows out of distribution

It can be killed at any moment: finished runs are found in the store, an interrupted one continues.
"""

from __future__ import annotations

import dataclasses
import shlex
import shutil
import statistics
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from calmix.experiments.bootstrap import REPETITIONS
from calmix.experiments.cell import Cell
from calmix.experiments.comparison import drop_teachers, make_planned, working_in
from calmix.experiments.comparison_plan import Planned, plan_comparison
from calmix.experiments.results import collect
from calmix.io.run_directory import RunDirectory
from calmix.printable import say
from calmix.reproduction.blocks import Block, blocks_of
from calmix.reproduction.catalogue import preset_names
from calmix.reproduction.datasets import TaskFiles, task_files
from calmix.reproduction.detection import Scores, read_sets, score_run
from calmix.reproduction.effects import auroc_effect, mean_effect, metric_effect, placements
from calmix.reproduction.outcome import MeasuredCell, MeasuredEffect, Outcome, Regime
from calmix.reproduction.preset import DETECTION_METRICS, MC_DROPOUT, SMOKE, Preset, Scale
from calmix.user_error import UserError, argument

SMOKE_REPETITIONS = 20
HISTORY = ("train_loss", "validation_nll", "validation_ece", "accuracy")


@dataclass(frozen=True)
class Options:
    """How the runs are made."""

    scale: str
    output: Path
    data: Path | None = None
    executor: str = "local"
    workers: int | None = None
    threads: int | None = None
    device: str = "auto"


def run_preset(preset: Preset, options: Options, source: Path | None = None) -> Outcome:
    """All blocks of a preset, one after the other; `source` is the file of a user's own preset."""
    from calmix import __version__

    if options.output.exists() and not options.output.is_dir():
        raise UserError("the output is a file", file=options.output, remedy="name a directory")
    outcome = Outcome(preset.name, options.scale, command_of(preset, options, source), __version__)
    if preset.analysis:
        from calmix.reproduction.analyses import analyse

        outcome = analyse(preset, outcome)
        outcome.write(options.output)
        return outcome
    work = options.output / "work"
    with nothing_left_if_refused(options.output):
        scale = scale_of(preset, options.scale, work)
        blocks = blocks_of(preset, scale)
        # Everything that is missing is reported before anything is trained.
        files = [files_of(block, options, work) for block in blocks]
        planned = [
            plan_block(block, found, options, work) for block, found in zip(blocks, files, strict=True)
        ]
    if preset.name not in preset_names() and source is not None:
        copy = options.output / f"{preset.name}.yaml"
        copy.parent.mkdir(parents=True, exist_ok=True)
        if not copy.exists() or not copy.samefile(source):
            shutil.copyfile(source, copy)
    for number, (block, found, plan) in enumerate(zip(blocks, files, planned, strict=True), start=1):
        say(f"{preset.name} at {scale.name}, block {number} of {len(blocks)}: {block.key}")
        with working_in(plan.config.directory):
            make_planned(plan)
            measured = Measured(block, plan, found, work / "detection")
            outcome = measured.add_to(outcome)
            for cell in plan.plan.cells:
                plan.store.drop_model(cell.fingerprint)
            drop_teachers(plan.store, plan.plan.cells, plan.configs)
        outcome = dataclasses.replace(outcome, finished=number == len(blocks))
        outcome.write(options.output)
    return outcome


@contextmanager
def nothing_left_if_refused(output: Path) -> Iterator[None]:
    """Rows and networks are written before the arms can be checked on them."""
    is_new = not output.exists()
    try:
        yield
    except UserError:
        if is_new:
            shutil.rmtree(output, ignore_errors=True)
        raise


def command_of(preset: Preset, options: Options, source: Path | None = None) -> str:
    """The command that makes this outcome; the places of data and output are the reader's own."""
    data = "" if options.scale == SMOKE or preset.analysis else " --data-dir DATA"
    name = shlex.quote(source.name) if source is not None else preset.name
    return f"calmix reproduce {name} --scale {options.scale}{data} --output OUT"


def scale_of(preset: Preset, name: str, work: Path) -> Scale:
    if name == SMOKE:
        from calmix.reproduction.smoke import make_network, smoke_scale

        return smoke_scale(preset, make_network(work / "network"))
    if name not in preset.scales:
        raise UserError(
            f"{preset.name} has no scale {name!r}",
            remedy=f"it has: {', '.join([*preset.scales, SMOKE])}",
        )
    return preset.scales[name]


def files_of(block: Block, options: Options, work: Path) -> TaskFiles:
    if block.scale.name == SMOKE:
        from calmix.reproduction.smoke import smoke_files

        return smoke_files(block.task, work / "data")
    if options.data is not None and not options.data.is_dir():
        raise UserError(
            "no such data directory", file=options.data, remedy=f"give {argument('data_dir', 'DIR')}"
        )
    return task_files(block.task, block.scale, options.data, work / "data")


def plan_block(block: Block, files: TaskFiles, options: Options, work: Path) -> Planned:
    directory = work / "comparisons" / block.preset.name / f"{block.scale.name}-{block.key}"
    threads = options.threads or (1 if block.scale.name == SMOKE else None)
    base = block.base(files, directory, threads=threads, device=options.device)
    # A run of a second is not worth a process of its own.
    is_short = block.scale.name == SMOKE and options.executor == "local" and options.workers is None
    executor = "inline" if is_short else options.executor
    config = block.comparison(
        base, work / "runs", executor=executor, workers=options.workers, keep_models="all"
    )
    return plan_comparison(config)


class Measured:
    """What the finished runs of a block say."""

    def __init__(self, block: Block, planned: Planned, files: TaskFiles, detection: Path) -> None:
        self.block, self.preset, self.planned, self.files = block, block.preset, planned, files
        self.names = block.planned_names(planned.config, planned.plan.arms)
        self.cells = [cell for cell in planned.plan.cells if planned.store.is_finished(cell.fingerprint)]
        self.repetitions = SMOKE_REPETITIONS if block.scale.name == SMOKE else REPETITIONS
        self.records = collect(
            planned.store,
            self.cells,
            bins=self.preset.bins,
            closed=planned.config.base.closed,  # type: ignore[arg-type]
        )
        self.scores = self._scores(detection) if self.preset.detection else {}

    def _scores(self, folder: Path) -> dict[str, Scores]:
        from calmix.training.pipeline.stages import restore_model

        assert self.preset.detection is not None
        if not self.cells:
            return {}
        columns = (self.block.task.key, *self.block.task.outside)
        sources = {column: self.files.tests[column] for column in columns}
        task = self.planned.store.run(self.cells[0].fingerprint).metrics()["task"]
        sets = read_sets(sources, task)
        return {
            cell.fingerprint: score_run(
                self.planned.store.run(cell.fingerprint),
                sets,
                self.block.task.key,
                self.preset.detection,
                folder,
                device=self.planned.config.base.device,
                restore=partial(restore_model, self.planned.store, config, cell.fingerprint),
            )
            for cell, config in zip(self.planned.plan.cells, self.planned.configs, strict=True)
            if cell in self.cells
        }

    def runs(self, arm: str) -> dict[int, Cell]:
        """The finished cells of an arm of the preset, by seed."""
        return {cell.seed: cell for cell in self.cells if cell.arm.name == self.names.get(arm)}

    def directories(self, arm: str) -> dict[int, RunDirectory]:
        return {seed: self.planned.store.run(cell.fingerprint) for seed, cell in self.runs(arm).items()}

    def values(self, arm: str, stage: str, column: str, metric: str) -> dict[int, float]:
        """A metric of every seed."""
        if metric in DETECTION_METRICS:
            return self._detected(arm, stage, column, metric)
        split = self.block.split_of(column)
        wanted = {"arm": self.names.get(arm), "split": split, "stage": stage}
        return {
            record["seed"]: record[metric]
            for record in self.records
            if metric in record and all(record[name] == value for name, value in wanted.items())
        }

    def _detected(self, arm: str, stage: str, column: str, metric: str) -> dict[int, float]:
        found = {}
        for seed, cell in self.runs(arm).items():
            scores = self.scores.get(cell.fingerprint)
            if scores is None or not scores.has(column, stage):
                continue
            if metric == "auroc":
                inside = scores.of(self.block.task.key, stage)
                found[seed] = float(placements(inside, scores.of(column, stage))[0].mean())
            else:
                found[seed] = float(scores.confidence(column, stage).mean())
        return found

    def floor(
        self, arm: str, stage: str, column: str, metric: str, seeds: Collection[int] | None = None
    ) -> float | None:
        """The mean over seeds, all or these, of the noise limit of the ECE."""
        if metric != "ece":
            return None
        limits = self.values(arm, stage, column, "ece_noise_floor_p95")
        found = [limit for seed, limit in limits.items() if seeds is None or seed in seeds]
        return statistics.fmean(found) if found else None

    def measured_cells(self) -> list[MeasuredCell]:
        cells = []
        for row in self.preset.rows:
            if row.model != self.block.model.key or row.arm not in self.names:
                continue
            for column in self.preset.columns_of(self.block.task):
                for metric in self.preset.metrics_of(column):
                    found = list(self.values(row.arm, row.stage, column, metric).values())
                    if not found:
                        continue
                    cells.append(
                        MeasuredCell(
                            row.title,
                            column,
                            metric,
                            statistics.fmean(found),
                            statistics.stdev(found) if len(found) > 1 else None,
                            len(found),
                            self._rows_of(column),
                            self.floor(row.arm, row.stage, column, metric),
                        )
                    )
        return cells

    def _rows_of(self, column: str) -> int:
        if self.preset.detection is not None:
            some = next(iter(self.scores.values()))
            stage = next(stage for stage in ("uncalibrated", MC_DROPOUT) if some.has(column, stage))
            return len(some.of(column, stage))
        split = self.block.split_of(column)
        return next(int(record["n"]) for record in self.records if record["split"] == split)

    def measured_effects(self) -> list[MeasuredEffect]:
        effects = []
        columns = self.preset.columns_of(self.block.task)
        for claim in self.preset.claims:
            if claim.model != self.block.model.key:
                continue
            for column in claim.on:
                if column not in columns:
                    continue
                ours = self.values(claim.arm, claim.stage, column, claim.metric)
                theirs = self.values(claim.against, claim.against_stage, column, claim.metric)
                seeds = sorted(ours.keys() & theirs.keys())
                if not seeds:
                    continue
                spread = self._spread(claim, column, seeds)
                floors = (
                    self.floor(claim.arm, claim.stage, column, claim.metric, seeds),
                    self.floor(claim.against, claim.against_stage, column, claim.metric, seeds),
                )
                effects.append(
                    MeasuredEffect(
                        claim.key,
                        column,
                        spread.difference,
                        spread.rows_variance,
                        spread.seeds_variance,
                        spread.seeds,
                        (
                            statistics.fmean(ours[seed] for seed in seeds),
                            statistics.fmean(theirs[seed] for seed in seeds),
                        ),
                        None if floors[0] is None or floors[1] is None else (floors[0], floors[1]),
                    )
                )
        return effects

    def _spread(self, claim: Any, column: str, seeds: list[int]) -> Any:
        sides = ((claim.arm, claim.stage), (claim.against, claim.against_stage))
        if claim.metric in DETECTION_METRICS:
            scores = [[self.scores[self.runs(arm)[seed].fingerprint] for seed in seeds] for arm, _ in sides]
            stages = [stage for _, stage in sides]
            if claim.metric == "auroc":
                inside = self.block.task.key
                pairs = [
                    [(one.of(inside, stage), one.of(column, stage)) for one in side]
                    for side, stage in zip(scores, stages, strict=True)
                ]
                return auroc_effect(pairs[0], pairs[1])
            confidences = [
                [one.confidence(column, stage) for one in side]
                for side, stage in zip(scores, stages, strict=True)
            ]
            return mean_effect(confidences[0], confidences[1])
        ours, theirs = (
            ({seed: self.directories(arm)[seed] for seed in seeds}, stage) for arm, stage in sides
        )
        return metric_effect(
            ours,
            theirs,
            self.block.split_of(column),
            claim.metric,
            bins=self.preset.bins,
            closed=self.planned.config.base.closed,  # type: ignore[arg-type]
            repetitions=self.repetitions,
        )

    def regimes(self) -> list[Regime]:
        return [
            mean_regime(self.block, arm.key, list(self.directories(arm.key).values()))
            for arm in self.block.arms
            if self.directories(arm.key)
        ]

    def add_to(self, outcome: Outcome) -> Outcome:
        unfinished = [cell for cell in self.planned.plan.cells if cell not in self.cells]
        failures = [
            {
                "block": self.block.key,
                "run": cell.title,
                "reason": (self.planned.store.failure(cell.fingerprint) or {"reason": "not finished"})[
                    "reason"
                ],
            }
            for cell in unfinished
        ]
        if not self.cells:
            raise UserError(f"all {len(failures)} runs of {self.block.key} failed; {failures[0]['reason']}")
        task = self.block.task
        return dataclasses.replace(
            outcome,
            cells=[*outcome.cells, *self.measured_cells()],
            effects=[*outcome.effects, *self.measured_effects()],
            regimes=[*outcome.regimes, *self.regimes()],
            failures=[*outcome.failures, *failures],
            data={**outcome.data, task.key: task.dataset, **task.outside},
            seconds=outcome.seconds
            + sum(
                self.planned.store.run(fingerprint).metrics()["seconds"]
                for fingerprint in {cell.fingerprint for cell in self.cells}
            ),
            settings={
                **outcome.settings,
                self.block.key: {
                    "model": self.block.model.model if self.block.scale.name != SMOKE else "tiny",
                    "seeds": list(self.block.scale.seeds),
                    **self.block.settings(),
                },
            },
        )


def mean_regime(block: Block, arm: str, runs: list[RunDirectory]) -> Regime:
    """The losses of every epoch, mean over seeds, and the epochs that were kept."""
    histories = [run.metrics()["history"] for run in runs]
    epochs = []
    for entries in zip(*histories, strict=False):
        record = {"epoch": float(entries[0]["epoch"])}
        for name in HISTORY:
            found = [entry[name] for entry in entries if entry.get(name) is not None]
            if found:
                record[name] = statistics.fmean(found)
        epochs.append(record)
    kept = [entry["epoch"] for history in histories for entry in history if entry.get("chosen")]
    return Regime(block.model.key, block.task.key, arm, epochs, [float(epoch) for epoch in kept])
