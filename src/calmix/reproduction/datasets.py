"""Where the rows of a task are read from, and the copies of them that a scale asks for.

A data set is a folder of the data directory, `DIR/<name>/{train,validation,test}.*`, or a name on the hub.
Caps on validation and test rows, and columns that are not read, make a copy: a seeded sample, drawn once.
Where a data set has no validation file, rows of its training file become one.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pyarrow as pa
import yaml

from calmix.data.sources import find_split_file, read_source
from calmix.io.table import DataTable
from calmix.io.writing import write_table
from calmix.reproduction.preset import FULL, Scale, Task
from calmix.runtime.randomness import stream
from calmix.user_error import UserError

DATASETS_FILE = Path(__file__).parent / "presets" / "datasets.yaml"
VALIDATION_FRACTION = 0.1
KINDS = ("single", "pair", "choice", "image")


@dataclass(frozen=True)
class Dataset:
    """A data set by its name: what its rows are, and where it can be had."""

    name: str
    kind: str
    source: str
    hub: str | None = None


@dataclass(frozen=True)
class TaskFiles:
    """The sources of a task, as `calmix compare` takes them; tests by the column they fill."""

    train: str
    validation: str | None
    tests: dict[str, str]


@cache
def datasets() -> dict[str, Dataset]:
    """The data sets of the papers, and those that stand in for them."""
    content = yaml.safe_load(DATASETS_FILE.read_text(encoding="utf-8"))
    return {name: Dataset(name, **facts) for name, facts in content.items()}


def find_dataset(name: str) -> Dataset:
    """A name that nobody knows is a folder of a user's own."""
    return datasets().get(name) or Dataset(name, "single", "your own data")


def missing_files(task: Task, data: Path | None) -> list[str]:
    """The files of a task that the data directory does not have."""
    if data is None:
        return [task.dataset, *task.outside.values()]
    wanted = [
        (task.dataset, "train"),
        (task.dataset, "test"),
        *((name, "test") for name in task.outside.values()),
    ]
    return [f"{name}/{split}" for name, split in wanted if _file(data, name, split) is None]


def task_files(task: Task, scale: Scale, data: Path | None, copies: Path) -> TaskFiles:
    """The files of a task at a scale; copies go to the folder `copies`."""
    if data is None:
        return _hub_files(task, scale)
    train, test = (_must_have(data, task.dataset, split) for split in ("train", "test"))
    validation = _file(data, task.dataset, "validation")
    without = task.without
    tests = {task.key: _copy(test, copies, task.dataset, "test", scale.test_rows, without)}
    for column, name in task.outside.items():
        file = _must_have(data, name, "test")
        tests[column] = _copy(file, copies, name, "test", scale.test_rows, without)
    if validation is None:
        kept, held_out = _cut(train, copies, task.dataset, scale.validation_rows, without)
        return TaskFiles(str(kept), str(held_out), {key: str(file) for key, file in tests.items()})
    return TaskFiles(
        str(_copy(train, copies, task.dataset, "train", None, without)),
        str(_copy(validation, copies, task.dataset, "validation", scale.validation_rows, without)),
        {key: str(file) for key, file in tests.items()},
    )


def _hub_files(task: Task, scale: Scale) -> TaskFiles:
    names = {task.key: task.dataset, **task.outside}
    if scale.name != FULL:
        raise UserError(
            f"no data: --scale {scale.name} reads {', '.join(names.values())} from a directory",
            remedy="give --data-dir DIR with one folder per data set",
        )
    found = {}
    for column, name in names.items():
        hub = find_dataset(name).hub
        if hub is None:
            raise UserError(
                f"the data set {name} is not on the hub",
                remedy=f"get it ({_source(name)}) and give --data-dir DIR",
            )
        found[column] = hub
    return TaskFiles(found[task.key], None, found)


def _file(data: Path, name: str, split: str) -> Path | None:
    folder = data / name
    return find_split_file(folder, split) if folder.is_dir() else None


def _must_have(data: Path, name: str, split: str) -> Path:
    file = _file(data, name, split)
    if file is None:
        raise UserError(
            f"no {split} rows of the data set {name}",
            file=data / name / f"{split}.*",
            remedy=f"put a .jsonl, .csv, .parquet or .npz file there; {_source(name)}",
        )
    return file


def _source(name: str) -> str:
    dataset = find_dataset(name)
    return f"from the hub: {dataset.hub}" if dataset.hub else dataset.source


def _copy(
    file: Path, copies: Path, name: str, split: str, rows: int | None, without: tuple[str, ...]
) -> Path:
    """The file itself where nothing is left out."""
    if rows is None and not without:
        return file
    target = (
        copies / f"{name}-{split}{f'-{rows}' if rows else ''}{''.join(f'-no_{n}' for n in without)}.parquet"
    )
    if target.is_file():
        return target
    table = read_source(file, split)
    if not without and (rows is None or rows >= table.row_count):
        return file
    _write(table, target, _sample(table.row_count, rows, name, split), without)
    return target


def _cut(
    file: Path, copies: Path, name: str, rows: int | None, without: tuple[str, ...]
) -> tuple[Path, Path]:
    """Training rows and validation rows out of one file."""
    ending = "".join(f"-no_{one}" for one in without)
    kept, held_out = (
        copies / f"{name}-{part}-{rows or 'tenth'}{ending}.parquet" for part in ("rest", "validation")
    )
    if not (kept.is_file() and held_out.is_file()):
        table = read_source(file, "train")
        wanted = min(rows or round(VALIDATION_FRACTION * table.row_count), table.row_count // 2)
        chosen = _sample(table.row_count, wanted, name, "validation")
        _write(table, held_out, chosen, without)
        _write(table, kept, sorted(set(range(table.row_count)) - set(chosen)), without)
    return kept, held_out


def _sample(count: int, rows: int | None, name: str, split: str) -> list[int]:
    """Positions of a sample without replacement, in the order of the file."""
    if rows is None or rows >= count:
        return list(range(count))
    draws = stream(0, f"reproduction: {name} {split}")
    return sorted(int(place) for place in draws.choice(count, rows, replace=False))


def _write(table: DataTable, target: Path, places: list[int], without: tuple[str, ...]) -> None:
    columns = {}
    for name in table.names:
        if name not in without:
            values = list(table.column(name, name))
            columns[name] = [values[place] for place in places]
    target.parent.mkdir(parents=True, exist_ok=True)
    write_table(target, pa.table(columns))
