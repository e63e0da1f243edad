"""The comparisons that a preset is made of at a scale: one per model and task."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from calmix.experiments.comparison_plan import CompareConfig
from calmix.experiments.grid import Arm, expand, show
from calmix.reproduction.datasets import TaskFiles
from calmix.reproduction.preset import SMOKE, Claim, Model, Preset, PresetArm, Scale, Task
from calmix.training.configuration import TrainConfig
from calmix.training.model_settings import settings_for, trainer_settings_for
from calmix.user_error import UserError, argument

IN_DOMAIN, OUTSIDE = "test", "outside"
# Options that are tables: what a scale says is added to what the paper says.
TABLES = ("trainer", "model_options")


@dataclass(frozen=True)
class Block:
    """One model and one task: the arms that a table shows of them."""

    preset: Preset
    scale: Scale
    model: Model
    task: Task
    arms: tuple[PresetArm, ...]

    @property
    def key(self) -> str:
        """A folder name."""
        return re.sub(r"[^A-Za-z0-9_.-]+", "-", f"{self.model.key}-{self.task.key}")

    def split_of(self, column: str) -> str:
        """The test set that fills a column. At the smallest scale all sets out of domain are one, under one
        name, so that tables share their runs."""
        if column == self.task.key:
            return IN_DOMAIN
        return OUTSIDE if self.scale.name == SMOKE else column

    def settings(self) -> dict[str, Any]:
        """The options of training: those of the paper, over them those of the scale."""
        paper_task, paper_model = self.preset.tasks[self.task.key], self.preset.models[self.model.key]
        levels: list[Mapping[str, Any]] = [settings_for(self.model.model)]
        if trainer := trainer_settings_for(self.model.model):
            levels.append({"trainer": trainer})
        if self.scale.name != SMOKE:
            levels += [self.preset.training, paper_model.training, paper_task.training]
        levels += [self.scale.training, self.model.training]
        if self.task is not paper_task:
            levels.append(self.task.training)
        merged: dict[str, Any] = {}
        for level in levels:
            for name, value in level.items():
                merged[name] = {**merged.get(name, {}), **value} if name in TABLES else value
        return merged

    def base(self, files: TaskFiles, output: Path, *, threads: int | None, device: str) -> TrainConfig:
        """What the runs of the block share."""
        outside = () if self.preset.detection else self.task.outside
        tests = {self.split_of(column): files.tests[column] for column in (self.task.key, *outside)}
        if self.scale.name == SMOKE:
            tests.setdefault(OUTSIDE, files.tests[OUTSIDE])
        return TrainConfig.from_dict(
            {
                **self.settings(),
                "train": files.train,
                "validation": files.validation,
                "test": [f"{split}={source}" for split, source in tests.items()],
                "model": self.model.model,
                "output": str(output),
                "bins": self.preset.bins,
                "closed": self.preset.closed,
                "threads": threads,
                "device": device,
            }
        )

    def options(self, arm: PresetArm) -> dict[str, Any]:
        """The options of an arm: its own, over them those of the task and of the model."""
        options = {**arm.options, **(self.model.taught if arm.is_taught else {})}
        if self.scale.name != SMOKE:  # there all tasks share the runs of an arm
            options |= self.task.arms.get(arm.key, {})
            options |= self.model.arms.get(self.task.key, {}).get(arm.key, {})
        return options

    def specification(self, arm: PresetArm) -> str:
        """An arm as `--methods` takes it."""
        options = self.options(arm)
        return ":".join([arm.method, *(f"{name}={show(value)}" for name, value in options.items())])

    def comparison(self, base: TrainConfig, store: Path, **settings: Any) -> CompareConfig:
        methods = tuple(self.specification(arm) for arm in self.arms)
        return CompareConfig(base=base, methods=methods, seeds=self.scale.seeds, store=store, **settings)

    def planned_names(self, config: CompareConfig, planned: list[Arm]) -> dict[str, str]:
        """The name that each arm of the preset has in the comparison: that of the same configuration."""
        names = {}
        for arm in self.arms:
            own = expand(config.base, [self.specification(arm)], {})[-1].config(config.base, 0)
            names[arm.key] = next(one.name for one in planned if one.config(config.base, 0) == own)
        return names


def blocks_of(preset: Preset, scale: Scale) -> list[Block]:
    """The blocks of a preset at a scale, each with the arms that its rows show."""
    blocks = []
    for key, paper_model in preset.models.items():
        if scale.models and key not in scale.models:
            continue
        model = scale.models.get(key, paper_model)
        shown = dict.fromkeys(row.arm for row in preset.rows if row.model == key)
        for name, paper_task in preset.tasks.items():
            if (scale.tasks and name not in scale.tasks) or (model.tasks and name not in model.tasks):
                continue
            task = scale.tasks.get(name, paper_task)
            wanted = [
                arm
                for arm in shown
                if (not scale.arms or arm in scale.arms) and (not task.only or arm in task.only)
            ]
            if wanted:
                arms = tuple(scale.stand_ins.get(arm, preset.arms[arm]) for arm in wanted)
                blocks.append(Block(preset, scale, model, task, arms))
    if not blocks:
        raise UserError(f"{preset.name} has nothing to run at {argument('scale', scale.name)}")
    return blocks


def is_tested(preset: Preset, claim: Claim, column: str, scale: str) -> bool:
    """Whether a scale runs both arms of a claim on a column."""
    if scale not in preset.scales:
        return False
    for block in blocks_of(preset, preset.scales[scale]):
        arms = {arm.key for arm in block.arms}
        if block.model.key == claim.model and column in preset.columns_of(block.task):
            return {claim.arm, claim.against} <= arms
    return False
