"""Training dynamics as allenai/cartography writes them: a folder of `dynamics_epoch_N.jsonl`.

{"guid": 50325, "logits_epoch_0": [2.94, -2.28], "gold": 0}
"""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from calmix.dynamics.recorder import DynamicsRecorder
from calmix.dynamics.training_dynamics import LARGEST, TrainingDynamics
from calmix.io.json_records import Record, json_line_records
from calmix.io.opening import open_bytes
from calmix.user_error import UserError

BATCH_ROWS = 1 << 14
EPOCH_FILE = r"dynamics_epoch_([0-9]+)\.jsonl"


class Epoch(NamedTuple):
    guids: npt.NDArray[np.str_]  # [n]
    logits: npt.NDArray[np.float64]  # [n, C]
    gold: npt.NDArray[np.int64]  # [n]


def epoch_files(folder: str | Path) -> list[tuple[int, Path]]:
    """(N, file) of each `dynamics_epoch_N.jsonl` in `folder` or its `training_dynamics`, by epoch."""
    for place in (Path(folder), Path(folder) / "training_dynamics"):
        names = (re.fullmatch(EPOCH_FILE, file.name) for file in place.glob("*.jsonl"))
        found = sorted((int(name[1]), place / name[0]) for name in names if name)
        for (number, first), (other, second) in pairwise(found):
            if number == other:
                problem = f"two files of epoch {number}: {first.name}, {second.name}"
                raise UserError(problem, file=place, remedy="remove one of them")
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
    column = f"logits_epoch_{number}"
    guids: list[str] = []
    logits: list[npt.NDArray[np.float64]] = []
    gold: list[int] = []
    with open_bytes(file) as stream:
        for records in json_line_records(stream, str(file), BATCH_ROWS):
            classes = logits[0].shape[1] if logits else None
            matrix = _matrix(records, column, classes)
            if matrix is None:
                _check(records, file, len(guids), column, classes)
                # Nothing is wrong: some are integers that only a float can hold.
                matrix = np.array([record[column] for record in records], dtype=np.float64)
            logits.append(matrix)
            guids += [str(record["guid"]) for record in records]
            gold += [record["gold"] for record in records]
    if not guids:
        raise UserError("no rows", file=file)
    return Epoch(np.asarray(guids), np.concatenate(logits), np.asarray(gold, dtype=np.int64))


def _matrix(records: list[Record], column: str, classes: int | None) -> npt.NDArray[np.float64] | None:
    """The logits of rows in which nothing is wrong; None if something is."""
    try:
        logits = np.array([record[column] for record in records])
        gold = [record["gold"] for record in records]
        named = all(_is_guid(record["guid"]) for record in records)
    except (KeyError, ValueError, OverflowError):
        return None
    if not named or logits.ndim != 2 or logits.dtype.kind not in "iuf":
        return None
    if not (np.abs(logits.astype(np.float64)) <= LARGEST).all():
        return None
    width = logits.shape[1]
    in_range = all(type(label) is int and 0 <= label < width for label in gold)
    fits = width >= 2 and width == (classes or width)
    return logits.astype(np.float64) if in_range and fits else None


def _check(records: list[Record], file: Path, first_row: int, column: str, classes: int | None) -> None:
    """Say what is wrong with the first row of which something is."""
    for row, record in enumerate(records, start=first_row + 1):
        for field in ("guid", column, "gold"):
            if record.get(field) is None:
                known = ", ".join(record)
                raise UserError(f"no field {field!r}", file=file, row=row, remedy=f"the fields are: {known}")
        if not _is_guid(record["guid"]):
            problem = f"{record['guid']!r:.60} is no id"
            raise UserError(problem, file=file, row=row, column="guid", remedy="use texts or numbers")
        values, label = record[column], record["gold"]
        numbers = isinstance(values, list) and all(type(value) in (int, float) for value in values)
        # In Python: an integer may have thousands of digits.
        if not numbers or len(values) < 2 or not all(abs(value) <= LARGEST for value in values):
            problem = f"not a list of at least two numbers of at most {LARGEST:g}"
            raise UserError(problem, file=file, row=row, column=column)
        classes = classes or len(values)
        if len(values) != classes:
            problem = f"{len(values)} logits, the rows before have {classes}"
            raise UserError(problem, file=file, row=row, column=column)
        if type(label) is not int or not 0 <= label < len(values):
            problem = f"{label!r:.60} is not a class index in 0..{len(values) - 1}"
            raise UserError(problem, file=file, row=row, column="gold")


def _is_guid(value: object) -> bool:
    """A NUL at the end of a text would be lost in an array.

    >>> _is_guid(3), _is_guid("a"), _is_guid(None), _is_guid([3]), _is_guid("a\\0")
    (True, True, False, False, False)
    """
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number or (isinstance(value, str) and "\0" not in value)
