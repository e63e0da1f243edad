"""Training dynamics as allenai/cartography writes them: a folder of `dynamics_epoch_N.jsonl`.

{"guid": 50325, "logits_epoch_0": [2.94, -2.28], "gold": 0}
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.json

from calmix.dynamics.recorder import DynamicsRecorder
from calmix.dynamics.training_dynamics import TrainingDynamics
from calmix.user_error import UserError


class Epoch(NamedTuple):
    guids: npt.NDArray[np.str_]  # [n]
    logits: npt.NDArray[np.float64]  # [n, C]
    gold: npt.NDArray[np.int64]  # [n]


def epoch_files(folder: str | Path) -> list[tuple[int, Path]]:
    """(N, file) of each `dynamics_epoch_N.jsonl` in `folder` or its `training_dynamics`, by epoch."""
    for place in (Path(folder), Path(folder) / "training_dynamics"):
        names = (re.fullmatch(r"dynamics_epoch_(\d+)\.jsonl", file.name) for file in place.glob("*.jsonl"))
        found = sorted((int(name[1]), place / name[0]) for name in names if name)
        if found:
            return found
    return []


def read_cartography(folder: str | Path) -> TrainingDynamics:
    """All epochs of a folder. A row missing from an epoch is unseen there; a repeated one is averaged."""
    files = epoch_files(folder)
    if not files:
        raise UserError("no dynamics_epoch_*.jsonl files", file=folder)
    epochs = [_read_epoch(file, number) for number, file in files]
    classes = epochs[0].logits.shape[1]
    every = np.concatenate([epoch.guids for epoch in epochs])
    first, at = np.unique(every, return_index=True)
    recorder = DynamicsRecorder(
        first[np.argsort(at, kind="stable")], epochs=len(epochs), num_classes=max(classes, 2)
    )
    for (_, file), epoch in zip(files, epochs, strict=True):
        if epoch.logits.shape[1] != classes:
            found = f"{epoch.logits.shape[1]} logits, {files[0][1].name} has {classes}"
            raise UserError(found, file=file)
        try:
            recorder.record(epoch.guids, epoch.logits, epoch.gold)
        except ValueError as error:
            raise UserError(str(error), file=file) from None
        recorder.next_epoch()
    return recorder.dynamics()


def _read_epoch(file: Path, number: int) -> Epoch:
    """By Arrow's reader; whatever it stumbles over is read line by line, to name the line or to accept it."""
    column = f"logits_epoch_{number}"
    try:
        table = pa.json.read_json(file)
        guids = table["guid"].combine_chunks()
        logits = table[column].combine_chunks()
        gold = table["gold"].combine_chunks()
        lengths = logits.value_lengths().to_numpy()
        values = logits.flatten()
        tidy = not (guids.null_count or logits.null_count or values.null_count or gold.null_count)
        if tidy and pa.types.is_integer(gold.type) and (lengths == lengths[0]).all() and lengths[0] >= 2:
            matrix = values.cast(pa.float64()).to_numpy().reshape(len(guids), -1)
            classes = gold.to_numpy().astype(np.int64)
            if classes.min() >= 0 and classes.max() < matrix.shape[1]:
                names: npt.NDArray[np.str_] = np.asarray(guids.cast(pa.string()).to_pylist(), dtype=np.str_)
                return Epoch(names, matrix, classes)
    except (pa.ArrowException, KeyError, AttributeError, IndexError):
        pass
    return _read_epoch_by_line(file, column)


def _read_epoch_by_line(file: Path, column: str) -> Epoch:
    guids: list[str] = []
    logits: list[list[float]] = []
    gold: list[int] = []
    with file.open(encoding="utf-8") as lines:
        for row, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            record = _record(line, file, row, ("guid", column, "gold"))
            values, label = record[column], record["gold"]
            numbers = isinstance(values, list) and all(type(value) in (int, float) for value in values)
            if not numbers or len(values) < 2 or not np.isfinite(values).all():
                raise UserError("not a list of at least two numbers", file=file, row=row, column=column)
            if logits and len(values) != len(logits[0]):
                problem = f"{len(values)} logits, the rows before have {len(logits[0])}"
                raise UserError(problem, file=file, row=row, column=column)
            if type(label) is not int or not 0 <= label < len(values):
                problem = f"{label!r} is not a class index in 0..{len(values) - 1}"
                raise UserError(problem, file=file, row=row, column="gold")
            guids.append(str(record["guid"]))
            logits.append(values)
            gold.append(label)
    if not guids:
        raise UserError("no rows", file=file)
    return Epoch(np.asarray(guids), np.asarray(logits, dtype=np.float64), np.asarray(gold, dtype=np.int64))


def _record(line: str, file: Path, row: int, fields: tuple[str, ...]) -> dict[str, Any]:
    try:
        record = json.loads(line)
    except ValueError as error:
        raise UserError(f"not JSON ({error})", file=file, row=row) from None
    if not isinstance(record, dict):
        raise UserError("not a JSON object", file=file, row=row)
    for field in fields:
        if record.get(field) is None:
            known = ", ".join(record)
            raise UserError(f"no field {field!r}", file=file, row=row, remedy=f"the fields are: {known}")
    return record
