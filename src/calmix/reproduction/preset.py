"""A table or figure of a paper as data: tasks, models, arms, rows, published numbers and claims.

A *task* is a data set to train on, with its test set (a column of the table) and sets out of domain (further
columns). A *model* is a block of rows. An *arm* is a method with its options, trained once per model, task
and seed; a *row* shows an arm at a stage: `uncalibrated`, `calibrated` (temperature fitted on validation) or
`mc_dropout`. A *claim* fixes its primary outcome before anything is run: two arms, one metric, one stage, the
columns it is tested on, and the direction the paper reports.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

UNCALIBRATED, CALIBRATED, MC_DROPOUT = "uncalibrated", "calibrated", "mc_dropout"
STAGES = (UNCALIBRATED, CALIBRATED, MC_DROPOUT)
FULL, SMALL, SMOKE = "full", "small", "smoke"
SCALES = (FULL, SMALL, SMOKE)
LOWER, HIGHER, EQUAL = "lower", "higher", "equal"
DIRECTIONS = (LOWER, HIGHER, EQUAL)
METRICS = {
    "accuracy": "accuracy %",
    "top5_accuracy": "top-5 accuracy %",
    "mcc": "MCC × 100",
    "nll": "NLL × 100",
    "ece": "ECE %",
    "oe": "OE %",
    "auroc": "AUROC %",
    "confidence": "mean confidence %",
    "entropy": "entropy of the targets, nats × 100",
    "setting": "value",
}
# Of data out of distribution, whose labels say nothing.
DETECTION_METRICS = ("auroc", "confidence")
Options = Mapping[str, Any]


@dataclass(frozen=True)
class Published:
    """A printed number, in the unit of the table, and what stands behind its ±."""

    value: float
    spread: float | None = None

    @classmethod
    def parse(cls, cell: Any) -> Published | None:
        """A cell of a preset; None for a number that the text at hand does not have.

        >>> Published.parse("90.04 ± 0.3")
        Published(value=90.04, spread=0.3)
        >>> Published.parse(7.7), Published.parse(None)
        (Published(value=7.7, spread=None), None)
        """
        if cell is None:
            return None
        value, _, spread = str(cell).partition("±")
        found = cls(float(value), float(spread) if spread.strip() else None)
        if isinstance(cell, bool) or not math.isfinite(found.value):
            raise ValueError(cell)
        return found

    def __str__(self) -> str:
        """
        >>> str(Published(90.04, 0.3)), str(Published(7.7))
        ('90.04 ± 0.3', '7.7')
        """
        return f"{self.value:g}" if self.spread is None else f"{self.value:g} ± {self.spread:g}"


@dataclass(frozen=True)
class Task:
    """What is trained on and tested on. Every name of a data set is a folder of the data directory."""

    key: str
    title: str
    dataset: str
    outside: Mapping[str, str] = field(default_factory=dict)
    """Columns out of domain: key of the column and data set."""
    without: tuple[str, ...] = ()
    """Columns of the files that are not read."""
    training: Options = field(default_factory=dict)
    arms: Mapping[str, Options] = field(default_factory=dict)
    """Options of arms on this task, over those of the arm."""
    only: tuple[str, ...] = ()
    """The arms that the paper runs on this task; all if there is none."""

    @property
    def columns(self) -> tuple[str, ...]:
        return self.key, *self.outside


@dataclass(frozen=True)
class Model:
    """A block of rows: the network, and the settings that are its own."""

    key: str
    model: str
    training: Options = field(default_factory=dict)
    taught: Options = field(default_factory=dict)
    """Settings of the arms that have a teacher, such as the teacher's network."""
    tasks: tuple[str, ...] = ()
    """The tasks of this model; all if there is none."""
    arms: Mapping[str, Mapping[str, Options]] = field(default_factory=dict)
    """Options by task and arm, over those of the task."""


@dataclass(frozen=True)
class PresetArm:
    """A method and its options, as `calmix compare --methods` takes them."""

    key: str
    method: str
    options: Options = field(default_factory=dict)

    @property
    def is_taught(self) -> bool:
        return "teacher" in self.options


@dataclass(frozen=True)
class Row:
    """A line of the table: an arm of a model, at a stage. `not_run` says why a line has no arm."""

    title: str
    model: str
    arm: str
    stage: str
    not_run: str = ""


@dataclass(frozen=True)
class Claim:
    """What the paper says about two arms; the primary outcome is this metric at this stage."""

    key: str
    statement: str
    place: str
    arm: str
    against: str
    metric: str
    on: tuple[str, ...]
    direction: str
    stage: str = UNCALIBRATED
    against_stage: str = UNCALIBRATED
    model: str = ""
    reported: Mapping[str, float] = field(default_factory=dict)
    """The published effect by column, in points: ours minus theirs; where the paper prints both."""
    margin: float | None = None
    """Points within which `equal` counts as equal."""


@dataclass(frozen=True)
class Scale:
    """How a preset is run: what differs from the paper's setting, and how many rows."""

    name: str
    seeds: tuple[int, ...]
    training: Options = field(default_factory=dict)
    models: Mapping[str, Model] = field(default_factory=dict)
    """Only these models; those of the paper if there is none."""
    tasks: Mapping[str, Task] = field(default_factory=dict)
    """Only these tasks, some with stand-ins for the paper's data."""
    arms: tuple[str, ...] = ()
    """Only these arms."""
    stand_ins: Mapping[str, PresetArm] = field(default_factory=dict)
    """What is trained in place of an arm that this scale cannot train."""
    validation_rows: int | None = None
    test_rows: int | None = None
    note: str = ""


@dataclass(frozen=True)
class Detection:
    """Sets that are no task of the model: a row is scored by its confidence."""

    noise: str | None = None
    noise_column: str = ""
    passes: int = 0


@dataclass(frozen=True)
class Preset:
    """A table or figure."""

    name: str
    """PAPER/PLACE."""
    paper: str
    place: str
    title: str
    metrics: tuple[str, ...]
    tasks: Mapping[str, Task]
    models: Mapping[str, Model]
    arms: Mapping[str, PresetArm]
    rows: tuple[Row, ...]
    column_titles: Mapping[str, str]
    published: Mapping[tuple[str, str, str], Published | None]
    """By row title, column and metric."""
    claims: tuple[Claim, ...]
    scales: Mapping[str, Scale]
    training: Options
    bins: int = 15
    closed: str = "right"
    spread: str = "std"
    """What the paper's ± is: `std` over runs, or `sem`, the standard error."""
    detection: Detection | None = None
    analysis: str = ""
    """In place of runs: `label_entropy` or `settings`."""
    note: str = ""

    @property
    def key(self) -> str:
        return self.name.rpartition("/")[2]

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(self.column_titles)

    def task_of(self, column: str) -> Task:
        """The task that a column belongs to."""
        return next(task for task in self.tasks.values() if column in self.columns_of(task))

    def columns_of(self, task: Task) -> tuple[str, ...]:
        noise = self.detection.noise_column if self.detection and self.detection.noise else ""
        return (*task.columns, noise) if noise else task.columns

    def row(self, model: str, arm: str, stage: str) -> Row | None:
        return next((r for r in self.rows if (r.model, r.arm, r.stage) == (model, arm, stage)), None)

    def metrics_of(self, column: str) -> tuple[str, ...]:
        """Of columns whose labels say nothing, only those of detection."""
        outside = self.detection is not None and column != self.task_of(column).key
        if self.detection is None:
            return self.metrics
        return tuple(metric for metric in self.metrics if (metric in DETECTION_METRICS) == outside)
