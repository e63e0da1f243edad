"""The run directory: what a run leaves on disk, and where.

RUN/config.yaml            the effective configuration
    model/                 a standard checkpoint, calibrator folded in; model/README.md the model card
    calibration.json       the fitted temperature, or another calibrator, and how it was found
    calibrator.json, calibrator.safetensors   a calibrator that is more than a temperature
    perturbed/             with `--calibrator perturbed`: a second model, for data of an unknown domain
    dynamics.parquet       the training dynamics of every row
    predictions/<split>.parquet   row id, label, logits (uncalibrated)
    metrics.json           every split, uncalibrated and calibrated; the sizes and hashes of the other files;
                           written last: it marks a finished run
    report.html
    data_checks.csv        the rows that the data checks found something about; there if they did
    guidance.json          of a guided run: the groups of rows, ties, some of the pairs that were mixed
    teaching/              of a student: what its teachers say about the training rows; of a teacher that was
                           trained as a first stage: its logits for its students
    tensorboard/           with `--report-to tensorboard`: its event files
    stages/plain/          of a guided run: dynamics, metrics and configuration of the plain run before it
    checkpoints/           only while the run is under way; `--resume` reads it; the lock of whoever writes
                           is in it, calmix.lock
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from calmix.io.manifest import find_damage
from calmix.io.record_shapes import CALIBRATION, CONFIG, METRICS, check_shape
from calmix.io.records import Record, read_json_record, read_yaml_record
from calmix.io.replacing import remove_leftovers as remove_leftovers
from calmix.io.replacing import replacing as replacing
from calmix.user_error import UserError, argument

CELLS_FILE = "cells.json"  # marks the directory of a comparison


# What names of splits and runs are made of: each becomes a part of a path.
NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")


def check_name(name: str, file: Path) -> None:
    """Refuse a name that would lead out of its directory; a run may have been made by somebody else.

    >>> check_name("books", Path("run/metrics.json"))
    >>> check_name("../../notes", Path("run/metrics.json"))
    Traceback (most recent call last):
    calmix.user_error.UserError: run/metrics.json: '../../notes' cannot be a name; use letters, digits, - _ .
    """
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise UserError(f"{name!r} cannot be a name", file=file, remedy="use letters, digits, - _ .")


def write_json(path: Path, content: Any) -> None:
    """JSON that other tools read: no NaN, keys in the order given."""
    with replacing(path) as fresh:
        text = json.dumps(content, indent=2, allow_nan=False, ensure_ascii=False)
        fresh.write_text(text + "\n", encoding="utf-8")


def write_yaml(path: Path, content: Any) -> None:
    with replacing(path) as fresh:
        fresh.write_text(yaml.safe_dump(content, sort_keys=False, allow_unicode=True), encoding="utf-8")


def is_comparison(directory: Path) -> bool:
    return (directory / CELLS_FILE).is_file()


@dataclass(frozen=True)
class RunDirectory:
    """A run directory; holds no state of its own."""

    path: Path

    @classmethod
    def open(cls, path: str | Path) -> RunDirectory:
        """A finished run, or a `UserError` that says what is there instead."""
        run = cls(Path(path))
        if not run.path.is_dir():
            raise UserError("no such run directory", file=run.path, remedy="make one with 'calmix train'")
        if not run.is_finished:
            if is_comparison(run.path):
                remedy = f"name one of its runs, in {run.path / 'runs'}"
                raise UserError("this is a comparison, not a run", file=run.path, remedy=remedy)
            if run.config_file.exists():
                remedy = f"continue it with 'calmix train --resume --output {run.path}'"
                raise UserError("the run is not finished", file=run.path, remedy=remedy)
            raise UserError(
                "not a run directory", file=run.path, remedy="name one that 'calmix train' has made"
            )
        return run

    @property
    def config_file(self) -> Path:
        return self.path / "config.yaml"

    @property
    def model(self) -> Path:
        return self.path / "model"

    @property
    def model_card_file(self) -> Path:
        return self.model / "README.md"

    @property
    def calibration_file(self) -> Path:
        return self.path / "calibration.json"

    @property
    def calibrator_file(self) -> Path:
        return self.path / "calibrator.json"

    @property
    def perturbed(self) -> Path:
        return self.path / "perturbed"

    @property
    def dynamics_file(self) -> Path:
        return self.path / "dynamics.parquet"

    @property
    def predictions_directory(self) -> Path:
        return self.path / "predictions"

    @property
    def metrics_file(self) -> Path:
        return self.path / "metrics.json"

    @property
    def report_file(self) -> Path:
        return self.path / "report.html"

    @property
    def data_checks_file(self) -> Path:
        return self.path / "data_checks.csv"

    @property
    def guidance_file(self) -> Path:
        return self.path / "guidance.json"

    @property
    def plain_stage(self) -> Path:
        return self.path / "stages" / "plain"

    @property
    def teaching(self) -> Path:
        return self.path / "teaching"

    @property
    def tensorboard(self) -> Path:
        return self.path / "tensorboard"

    @property
    def checkpoints(self) -> Path:
        return self.path / "checkpoints"

    @property
    def is_finished(self) -> bool:
        return self.metrics_file.is_file()

    def config(self) -> dict[str, Any]:
        return self._checked(read_yaml_record(self.config_file), CONFIG)

    def metrics(self) -> dict[str, Any]:
        return self._checked(read_json_record(self.metrics_file), METRICS)

    @property
    def is_multi_label(self) -> bool:
        """Whether the rows of a finished run have several labels, or none."""
        return bool(self.metrics().get("multi_label"))

    def check_single_label(self, what: str) -> None:
        """Refuse a run whose rows have several labels where `what` is for rows of one."""
        if self.is_multi_label:
            raise UserError(
                f"{what} is for rows of one label, and those of this run have several",
                file=self.path,
                remedy="evaluate, calibrate and predict take such runs",
            )

    def temperature(self) -> float:
        """The temperature in the saved model, for whoever takes it out again: nothing else may be in it."""
        self.check_single_label("one temperature")
        metrics = self.metrics()
        kind = metrics.get("calibrator", "temperature")
        if kind != "temperature":
            raise UserError(
                f"this needs a model with a temperature, and that of the run has {kind} scaling",
                file=self.path,
                remedy=f"train with {argument('calibrator', 'temperature')}",
            )
        return float(metrics["temperature"])

    def guidance(self) -> dict[str, Any]:
        return read_json_record(self.guidance_file)

    def calibration(self) -> dict[str, Any]:
        return self._checked(read_json_record(self.calibration_file), CALIBRATION)

    def _checked(self, record: Record, shape: dict[str, Any]) -> Record:
        check_shape(record, shape, Path(record.file))
        return record

    def damage(self, within: str = "") -> str | None:
        """The first file that is not as it was when the run was finished, of those that start with `within`.

        A model that was dropped is no damage; of runs that list no files nothing is known.
        """
        listed = self.metrics().get("files", {})
        if not self.model.is_dir():
            dropped = ("model/", "perturbed/model/")
            listed = {name: facts for name, facts in listed.items() if not name.startswith(dropped)}
        return find_damage(self.path, listed, within)

    def check_undamaged(self, within: str, remedy: str | None = None) -> None:
        """Refuse to build on files that have changed since the run was finished."""
        if remedy is None:
            remedy = "restore it, or train it again"
            if within:
                remedy += f"; what you changed yourself is named by its own path: {self.path / within}"
        # A report may be written before `metrics.json`, which lists the files.
        if self.is_finished and (problem := self.damage(within)) is not None:
            raise UserError(f"the run is damaged: {problem}", file=self.path, remedy=remedy)

    def predictions_file(self, split: str) -> Path:
        check_name(split, self.metrics_file)
        return self.predictions_directory / f"{split}.parquet"

    def stored_predictions(self, split: str) -> Path:
        """The predictions file of a split, undamaged; a `UserError` where there is none."""
        file = self.predictions_file(split)
        self.check_undamaged(f"predictions/{split}.parquet")
        if not file.is_file():
            known = ", ".join(self.splits()) or "none"
            raise UserError(f"no split {split!r} in this run", file=self.path, remedy=f"it has: {known}")
        return file

    def splits(self) -> list[str]:
        """The splits of `metrics.json`, in its order: validation, test, then the named ones."""
        names = list(self.metrics()["splits"])
        for name in names:
            check_name(name, self.metrics_file)
        return names
