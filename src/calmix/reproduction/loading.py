"""A preset file read strictly: an unknown key or a wrong value gives one line with file and place.

A preset of a user's own is read the same way as those that come with calmix.
"""

from __future__ import annotations

import dataclasses
import difflib
import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml

from calmix.io.parser_errors import refusing
from calmix.io.records import PARSER_ERRORS, parser_words
from calmix.mixing.catalogue import check_method
from calmix.reproduction.preset import (
    DIRECTIONS,
    EQUAL,
    FULL,
    METRICS,
    SCALES,
    SMOKE,
    STAGES,
    UNCALIBRATED,
    Claim,
    Detection,
    Model,
    Preset,
    PresetArm,
    Published,
    Row,
    Scale,
    Task,
)
from calmix.runtime.option_values import NOISES
from calmix.training.configuration import TrainConfig
from calmix.user_error import UserError

KEYS = (
    "place", "title", "note", "metrics", "bins", "closed", "spread", "training", "models", "tasks", "columns",
    "arms", "rows", "published", "claims", "scales", "detection", "analysis",
)  # fmt: skip
TASK_KEYS = ("title", "dataset", "outside", "without", "training", "arms", "only")
MODEL_KEYS = ("model", "training", "taught", "tasks", "arms")
ROW_KEYS = ("model", "arm", "stage", "not_run")
CLAIM_KEYS = (
    "statement", "place", "arm", "against", "metric", "columns", "direction", "stage", "against_stage",
    "model", "reported", "margin",
)  # fmt: skip
SCALE_KEYS = (
    "seeds", "training", "models", "tasks", "arms", "stand_ins", "validation_rows", "test_rows", "note",
)  # fmt: skip
DETECTION_KEYS = ("noise", "noise_column", "passes")
ANALYSES = ("label_entropy", "settings")
# What a preset decides itself.
OWN = {"train", "validation", "test", "output", "method", "method_options", "seed", "model", "bins", "closed",
       "device", "threads", "trust_remote_code"}  # fmt: skip
TRAINING_KEYS = tuple(option.name for option in dataclasses.fields(TrainConfig) if option.name not in OWN)
SPREADS = ("std", "sem")
OWN_PAPER = "own"


def load_preset(file: Path, name: str | None = None) -> Preset:
    """The preset of a file; `name` is PAPER/PLACE, the stem of the file if left out."""
    if not file.is_file():
        raise UserError("no such preset file", file=file, remedy="see 'calmix reproduce --list'")
    try:
        content = yaml.safe_load(file.read_text(encoding="utf-8"))
    except PARSER_ERRORS as error:
        raise UserError(f"not valid YAML ({parser_words(error)})", file=file) from error
    # A file may be named without its directory, and a name that begins with a slash is a path of its own.
    name = name or f"{file.absolute().parent.name or OWN_PAPER}/{file.stem}"
    with refusing("not a preset", file, "compare it with one of src/calmix/reproduction/presets"):
        return PresetReader(file).read(content, name)


@dataclasses.dataclass(frozen=True)
class PresetReader:
    """Turns the content of a file into a preset; knows the file for its errors."""

    file: Path

    def wrong(self, problem: str, remedy: str | None = None) -> UserError:
        return UserError(problem, file=self.file, remedy=remedy)

    def table(self, value: Any, where: str, known: Iterable[str] | None = None) -> dict[str, Any]:
        """A mapping whose keys are all known; nothing is an empty one."""
        if value is None:
            return {}
        if not isinstance(value, Mapping):
            raise self.wrong(f"{where} is {value!r}", "give a table of names and values")
        for key in value:
            if known is not None and key not in known:
                raise self.unknown(f"{where}: unknown key {key!r}", str(key), known)
        return {str(key): content for key, content in value.items()}

    def unknown(self, problem: str, name: str, known: Iterable[str]) -> UserError:
        names = [str(one) for one in known]
        near = difflib.get_close_matches(name, names, n=1)
        return self.wrong(problem, f"did you mean {near[0]!r}?" if near else f"there are: {', '.join(names)}")

    def one_of(self, value: Any, known: Iterable[str], where: str) -> str:
        names = list(known)
        if value not in names:
            raise self.unknown(f"{where} is {value!r}", str(value), names)
        return str(value)

    def plain_name(self, name: str, where: str) -> str:
        """A name that becomes a part of a file's name: it must not lead to another directory."""
        if name in ("", ".", "..") or any(letter in name for letter in "/\\\0"):
            raise self.wrong(f"{where}: {name!r} is not a name", "give one without slashes")
        return name

    def count(self, value: Any, where: str) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise self.wrong(f"{where} is {value!r}", "give a whole number of at least 1")
        return value

    def cap(self, value: Any, where: str) -> int | None:
        return None if value is None else self.count(value, where)

    def number(self, value: Any, where: str) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            raise self.wrong(f"{where} is {value!r}", "give a number")
        return value

    def arm_options(self, value: Any, where: str) -> dict[str, dict[str, Any]]:
        return {arm: self.table(own, f"{where}: {arm}") for arm, own in self.table(value, where).items()}

    def training(self, value: Any, where: str) -> dict[str, Any]:
        return self.table(value, where, TRAINING_KEYS)

    def read(self, content: Any, name: str) -> Preset:
        given = self.table(content, "the preset", KEYS)
        for key in ("place", "title", "metrics", "scales"):
            if not given.get(key):
                raise self.wrong(f"no {key!r}", "a preset needs place, title, metrics and scales")
        metrics = tuple(dict.fromkeys(self.one_of(one, METRICS, "metrics") for one in given["metrics"]))
        models = {
            key: self.model(key, value) for key, value in self.table(given.get("models"), "models").items()
        }
        tasks = {key: self.task(key, value) for key, value in self.table(given.get("tasks"), "tasks").items()}
        arms = {key: self.arm(key, value) for key, value in self.table(given.get("arms"), "arms").items()}
        if not given.get("analysis") and not (models and tasks and arms):
            raise self.wrong("nothing to run", "give models, tasks and arms")
        preset = Preset(
            name=name,
            paper=name.partition("/")[0],
            place=str(given["place"]),
            title=str(given["title"]),
            note=str(given.get("note") or ""),
            metrics=metrics,
            tasks=tasks,
            models=models,
            arms=arms,
            rows=(),
            column_titles={},
            published={},
            claims=(),
            scales={},
            training=self.training(given.get("training"), "training"),
            bins=self.count(given.get("bins", 15), "bins"),
            closed=self.one_of(given.get("closed", "right"), ("left", "right"), "closed"),
            spread=self.one_of(given.get("spread", "std"), SPREADS, "spread"),
            detection=self.detection(given.get("detection")),
            analysis=self.one_of(given["analysis"], ANALYSES, "analysis") if given.get("analysis") else "",
        )
        self.check_names(preset)
        preset = dataclasses.replace(preset, column_titles=self.columns(preset, given.get("columns")))
        preset = dataclasses.replace(preset, rows=self.rows(preset, given.get("rows")))
        preset = dataclasses.replace(preset, published=self.published(preset, given.get("published")))
        preset = dataclasses.replace(preset, scales=self.scales(preset, given["scales"]))
        claims = self.table(given.get("claims"), "claims")
        return dataclasses.replace(
            preset, claims=tuple(self.claim(preset, key, value) for key, value in claims.items())
        )

    def check_names(self, preset: Preset) -> None:
        """Tasks and arms that models and tasks name, and the columns: each is filled by one task."""
        filled = [column for task in preset.tasks.values() for column in preset.columns_of(task)]
        noise = preset.detection.noise_column if preset.detection else ""
        for column in filled:
            if column != noise and filled.count(column) > 1:
                raise self.wrong(f"two data sets for the column {column!r}", "name the columns differently")
        for task in preset.tasks.values():
            for arm in (*task.arms, *task.only):
                self.one_of(arm, preset.arms, f"tasks: {task.key}: arm")
        for model in preset.models.values():
            for name in (*model.tasks, *model.arms):
                self.one_of(name, preset.tasks, f"models: {model.key}: task")
            for arms in model.arms.values():
                for arm in arms:
                    self.one_of(arm, preset.arms, f"models: {model.key}: arm")

    def model(self, key: str, value: Any, before: Model | None = None) -> Model:
        where = f"models: {self.plain_name(key, 'models')}"
        given = self.table(value, where, MODEL_KEYS)
        network = given.get("model", before.model if before else None)
        if not network:
            raise self.wrong(f"{where}: no 'model'", "name a network, such as bert-base-uncased")
        return Model(
            key,
            str(network),
            self.training(given.get("training"), f"{where}: training"),
            self.training(given.get("taught"), f"{where}: taught"),
            tuple(given.get("tasks", before.tasks if before else ())),
            {
                task: self.arm_options(own, f"{where}: arms: {task}")
                for task, own in self.table(given.get("arms"), f"{where}: arms").items()
            }
            or (before.arms if before else {}),
        )

    def task(self, key: str, value: Any, before: Task | None = None) -> Task:
        where = f"tasks: {self.plain_name(key, 'tasks')}"
        given = self.table(value, where, TASK_KEYS)
        outside = self.table(given.get("outside"), f"{where}: outside")
        if before is not None:
            for column in outside:
                self.one_of(column, before.outside, f"{where}: outside")
            outside = {column: outside.get(column, name) for column, name in before.outside.items()}
        return Task(
            key,
            title=str(given.get("title", before.title if before else key)),
            dataset=self.plain_name(str(given.get("dataset", before.dataset if before else key)), where),
            outside={column: self.plain_name(str(name), where) for column, name in outside.items()},
            without=tuple(
                self.plain_name(str(name), where)
                for name in given.get("without", before.without if before else ())
            ),
            training=self.training(given.get("training"), f"{where}: training"),
            arms=self.arm_options(given.get("arms"), f"{where}: arms") or (before.arms if before else {}),
            only=tuple(given.get("only", before.only if before else ())),
        )

    def arm(self, key: str, value: Any) -> PresetArm:
        given = self.table(value, f"arms: {key}")
        method = str(given.pop("method", ""))
        try:
            check_method(method, {})
        except UserError as error:
            raise self.wrong(f"arms: {key}: {error}") from None
        return PresetArm(key, method, given)

    def detection(self, value: Any) -> Detection | None:
        given = self.table(value, "detection", DETECTION_KEYS)
        if value is None:
            return None
        noise = self.one_of(given["noise"], NOISES, "detection: noise") if given.get("noise") else None
        passes = self.cap(given.get("passes") or None, "detection: passes") or 0
        return Detection(noise, str(given.get("noise_column", noise or "")), passes)

    def columns(self, preset: Preset, value: Any) -> dict[str, str]:
        """In the order of the tasks, in domain first; as listed where the file lists them."""
        inside = {task.key: task.title for task in preset.tasks.values()}
        outside = {
            column: f"{column} (OOD)"
            for task in preset.tasks.values()
            for column in preset.columns_of(task)
            if column not in inside
        }
        every = {**inside, **outside}
        given = self.table(value, "columns", None if preset.analysis else every)
        return {column: str(given.get(column, every.get(column))) for column in given or every} | {
            column: title for column, title in every.items() if column not in given
        }

    def rows(self, preset: Preset, value: Any) -> tuple[Row, ...]:
        given = self.table(value, "rows") or {key: {"arm": key} for key in preset.arms}
        first = next(iter(preset.models), "")
        rows = []
        for title, content in given.items():
            where = f"rows: {title}"
            row = self.table(content, where, ROW_KEYS)
            if preset.analysis:
                rows.append(Row(title, "", "", UNCALIBRATED))
                continue
            if "not_run" in row:
                if len(row) > 1:
                    raise self.wrong(f"{where}: not_run and more", "a row that is not run has no arm")
                rows.append(Row(title, "", "", UNCALIBRATED, str(row["not_run"])))
                continue
            rows.append(
                Row(
                    title,
                    self.one_of(row.get("model", first), preset.models, f"{where}: model"),
                    self.one_of(row.get("arm"), preset.arms, f"{where}: arm"),
                    self.one_of(row.get("stage", UNCALIBRATED), STAGES, f"{where}: stage"),
                )
            )
        return tuple(rows)

    def published(self, preset: Preset, value: Any) -> dict[tuple[str, str, str], Published | None]:
        given = self.table(value, "published")
        columns = [self.one_of(c, preset.columns, "published: columns") for c in given.pop("columns", [])]
        titles = [row.title for row in preset.rows]
        found: dict[tuple[str, str, str], Published | None] = {}
        for title, content in given.items():
            self.one_of(title, titles, "published: row")
            for metric, cells in self.table(content, f"published: {title}", preset.metrics).items():
                where = f"published: {title}: {metric}"
                if not isinstance(cells, list) or len(cells) != len(columns):
                    raise self.wrong(f"{where} is {cells!r}", f"give {len(columns)} numbers, or null")
                for column, cell in zip(columns, cells, strict=True):
                    try:
                        found[title, column, metric] = Published.parse(cell)
                    except ValueError:
                        raise self.wrong(f"{where} is {cell!r}", "write 90.04 ± 0.3, or null") from None
        return found

    def scales(self, preset: Preset, value: Any) -> dict[str, Scale]:
        given = self.table(value, "scales", [scale for scale in SCALES if scale != SMOKE])
        if FULL not in given:
            raise self.wrong("scales: no 'full'", "give at least its seeds")
        return {name: self.scale(preset, name, content) for name, content in given.items()}

    def scale(self, preset: Preset, name: str, value: Any) -> Scale:
        where = f"scales: {name}"
        given = self.table(value, where, SCALE_KEYS)
        models = self.table(given.get("models"), f"{where}: models", preset.models)
        tasks = self.table(given.get("tasks"), f"{where}: tasks", preset.tasks)
        stand_ins = self.table(given.get("stand_ins"), f"{where}: stand_ins", preset.arms)
        arms = given.get("arms") or ()
        seeds = given.get("seeds", [0])
        if not isinstance(seeds, list) or not seeds or not all(map(is_seed, seeds)):
            raise self.wrong(f"{where}: seeds is {seeds!r}", "give a list of whole numbers")
        return Scale(
            name,
            tuple(dict.fromkeys(seeds)),
            self.training(given.get("training"), f"{where}: training"),
            {key: self.model(key, content, preset.models[key]) for key, content in models.items()},
            {key: self.task(key, content, preset.tasks[key]) for key, content in tasks.items()},
            tuple(self.one_of(arm, preset.arms, f"{where}: arms") for arm in arms),
            {key: self.arm(key, content) for key, content in stand_ins.items()},
            self.cap(given.get("validation_rows"), f"{where}: validation_rows"),
            self.cap(given.get("test_rows"), f"{where}: test_rows"),
            str(given.get("note") or ""),
        )

    def claim(self, preset: Preset, key: str, value: Any) -> Claim:
        where = f"claims: {key}"
        given = self.table(value, where, CLAIM_KEYS)
        for needed in ("statement", "place", "metric", "direction"):
            if needed not in given:
                raise self.wrong(f"{where}: no {needed!r}")
        names: list[str] | tuple[str, ...]
        names = tuple(row.title for row in preset.rows) if preset.analysis else tuple(preset.arms)
        stage = self.one_of(given.get("stage", UNCALIBRATED), STAGES, f"{where}: stage")
        direction = self.one_of(given["direction"], DIRECTIONS, f"{where}: direction")
        margin = given.get("margin")
        if (direction == EQUAL) != (margin is not None):
            raise self.wrong(f"{where}: margin is {margin!r}", "give points with 'equal', and with it alone")
        if margin is not None and self.number(margin, f"{where}: margin") <= 0:
            raise self.wrong(f"{where}: margin is {margin!r}", "give points above 0")
        on = given.get("columns") or list(preset.columns)
        claim = Claim(
            key=key,
            statement=str(given["statement"]),
            place=str(given["place"]),
            arm=self.one_of(given.get("arm"), names, f"{where}: arm"),
            against=self.one_of(given.get("against"), names, f"{where}: against"),
            metric=self.one_of(given["metric"], METRICS, f"{where}: metric"),
            on=tuple(
                dict.fromkeys(self.one_of(column, preset.columns, f"{where}: columns") for column in on)
            ),
            direction=direction,
            stage=stage,
            against_stage=self.one_of(given.get("against_stage", stage), STAGES, f"{where}: against_stage"),
            model=self.one_of(given["model"], preset.models, f"{where}: model")
            if "model" in given
            else next(iter(preset.models), ""),
            margin=margin,
        )
        if (claim.arm, claim.stage) == (claim.against, claim.against_stage):
            raise self.wrong(f"{where}: {claim.arm!r} is compared with itself", "name another arm or stage")
        own = {
            column: self.number(value, f"{where}: reported: {column}")
            for column, value in self.table(given.get("reported"), f"{where}: reported", claim.on).items()
        }
        return dataclasses.replace(claim, reported={**printed_effects(preset, claim), **own})


def is_seed(value: Any) -> bool:
    """
    >>> is_seed(0), is_seed(True), is_seed(-1)
    (True, False, False)
    """
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def printed_effects(preset: Preset, claim: Claim) -> dict[str, float]:
    """The published effect of a claim, for the columns where the paper prints both numbers."""
    ours = preset.row(claim.model, claim.arm, claim.stage)
    theirs = preset.row(claim.model, claim.against, claim.against_stage)
    if ours is None or theirs is None:
        return {}
    effects = {}
    for column in claim.on:
        one = preset.published.get((ours.title, column, claim.metric))
        other = preset.published.get((theirs.title, column, claim.metric))
        if one is not None and other is not None:
            effects[column] = round(one.value - other.value, 4)
    return effects
