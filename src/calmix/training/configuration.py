"""Every option of `calmix train`, checked, and as it is saved with the run."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from calmix.data.augmentation import parse_steps
from calmix.data.columns import ColumnNames
from calmix.training.specification import parse_specification
from calmix.user_error import UserError

EDGES = ("right", "left")
ALL_ROWS = "all"
REGIONS = (ALL_ROWS, "easy", "ambiguous", "hard", "easy+ambiguous")
# What calmix itself decides: an own option sets it, or a promise rests on it.
OWNED = {
    "output_dir": "--output",
    "seed": "--seed",
    "num_train_epochs": "--epochs",
    "per_device_train_batch_size": "--batch-size",
    "learning_rate": "--learning-rate",
    "use_cpu": "--device",
    "method": "--method",
    "method_options": "--method-option",
    "dynamics": "--dynamics",
    "save_strategy": "--checkpoint-steps",
    "save_only_model": "--checkpoint-steps",
    "save_total_limit": "--checkpoint-steps",
    "load_best_model_at_end": "the choice by validation NLL",
    "metric_for_best_model": "the choice by validation NLL",
    "greater_is_better": "the choice by validation NLL",
    "dataloader_drop_last": "all rows",
    "optimizer": "--optimizer",
    "schedule": "--schedule",
}


@dataclass(frozen=True)
class TrainConfig:
    """What a run is made of. Two runs of equal configuration and data are equal to the bit on one device."""

    train: str
    output: str
    validation: str | None = None
    test: tuple[str, ...] = ()
    model: str = "default"
    method: str = "plain"
    method_options: dict[str, Any] = field(default_factory=dict)
    label_smoothing: float = 0.0
    seed: int = 0
    epochs: int = 3
    batch_size: int = 16
    learning_rate: float = 2e-5
    max_length: int = 256
    train_rows: int | None = None
    """Train on a stratified sample of this many rows, drawn anew for every seed."""
    train_region: str = ALL_ROWS
    """Train on a region of the data map of a plain run that comes first."""
    aum_filter: bool = False
    """Leave out the rows of the region whose labels are doubtful by their area under the margin."""
    aum_percentile: float = 0.8
    freeze_embeddings: bool = False
    dynamics: str = "training"
    text_column: str | None = None
    pair_column: str | None = None
    choices_column: str | None = None
    label_column: str | None = None
    id_column: str | None = None
    image_column: str | None = None
    augment: str | None = None
    """What training does to its images: `crop`, `flip` and `rotation`, separated by commas."""
    optimizer: str | None = None
    """NAME:OPTION=VALUE, in place of the Trainer's own: see `training.optimization`."""
    schedule: str | None = None
    """NAME:OPTION=VALUE, in place of a rate that decays to 0 in a line."""
    bins: int = 15
    edges: str = "right"
    device: str = "auto"
    threads: int | None = None
    checkpoint_steps: int | None = None
    checkpoint_minutes: float = 5.0
    trainer: dict[str, Any] = field(default_factory=dict)
    """Any further field of `transformers.TrainingArguments`."""
    model_options: dict[str, Any] = field(default_factory=dict)
    """Options of a built-in network."""

    def __post_init__(self) -> None:
        _at_least("--epochs", self.epochs, 1)
        _at_least("--batch-size", self.batch_size, 1)
        _at_least("--max-length", self.max_length, 4)
        _at_least("--bins", self.bins, 1)
        if self.train_rows is not None:
            _at_least("--train-rows", self.train_rows, 2)
        _at_least("--seed", self.seed, 0)
        if self.train_region not in REGIONS:
            raise UserError(
                f"--train-region is {self.train_region!r}", remedy=f"choose one of {', '.join(REGIONS)}"
            )
        if self.aum_filter and self.train_region == ALL_ROWS:
            raise UserError("--aum-filter filters a region", remedy="give --train-region easy or ambiguous")
        if not 0 < self.aum_percentile <= 1:
            raise UserError(f"--aum-percentile is {self.aum_percentile}", remedy="give a share such as 0.8")
        if not 0 < self.learning_rate < 10:
            raise UserError(f"--learning-rate is {self.learning_rate}", remedy="give a number such as 2e-5")
        if self.threads is not None:
            _at_least("--threads", self.threads, 1)
        if self.checkpoint_steps is not None:
            _at_least("--checkpoint-steps", self.checkpoint_steps, 1)
        if self.edges not in EDGES:
            raise UserError(f"--edges is {self.edges!r}", remedy="choose right or left")
        if not isinstance(self.trainer, Mapping):
            raise UserError("'trainer' must be a table of transformers.TrainingArguments fields")
        for name in self.trainer:
            if name in OWNED:
                raise UserError(f"trainer: {name} is calmix's own", remedy=f"use {OWNED[name]}")
        if self.trainer.get("eval_strategy", "epoch") not in ("epoch", "steps"):
            raise UserError("trainer: without evaluation no epoch can be chosen", remedy="use epoch or steps")
        if not isinstance(self.model_options, Mapping):
            raise UserError("'model_options' must be a table of names and values")
        for option in ("optimizer", "schedule"):
            if getattr(self, option) is not None:
                parse_specification(getattr(self, option), f"--{option}")
        parse_steps(self.augment)
        self.columns()

    def columns(self) -> ColumnNames:
        return ColumnNames.from_options(
            text=self.text_column,
            pair=self.pair_column,
            choices=self.choices_column,
            label=self.label_column,
            id=self.id_column,
            image=self.image_column,
        )

    def network_settings(self) -> dict[str, Any]:
        """What decides how the network is made, beside its name and the rows."""
        return {
            "seed": self.seed,
            "max_length": self.max_length,
            "augment": self.augment,
            "options": self.model_options,
        }

    def options_of_method(self) -> dict[str, Any]:
        """The method's own options; label smoothing is one that every method has."""
        return {"label_smoothing": self.label_smoothing, **self.method_options}

    def as_dict(self) -> dict[str, Any]:
        """Plain values for `config.yaml`."""
        return {**dataclasses.asdict(self), "test": list(self.test)}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> TrainConfig:
        return cls(**{**values, "test": tuple(values.get("test") or ())})

    def differences(self, other: TrainConfig) -> list[str]:
        """Options that differ, but for those that cannot change a result."""
        harmless = {"output", "checkpoint_steps", "checkpoint_minutes"}
        ours, theirs = self.as_dict(), other.as_dict()
        return [name for name in ours if name not in harmless and ours[name] != theirs[name]]


def _at_least(option: str, value: int, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise UserError(f"{option} is {value}", remedy=f"give a whole number of at least {least}")
