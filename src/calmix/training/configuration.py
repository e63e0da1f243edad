"""Every option of `calmix train`, checked, and as it is saved with the run."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from calmix.data.augmentation import parse_steps
from calmix.data.columns import ColumnNames
from calmix.runtime.option_values import DYNAMICS, check_choice, check_device_name
from calmix.training.optimizer_options import parse_optimizer, read_schedule
from calmix.user_error import UserError, check_least

CLOSED = ("right", "left")
ALL_ROWS = "all"
NO_TEACHER = "none"
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
    "distill_temperature": "--distill-temperature",
    "label_weight": "--label-weight",
}
# Fields of the Trainer that are not looked at where these options stand.
REPLACED = {
    "optimizer": ("optim", "optim_args", "weight_decay", "adam_beta1", "adam_beta2", "adam_epsilon"),
    "schedule": ("lr_scheduler_type", "lr_scheduler_kwargs", "warmup_steps", "warmup_ratio"),
}
# Mean nothing without a teacher; left out of what is saved where there is none.
DISTILLATION = (
    "teacher", "distill_temperature", "label_weight", "teacher_temperature", "teacher_label_smoothing",
    "teacher_model", "teacher_options", "teacher_learning_rate", "teacher_epochs", "unlabelled",
)  # fmt: skip

# Settings of which a teacher that is trained first may have its own.
TEACHERS_OWN = {"learning_rate": "teacher_learning_rate", "epochs": "teacher_epochs"}


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
    epochs: int | None = None
    """None here and in `learning_rate`: chosen by model and rows before training (`default_settings`)."""
    batch_size: int = 16
    learning_rate: float | None = None
    max_length: int = 256
    train_rows: int | None = None
    """Train on a stratified sample of this many rows, drawn anew for every seed."""
    train_region: str = ALL_ROWS
    """Train on a region of the data map of a plain run that comes first."""
    aum_filter: bool = False
    """Leave out the rows of the region whose labels are doubtful by their area under the margin."""
    aum_quantile: float = 0.8
    plain_run: str | None = None
    """The plain run whose data map is used; left out, one with the same settings is found or made."""
    student_layers: int | None = None
    """Train the checkpoint cut to this many layers."""
    teacher: tuple[str, ...] = ()
    """Runs, checkpoints, predictions files, or methods by which a teacher is trained first."""
    distill_temperature: float = 1.0
    """Temperature of teacher and student in the distillation loss."""
    label_weight: float = 0.5
    """α, the weight of the method's own loss; that of the teacher is 1 − α."""
    teacher_temperature: bool = True
    """The teacher's calibrated answers; off, those before its temperature was fitted."""
    teacher_label_smoothing: float = 0.0
    """Of a teacher that is trained first, as are its model and the options of its method."""
    teacher_model: str | None = None
    teacher_options: dict[str, Any] = field(default_factory=dict)
    teacher_learning_rate: float | None = None
    """Left out, as of the student; where nobody gave that either, as suits the teacher. So are its epochs."""
    teacher_epochs: int | None = None
    unlabelled: str | None = None
    """Rows without labels, learned from the teacher alone."""
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
    closed: str = "right"
    device: str = "auto"
    threads: int | None = None
    checkpoint_steps: int | None = None
    checkpoint_minutes: float = 5.0
    trainer: dict[str, Any] = field(default_factory=dict)
    """Any further field of `transformers.TrainingArguments`."""
    model_options: dict[str, Any] = field(default_factory=dict)
    """Options of a built-in network."""
    trust_remote_code: bool = False
    """Run the Python files of a checkpoint that brings its own. Never saved: every call gives it anew."""

    def __post_init__(self) -> None:
        teacher = self.teacher or ()
        named = (teacher,) if isinstance(teacher, str) else tuple(str(name) for name in teacher)
        object.__setattr__(self, "teacher", () if named == (NO_TEACHER,) else named)
        self._check_distillation()
        if self.epochs is not None:
            check_least("--epochs", self.epochs, 1)
        check_least("--batch-size", self.batch_size, 1)
        check_least("--max-length", self.max_length, 4)
        check_least("--bins", self.bins, 1)
        if self.train_rows is not None:
            check_least("--train-rows", self.train_rows, 2)
        check_least("--seed", self.seed, 0)
        if self.train_region not in REGIONS:
            raise UserError(
                f"--train-region is {self.train_region!r}", remedy=f"choose one of {', '.join(REGIONS)}"
            )
        if self.aum_filter and self.train_region == ALL_ROWS:
            raise UserError("--aum-filter filters a region", remedy="give --train-region easy or ambiguous")
        if not 0 < self.aum_quantile <= 1:
            raise UserError(f"--aum-quantile is {self.aum_quantile}", remedy="give a share such as 0.8")
        check_rate("--learning-rate", self.learning_rate)
        if not 0 <= self.label_smoothing < 1:
            raise UserError(f"label smoothing must be in [0, 1), not {self.label_smoothing}")
        check_device_name(self.device)
        check_choice("--dynamics", self.dynamics, DYNAMICS)
        if self.threads is not None:
            check_least("--threads", self.threads, 1)
        if self.checkpoint_steps is not None:
            check_least("--checkpoint-steps", self.checkpoint_steps, 1)
        if self.closed not in CLOSED:
            raise UserError(f"--closed is {self.closed!r}", remedy="choose right or left")
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
            given = getattr(self, option)
            if given is None:
                continue
            parse_optimizer(given) if option == "optimizer" else read_schedule(given)
            for name in REPLACED[option]:
                if name in self.trainer:
                    raise UserError(
                        f"trainer: {name} has no effect beside --{option} {given}",
                        remedy=f"say it with --{option} NAME:OPTION=VALUE",
                    )
        parse_steps(self.augment)
        self.columns()

    def _check_distillation(self) -> None:
        check_distillation(self.distill_temperature, self.label_weight)
        if self.student_layers is not None:
            check_least("--student-layers", self.student_layers, 1)
        if not 0 <= self.teacher_label_smoothing < 1:
            raise UserError(
                f"--teacher-label-smoothing is {self.teacher_label_smoothing}", remedy="give 0.1 or so"
            )
        check_rate("--teacher-learning-rate", self.teacher_learning_rate)
        if self.teacher_epochs is not None:
            check_least("--teacher-epochs", self.teacher_epochs, 1)
        if self.unlabelled and self.label_weight == 1:
            raise UserError(
                "--unlabelled rows are learned from the teacher, and --label-weight 1 leaves it out",
                remedy="give a --label-weight below 1",
            )
        changed = [name for name in DISTILLATION if getattr(self, name) != DEFAULTS[name]]
        if changed and not self.teacher:
            option = "--" + changed[0].replace("_", "-")
            raise UserError(f"{option} without a teacher", remedy="give --teacher")

    def without_teacher(self) -> TrainConfig:
        """The same run, taught by nobody."""
        return dataclasses.replace(self, **{name: DEFAULTS[name] for name in DISTILLATION})

    @property
    def is_settled(self) -> bool:
        """Whether learning rate and epochs are there; else they are chosen by model and rows."""
        return self.learning_rate is not None and self.epochs is not None

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
            "trust_remote_code": self.trust_remote_code,
        }

    def options_of_method(self) -> dict[str, Any]:
        """The method's own options; label smoothing is one that every method has."""
        return {"label_smoothing": self.label_smoothing, **self.method_options}

    def as_dict(self) -> dict[str, Any]:
        """Plain values for `config.yaml`."""
        values = {**dataclasses.asdict(self), "test": list(self.test), "teacher": list(self.teacher)}
        absent = {"trust_remote_code"} | (set() if self.teacher else set(DISTILLATION))
        # Came later: what does not use them is saved as it always was.
        later = ("student_layers", "plain_run", "teacher_learning_rate", "teacher_epochs")
        absent |= {name for name in later if getattr(self, name) is None}
        return {name: value for name, value in values.items() if name not in absent}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any], *, trust_remote_code: bool = False) -> TrainConfig:
        """`values` may come from the file of a run that somebody else has made: trust is not read from it."""
        own = {"test": tuple(values.get("test") or ()), "trust_remote_code": trust_remote_code}
        return cls(**{**values, **own})

    def differences(self, other: TrainConfig) -> list[str]:
        """Options that differ, but for those that cannot change a result."""
        harmless = {"output", "checkpoint_steps", "checkpoint_minutes"}
        ours, theirs = self.as_dict(), other.as_dict()
        names = dict.fromkeys([*ours, *theirs])
        return [name for name in names if name not in harmless and ours.get(name) != theirs.get(name)]


DEFAULTS: dict[str, Any] = {
    option.name: option.default if option.default is not dataclasses.MISSING else {}
    for option in dataclasses.fields(TrainConfig)
}


def check_rate(option: str, rate: float | None) -> None:
    if rate is not None and not 0 < rate < 10:
        raise UserError(f"{option} is {rate}", remedy="give a number such as 2e-4")


def check_distillation(distill_temperature: float, label_weight: float) -> None:
    if not (math.isfinite(distill_temperature) and distill_temperature > 0):
        raise UserError(
            f"--distill-temperature is {distill_temperature}", remedy="give a number above 0, such as 2"
        )
    if not 0 <= label_weight <= 1:
        raise UserError(f"--label-weight is {label_weight}", remedy="give a number from 0 to 1")
