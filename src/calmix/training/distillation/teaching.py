"""What comes before a student: its teachers, and their logits on the training rows.

    teacher (found, or trained first)  ->  its logits on all training rows, cached  ->  student

A teacher that a method names is trained on the same rows with the same settings, and handed in by whoever
keeps runs (`experiments.staged`). Regularisers of the teacher (label smoothing, temperature) touch it alone.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from calmix.calibration.predictions import Predictions
from calmix.data.checks import Finding, shared_with_training
from calmix.data.columns import ColumnNames
from calmix.data.images.augmentation import parse_steps
from calmix.data.reading import read_rows
from calmix.data.rows import Rows
from calmix.data.splits import Splits
from calmix.io.run_directory import RunDirectory
from calmix.mixing.method import method_classes
from calmix.models.built_in import CHECKPOINT_OPTIONS
from calmix.runtime.lock import locked
from calmix.training.configuration import TrainConfig
from calmix.training.distillation.teacher_logits import TeacherLogits, are_kept, cached_teacher_logits
from calmix.training.distillation.teachers import CheckpointTeacher, Teacher, open_teacher
from calmix.training.model_settings import settings_for
from calmix.user_error import UserError, argument

KEY_LENGTH = 20
OF_A_TEACHER_TO_TRAIN = (
    "teacher_label_smoothing", "teacher_model", "teacher_options", "teacher_learning_rate", "teacher_epochs",
)  # fmt: skip


def is_method(name: str) -> bool:
    """Whether a teacher is named by the method to train it with; a directory of that name is ./NAME."""
    return name in method_classes()


def teacher_config(config: TrainConfig, method: str) -> TrainConfig:
    """The run of a teacher that is trained first: the student's data, seed and settings, its own method."""
    model = config.teacher_model or config.model
    if settings_for(model) != settings_for(config.model):
        raise UserError(
            f"{argument('teacher_model', model)} is not trained by the settings that suit a student of model "
            f"{config.model}",
            remedy=f"train it with calmix train, then give {argument('teacher', 'RUN')}",
        )
    options = {name: value for name, value in config.teacher_options.items() if name in options_of(method)}
    return dataclasses.replace(
        config.without_teacher(),
        method=method,
        method_options=options,
        label_smoothing=config.teacher_label_smoothing,
        model=model,
        learning_rate=config.teacher_learning_rate or config.learning_rate,
        epochs=config.teacher_epochs or config.epochs,
        model_options={
            name: value
            for name, value in config.model_options.items()
            if model == config.model or name in CHECKPOINT_OPTIONS
        },
        student_layers=None,
        calibrator=TrainConfig.calibrator,
        plain_run=None,  # the student's own: a teacher may be another network
    )


def options_of(method: str) -> set[str]:
    return {option.name for option in dataclasses.fields(method_classes()[method])}


def open_teachers(config: TrainConfig) -> dict[str, Teacher]:
    """The teachers that are there already, by name; those that methods name are not."""
    places = [name for name in config.teacher if not is_method(name)]
    if len(places) == len(config.teacher):
        for option in OF_A_TEACHER_TO_TRAIN:
            if getattr(config, option):
                raise UserError(
                    f"{argument(option)}: the teacher is trained already",
                    remedy="name the method to train it with, such as "
                    f"{argument('teacher', 'plain')}, or leave it out",
                )
    known = set[str]().union(*(options_of(name) for name in config.teacher if is_method(name)))
    for option in config.teacher_options:
        if option not in known:
            raise UserError(
                f"{argument('teacher_options')}: no such option {option!r}",
                remedy=f"there are: {', '.join(sorted(known))}",
            )
    settings = {
        "keeps_temperature": config.teacher_temperature,
        "trust_remote_code": config.trust_remote_code,
    }
    return {name: open_teacher(name, **settings) for name in places}


def read_unlabelled(source: str, columns: ColumnNames, train: Rows | None = None) -> Rows:
    """The rows without labels; with `train`, of the same task as these."""
    names = train.label_names if train is not None else None
    task = train.task if train is not None else None
    return read_rows(source, "unlabelled", columns, names, labelled=False, task=task)


@dataclass(frozen=True)
class Teaching:
    """The teachers of a run, and all rows that they are asked about."""

    config: TrainConfig
    teachers: tuple[Teacher, ...]
    train: Rows
    unlabelled: Rows | None

    @classmethod
    def prepare(cls, config: TrainConfig, train: Rows, teachers: Sequence[Teacher] | None) -> Teaching:
        """The teachers with their weights, and all rows read."""
        if teachers is None:
            opened = open_teachers(config)
            missing = [name for name in config.teacher if name not in opened]
            if missing:
                raise UserError(f"the teacher {missing[0]!r} is not trained yet", remedy="give teachers")
            teachers = [opened[name] for name in config.teacher]
        teaching = cls.checked(config, train, teachers)
        for number, teacher in enumerate(teachers, start=1):
            is_known = are_kept(teaching.place(number, RunDirectory(Path(config.output))))
            if isinstance(teacher, CheckpointTeacher) and not is_known:
                teacher.get_ready()
        return teaching

    @classmethod
    def checked(cls, config: TrainConfig, train: Rows, teachers: Sequence[Teacher]) -> Teaching:
        """Everything that can be wrong with the teachers and the unlabelled rows is found here."""
        if config.unlabelled and train.task == "image":
            raise UserError(
                f"{argument('unlabelled')} is for texts, and the rows are images", remedy="leave it out"
            )
        unlabelled = (
            read_unlabelled(config.unlabelled, config.columns(), train) if config.unlabelled else None
        )
        teaching = cls(config, tuple(teachers), train, unlabelled)
        rows = teaching.rows
        repeated = len(rows) - len(set(rows.row_ids.tolist()))
        if repeated:
            raise UserError(
                f"{repeated} row ids are both in the training set and in the unlabelled rows",
                file=config.unlabelled,
                remedy="give them ids of their own",
            )
        for teacher in teachers:
            teacher.check(rows)
        return teaching

    def fingerprints(self) -> dict[str, str]:
        """What must be the same when a run goes on, by names that no split can have."""
        found = {f"teacher {number}": one.identity for number, one in enumerate(self.teachers, start=1)}
        if self.unlabelled is not None:
            found["unlabelled rows"] = self.unlabelled.fingerprint()
        return found

    @property
    def rows(self) -> Rows:
        """The training rows and behind them the unlabelled ones, all without labels."""
        inputs = self.train.without_labels()
        if self.unlabelled is None:
            return inputs
        table = pa.concat_tables([inputs.table, self.unlabelled.table]).combine_chunks()
        return dataclasses.replace(inputs, table=table)

    def place(self, number: int, run: RunDirectory) -> Path:
        """Where the logits of a teacher are cached: with it, if it is a first stage of many, else with the
        run."""
        kept_in = self.teachers[number - 1].kept_in
        if kept_in is None:
            return run.teaching / f"teacher-{number}.json"
        return kept_in / f"{self.rows.fingerprint()[:KEY_LENGTH]}.json"

    def logits(self, run: RunDirectory) -> TeacherLogits:
        """What the teachers say about all rows, found or computed."""
        rows = self.rows
        settings: dict[str, Any] = {"device": self.config.device, "threads": self.config.threads}
        members = []
        for number, teacher in enumerate(self.teachers, start=1):
            place = self.place(number, run)
            # Students of a comparison may start at once: one computes the logits, the others find them.
            shared = teacher.kept_in is not None
            with locked(place.with_suffix(".lock")) if shared else nullcontext():
                members.append(cached_teacher_logits(teacher, rows, place, **settings))
        keeps = self.config.teacher_temperature
        return TeacherLogits.of_arrays(members, [1.0 if keeps else one.temperature for one in self.teachers])

    def findings(self, splits: Splits) -> list[Finding]:
        """Where a teacher's logits are of other images than the student's, or about rows of the other
        splits."""
        return [*self._answers_to_other_images(), *self._shared_with_unlabelled(splits)]

    def _answers_to_other_images(self) -> list[Finding]:
        # SPEC 4.5: a teacher is asked once, about every image as it is, and the student is not augmented.
        if not parse_steps(self.config.augment):
            return []
        message = (
            f"--augment {self.config.augment} changes what the student sees, and the teacher's logits are "
            "about the images as they are"
        )
        return [Finding("warning", "train", message, len(self.train))]

    def _shared_with_unlabelled(self, splits: Splits) -> list[Finding]:
        """Rows of the other splits whose text a teacher has explained to the student."""
        if self.unlabelled is None:
            return []
        others = {"validation": splits.validation, **splits.tests}
        return [
            dataclasses.replace(found, message=found.message.replace("in training", "in the unlabelled rows"))
            for name, rows in others.items()
            for found in shared_with_training(self.unlabelled, rows, name)
        ]

    def facts(self, logits: TeacherLogits) -> dict[str, Any]:
        """For `metrics.json`: who taught, how, and how right the teachers are on the training labels."""
        labels = self.train.labels
        answers = Predictions.from_logits(logits.of(np.arange(len(labels))), labels)
        soft = answers.with_rows(targets=self.train.soft_labels).soft_targets()
        agreement = soft[np.arange(len(labels)), answers.predicted()]
        return {
            "teachers": [{"name": one.name, "temperature": one.temperature} for one in self.teachers],
            "teacher_temperature": self.config.teacher_temperature,
            "distill_temperature": self.config.distill_temperature,
            "label_weight": self.config.label_weight,
            "unlabelled": 0 if self.unlabelled is None else len(self.unlabelled),
            "teacher_train_accuracy": float(agreement.mean()),
            "teacher_train_confidence": float(answers.confidence().mean()),
        }
