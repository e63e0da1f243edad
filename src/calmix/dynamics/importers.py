"""Dynamics from wherever they were recorded: a run, our parquet, cartography's jsonl files, aum's csv."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from calmix.dynamics.cartography_files import EPOCH_FILE, epoch_files, read_cartography
from calmix.dynamics.datamap import DataMap
from calmix.dynamics.dynamics_file import read_dynamics_file, row_ids
from calmix.dynamics.training_dynamics import LARGEST, TrainingDynamics
from calmix.io.run_directory import RunDirectory
from calmix.io.tables import read_arrow
from calmix.user_error import UserError

Kind = Literal["run", "parquet", "cartography", "aum"]


@dataclass(frozen=True, eq=False)
class DynamicsSource:
    """What was read: the map always; the epochs behind it where the source has them (aum's csv has none)."""

    kind: Kind
    file: Path
    datamap: DataMap
    dynamics: TrainingDynamics | None


def read_data_map(source: str | Path) -> DataMap:
    """The data map of a run, our parquet, a folder of cartography's jsonl files or aum's csv."""
    return read_dynamics(source).datamap


def read_dynamics(source: str | Path) -> DynamicsSource:
    """Tell what `source` is and read it.

    * a run directory, or its `dynamics.parquet`;
    * a folder of `dynamics_epoch_*.jsonl` as allenai/cartography writes them (or its parent);
    * the `aum_values.csv` of the `aum` package.
    """
    path = Path(source)
    if path.is_dir():
        run = RunDirectory(path)
        run_file = run.dynamics_file
        if run_file.is_file():
            if run.is_finished:
                run.check_undamaged("dynamics.parquet")
            return _from_dynamics("run", run_file, read_dynamics_file(run_file))
        if epoch_files(path):
            return _from_dynamics("cartography", path, read_cartography(path))
        if RunDirectory(path).config_file.is_file():
            raise UserError("the run has no dynamics.parquet", file=path)
        raise UserError(
            "neither a run nor a folder with dynamics_epoch_*.jsonl files",
            file=path,
            remedy="give a run, a dynamics.parquet, a cartography folder or an aum_values.csv",
        )
    if not path.is_file():
        raise UserError("no such file or directory", file=path)
    if path.suffix == ".parquet":
        return _from_dynamics("parquet", path, read_dynamics_file(path))
    if path.suffix == ".csv":
        return DynamicsSource("aum", path, read_aum_values(path), None)
    if re.fullmatch(EPOCH_FILE, path.name):
        raise UserError("one epoch of cartography's dynamics", file=path, remedy="give the folder it is in")
    raise UserError(
        f"dynamics are not read from {path.suffix or 'a file without extension'}",
        file=path,
        remedy="give a run, a dynamics.parquet, a cartography folder or an aum_values.csv",
    )


def read_aum_values(path: str | Path) -> DataMap:
    """`aum_values.csv` (columns `sample_id`, `aum`): a map with nothing but the AUM."""
    table = read_arrow(path, text_columns=("sample_id", "aum"))
    for name in ("sample_id", "aum"):
        if name not in table.column_names:
            known = ", ".join(table.column_names)
            raise UserError(f"no column {name!r}", file=path, remedy=f"the columns are: {known}")
    ids = row_ids(table, path, "sample_id")
    texts = table["aum"].to_pylist()
    aum = np.array([_number(text) for text in texts])
    wrong = np.flatnonzero(~(np.abs(aum) <= LARGEST))
    if len(wrong):
        problem = f"{texts[wrong[0]]!r} is not a finite number of at most {LARGEST:g}"
        raise UserError(problem, file=path, row=int(wrong[0]) + 1, column="aum")
    unknown = np.full(len(ids), np.nan)
    nobody = np.full(len(ids), -1, dtype=np.int64)
    return DataMap(ids, nobody, unknown, unknown, unknown, unknown, aum, np.zeros(len(ids), dtype=np.int64))


def _number(text: str) -> float:
    try:
        # Python's own spelling 1_000 is in no file a number.
        return float(text) if "_" not in text else float("nan")
    except ValueError:
        return float("nan")


def _from_dynamics(kind: Kind, file: Path, dynamics: TrainingDynamics) -> DynamicsSource:
    if not len(dynamics):
        raise UserError("no rows", file=file)
    return DynamicsSource(kind, file, DataMap.from_dynamics(dynamics), dynamics)
