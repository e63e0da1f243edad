"""Teachers: a run, any checkpoint of transformers, or a file of predictions.

A teacher reads the texts of the rows, so its tokenizer and architecture are its own affair. Its classes are
matched to those of the training data by name, never by guess.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, partial
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from calmix.calibration.class_names import DifferentClasses, class_order
from calmix.calibration.files.prediction_files import read_answers
from calmix.calibration.predictions import Predictions
from calmix.data.rows import Rows
from calmix.inference.prediction import predict_with_checkpoint
from calmix.io.records import read_json_record
from calmix.io.run_directory import RunDirectory
from calmix.models.folding import CONFIG_KEY
from calmix.models.loading import checkpoint_fingerprint, trained_labels
from calmix.user_error import UserError, argument


@dataclass(frozen=True)
class Teacher(ABC):
    """A source of logits for every row."""

    name: str
    """As the user wrote it."""
    identity: str
    """A hash of what its logits come from."""
    temperature: float
    """Folded into its logits: their product are the logits before calibration. 1 if none is."""

    @property
    def kept_in(self) -> Path | None:
        """Where its logits are cached; None: with the run of the student."""
        return None

    @abstractmethod
    def check(self, rows: Rows) -> None:
        """Refuse to teach rows that it cannot, before anything is written."""

    @abstractmethod
    def answers(self, rows: Rows, *, device: str = "auto", threads: int | None = None) -> NDArray[np.float32]:
        """Logits [rows, classes], the classes in the order of `rows.label_names`."""


@dataclass(frozen=True)
class CheckpointTeacher(Teacher):
    """A saved classifier, asked in evaluation mode."""

    directory: Path
    label_names: tuple[str, ...] | None
    """In the order of its logits; None for multiple choice, whose classes have no names."""
    stage: RunDirectory | None = None
    """Where it is the first stage of others: its run, which caches its logits for all of them."""
    restore: Callable[[], object] | None = None
    """Trains the checkpoint again where it was deleted."""
    trust_remote_code: bool = False

    @property
    def kept_in(self) -> Path | None:
        return None if self.stage is None else self.stage.teaching

    def get_ready(self) -> None:
        """Has its weights back; to be called before `logits`, while no other training is under way."""
        if self.restore is not None and not self.directory.is_dir():
            self.restore()

    def check(self, rows: Rows) -> None:
        if (self.label_names is None) != (rows.task == "choice"):
            wanted = "multiple choice" if rows.task == "choice" else "classification"
            raise UserError(f"this teacher was not trained for {wanted}", file=self.name)
        if self.label_names is not None:
            taught_order(self.label_names, rows.label_names, self.name)

    def answers(self, rows: Rows, *, device: str = "auto", threads: int | None = None) -> NDArray[np.float32]:
        self.check(rows)
        # Whatever is drawn while a network is loaded must not change what the student draws.
        with torch.random.fork_rng():
            logits = predict_with_checkpoint(
                self.directory,
                rows,
                device=device,
                threads=threads,
                trust_remote_code=self.trust_remote_code,
            )
        if self.label_names is None:
            return logits
        return logits[:, taught_order(self.label_names, rows.label_names, self.name)]


@dataclass(frozen=True)
class PredictionsTeacher(Teacher):
    """A file of predictions by anybody, its rows found by their ids."""

    file: Path

    @cached_property
    def read(self) -> Callable[[tuple[str, ...]], Predictions]:
        """Its logits on rows of the named classes; the file is read once."""
        return cache(partial(read_answers, self.file))

    def check(self, rows: Rows) -> None:
        self._find(rows)
        self._classes(rows)

    def answers(self, rows: Rows, *, device: str = "auto", threads: int | None = None) -> NDArray[np.float32]:
        found = self.read(rows.label_names).select(self._find(rows))
        # The logarithms of probabilities are logits.
        logits = found.values if found.kind == "logits" else found.log_probabilities()
        return np.asarray(logits[:, self._classes(rows)], dtype=np.float32)

    def _find(self, rows: Rows) -> NDArray[np.int64]:
        ids = self.read(rows.label_names).ids
        if ids is None:
            raise UserError(
                "no column 'row_id': a teacher's rows are found by their ids",
                file=self.file,
                remedy="write the ids of the training rows into it",
            )
        places: dict[str, int] = {}
        for place, row_id in enumerate(ids.tolist()):
            if places.setdefault(row_id, place) != place:
                raise UserError(
                    f"the row id {row_id!r} occurs twice, first in row {places[row_id] + 1}",
                    file=self.file,
                    row=place + 1,
                    column="row_id",
                    remedy="leave one of the two out",
                )
        wanted = rows.row_ids.tolist()
        missing = [row_id for row_id in wanted if row_id not in places]
        if missing:
            raise UserError(
                f"{len(missing)} of {len(wanted)} training rows are not in this file, for example "
                f"{missing[0]!r}",
                file=self.file,
                remedy=f"predict all of them; {argument('id_column')} names the rows alike in both files",
            )
        return np.array([places[row_id] for row_id in wanted], dtype=np.int64)

    def _classes(self, rows: Rows) -> NDArray[np.int64]:
        remedy = "name its columns by the classes: " + ", ".join(f"prob_{name}" for name in rows.label_names)
        return taught_order(self.read(rows.label_names).class_names, rows.label_names, str(self.file), remedy)


CHECKPOINT_REMEDY = "teach with one of the same classes; a checkpoint names them in config.json (id2label)"


def taught_order(
    theirs: Sequence[str], ours: Sequence[str], who: str, remedy: str = CHECKPOINT_REMEDY
) -> NDArray[np.int64]:
    """Where each of our classes stands among the teacher's.

    >>> taught_order(("positive", "negative"), ("negative", "positive"), "run").tolist()
    [1, 0]
    """
    try:
        return class_order(theirs, ours)
    except DifferentClasses:
        raise UserError(
            f"the teacher's labels are {', '.join(theirs)}, those of the training data {', '.join(ours)}",
            file=who,
            remedy=remedy,
        ) from None


def open_teacher(name: str, *, keeps_temperature: bool = True, trust_remote_code: bool = False) -> Teacher:
    """The teacher that a name or path means; `keeps_temperature` off asks for it as it was trained."""
    path = Path(name)
    if path.is_file():
        if not keeps_temperature:
            raise UserError(
                "a predictions file does not say which temperature its predictions carry: none can be undone",
                file=name,
                remedy=f"use {argument('teacher_temperature')}, and a file of the predictions to learn",
            )
        with path.open("rb") as opened:
            digest = hashlib.file_digest(opened, "sha256").hexdigest()
        return PredictionsTeacher(name, digest, 1.0, path)
    if not path.is_dir():
        raise UserError(
            "no such teacher",
            file=name,
            remedy="name a run, a checkpoint directory, a predictions file or a method to train it with",
        )
    directory = path
    if (path / "config.yaml").is_file():
        run = RunDirectory.open(path)
        run.check_single_label("distillation")
        directory = run.model
        if not directory.is_dir():
            raise UserError(
                "the model of this run was not kept",
                file=name,
                remedy=f"keep it with {argument('keep_models', 'all')}",
            )
    if directory != path:
        run.check_undamaged("model/", f"train it again; a model that you changed yourself is {directory}")
    labels = trained_labels(directory)
    facts = read_json_record(directory / "config.json").get(CONFIG_KEY) or {}
    if not keeps_temperature and facts.get("method", "temperature") != "temperature":
        raise UserError(
            f"{facts['method']} scaling is part of this checkpoint and cannot be taken out again",
            file=name,
            remedy=f"teach with {argument('teacher_temperature')}, or with the checkpoint it was made from",
        )
    temperature = float(facts.get("temperature", 1.0))
    identity = checkpoint_fingerprint(directory)
    return CheckpointTeacher(
        name, identity, temperature, directory, labels, trust_remote_code=trust_remote_code
    )


def stage_teacher(
    name: str,
    run: RunDirectory,
    fingerprint: str,
    restore: Callable[[], object],
    *,
    trust_remote_code: bool = False,
) -> CheckpointTeacher:
    """A run of a store, which may have lost its weights: all else about it is still known."""
    metrics = run.metrics()
    names = None if metrics["task"] == "choice" else tuple(metrics["label_names"])
    temperature = run.temperature()
    return CheckpointTeacher(
        name, f"run {fingerprint}", temperature, run.model, names, run, restore, trust_remote_code
    )
