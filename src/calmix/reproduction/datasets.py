"""Where the rows of a task are read from, and the copies of them that a scale asks for.

A data set is a folder of the data directory, `DIR/<name>/{train,validation,test}.*` in calmix's format or the
authors' own files (`data.published`); without a data directory it comes from the hub. Caps on validation and
test rows, and columns that are not read, make a copy: a seeded sample, drawn once for the files as they are.
Where a data set has no validation rows, some of its training rows become them; where it has no test rows with
labels, half of its validation rows do, as in Desai & Durrett 2020.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pyarrow as pa
import yaml

from calmix.data.published.catalogue import PREFIX, published_datasets
from calmix.data.sources import find_split_file, read_source
from calmix.io.table import DataTable
from calmix.io.writing import write_table
from calmix.reproduction.preset import FULL, Scale, Task
from calmix.runtime.randomness import stream
from calmix.user_error import UserError, argument

DATASETS_FILE = Path(__file__).parent / "presets" / "datasets.yaml"
VALIDATION_FRACTION = 0.1


@dataclass(frozen=True)
class Dataset:
    """A data set by its name: what its rows are, and where it can be had."""

    name: str
    kind: str
    source: str


@dataclass(frozen=True)
class TaskFiles:
    """The sources of a task, as `calmix compare` takes them; tests by the column they fill."""

    train: str
    validation: str | None
    tests: dict[str, str]


@cache
def datasets() -> dict[str, Dataset]:
    """The data sets of the papers, and their substitutes."""
    content = yaml.safe_load(DATASETS_FILE.read_text(encoding="utf-8"))
    return {name: Dataset(name, **facts) for name, facts in content.items()}


def find_dataset(name: str) -> Dataset:
    """A name that nobody knows is a folder of a user's own."""
    return datasets().get(name) or Dataset(name, "single", "your own data")


def task_files(task: Task, scale: Scale, data: Path | None, copies: Path) -> TaskFiles:
    """The files of a task at a scale; copies go to the folder `copies`."""
    if data is None and scale.name != FULL:
        names = ", ".join([task.dataset, *task.outside.values()])
        raise UserError(
            f"no data: {argument('scale', scale.name)} reads {names} from a directory",
            remedy=f"give {argument('data_dir', 'DIR')} with one folder per data set",
        )
    splits = Splits(data, copies, task.without)
    train, validation = splits.train_and_validation(task.dataset, scale.validation_rows)
    tests = {task.key: splits.test(task.dataset, scale.test_rows)}
    tests |= {column: splits.test(name, scale.test_rows) for column, name in task.outside.items()}
    return TaskFiles(train, validation, tests)


@dataclass(frozen=True)
class Splits:
    """The splits of data sets as sources that `calmix compare` takes."""

    data: Path | None
    copies: Path
    without: tuple[str, ...]

    def test(self, name: str, rows: int | None) -> str:
        source = self.find(name, "test")
        if source is not None:
            return self.copy(source, name, "test", rows)
        if self.find(name, "validation") is None:
            raise self.missing(name, "test")
        return self.copy(str(self.halves(name)[1]), name, "half-test", rows)

    def train_and_validation(self, name: str, rows: int | None) -> tuple[str, str]:
        train, validation = self.find(name, "train"), self.find(name, "validation")
        if train is None:
            raise self.missing(name, "train")
        if validation is None:
            kept, held_out = self.cut(train, name, rows)
            return str(kept), str(held_out)
        if self.find(name, "test") is None:
            validation = str(self.halves(name)[0])
        return self.copy(train, name, "train", None), self.copy(validation, name, "validation", rows)

    def find(self, name: str, split: str) -> str | None:
        """A file in calmix's format, the authors' files in the same folder, or the hub."""
        record = published_datasets().get(name)
        if self.data is None:
            on_hub = record is not None and record.hub is not None and split in record.splits
            return f"{PREFIX}{name}/{split}" if on_hub else None
        folder = self.data / name
        if not folder.is_dir():
            return None
        file = find_split_file(folder, split)
        if file is not None:
            return str(file)
        if record is None:
            return None
        names = [*record.files.get(split, ()), *([record.folders[split]] if split in record.folders else [])]
        there = any((folder / one).exists() or (folder / f"{one}.gz").is_file() for one in names)
        return f"{PREFIX}{name}/{split}@{folder}" if there else None

    def missing(self, name: str, split: str) -> UserError:
        if self.data is None:
            return UserError(
                f"the data set {name} has no {split} rows on the hub",
                remedy=f"get it ({find_dataset(name).source}) and give {argument('data_dir', 'DIR')}",
            )
        return UserError(
            f"no {split} rows of the data set {name}",
            file=self.data / name / f"{split}.*",
            remedy=f"put a .jsonl, .csv, .parquet or .npz file there, or the authors' own files; "
            f"{where_to_get(name)}",
        )

    def target(self, name: str, part: str, rows: int | None) -> Path:
        """Another file for other data: a copy never outlives what it was made of."""
        of = "" if self.data is None else f"-{folder_state(self.data / name):08x}"
        ending = f"-{rows}" if rows else ""
        return (
            self.copies / f"{name}-{part}{ending}{''.join(f'-no_{one}' for one in self.without)}{of}.parquet"
        )

    def copy(self, source: str, name: str, part: str, rows: int | None) -> str:
        """The source itself where nothing is left out."""
        if rows is None and not self.without:
            return source
        target = self.target(name, part, rows)
        if not target.is_file():
            table = read_source(source, part)
            if not self.without and (rows is None or rows >= table.row_count):
                return source
            self.write(table, target, sample(table.row_count, rows, f"{name} {part}"))
        return str(target)

    def cut(self, train: str, name: str, rows: int | None) -> tuple[Path, Path]:
        """Training rows and validation rows out of the training rows."""
        kept, held_out = self.target(name, "rest", rows), self.target(name, "validation", rows)
        if not (kept.is_file() and held_out.is_file()):
            table = read_source(train, "train")
            wanted = min(rows or round(VALIDATION_FRACTION * table.row_count), table.row_count // 2)
            self.split(table, held_out, kept, wanted, f"{name} validation")
        return kept, held_out

    def halves(self, name: str) -> tuple[Path, Path]:
        """Validation and test rows out of the validation rows."""
        first, second = self.target(name, "half-validation", None), self.target(name, "half-test", None)
        if not (first.is_file() and second.is_file()):
            table = read_source(self.find(name, "validation") or "", "validation")
            self.split(table, first, second, table.row_count // 2, f"{name} halves")
        return first, second

    def split(self, table: DataTable, first: Path, second: Path, rows: int, purpose: str) -> None:
        chosen = sample(table.row_count, rows, purpose)
        self.write(table, first, chosen)
        self.write(table, second, sorted(set(range(table.row_count)) - set(chosen)))

    def write(self, table: DataTable, target: Path, places: list[int]) -> None:
        columns = {}
        for name in table.names:
            if name not in self.without:
                values = list(table.column(name, name))
                columns[name] = [values[place] for place in places]
        target.parent.mkdir(parents=True, exist_ok=True)
        write_table(target, pa.table(columns))


def folder_state(folder: Path) -> int:
    """The places, sizes and times of the files of a folder as one number, which changes with them."""
    files = sorted(file for file in folder.rglob("*") if file.is_file())
    facts = [(str(file.absolute()), file.stat().st_size, file.stat().st_mtime_ns) for file in files]
    return zlib.crc32(repr(facts).encode())


def where_to_get(name: str) -> str:
    record = published_datasets().get(name)
    source = find_dataset(name).source
    return source if record is None or record.hub is None else f"{source}; on the hub: {record.hub}"


def sample(count: int, rows: int | None, purpose: str) -> list[int]:
    """Positions of a sample without replacement, in the order of the file.

    >>> sample(3, None, "test"), len(sample(10, 4, "test"))
    ([0, 1, 2], 4)
    """
    if rows is None or rows >= count:
        return list(range(count))
    draws = stream(0, f"reproduction: {purpose}")
    return sorted(int(place) for place in draws.choice(count, rows, replace=False))
