"""`dynamics.parquet`: one row per training row, its dynamics in every epoch, and where it lies on the map.

    row_id               string
    label                int64, the label it was trained with
    gold_probability     list<double>, one per epoch, null where unseen
    margin               list<double>
    predicted_correctly  list<bool>
    predicted_label      list<int32>
    confidence, variability, aum    double, null where the row was never seen
    correctness, forgetting         int64
    region               string, the partition: easy, ambiguous or hard
    easy, ambiguous, hard           bool, cartography's sets, which may overlap

The regions are null for unseen rows, and for all rows where no two epochs were recorded. Class names stand
in the schema's metadata under `calmix.class_names`. A data map file (`datamap.parquet`, `datamap.csv`)
has `predicted_label` (the class predicted most often) and `epochs_seen` instead of the lists.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet

from calmix.dynamics.datamap import DataMap
from calmix.dynamics.regions import REGION_NAMES
from calmix.dynamics.row_index import first_repeated
from calmix.dynamics.training_dynamics import LARGEST, TrainingDynamics
from calmix.io.arrow_values import text_array, texts_of
from calmix.io.parquet_files import CLASS_NAMES_KEY, stored_class_names
from calmix.io.parser_errors import refusing
from calmix.io.run_directory import replacing
from calmix.io.spreadsheet import spreadsheet_safe
from calmix.io.tables import read_arrow
from calmix.runtime.large_arrays import GrowingArray
from calmix.user_error import UserError

MAP_ONLY = ("predicted_label", "epochs_seen")  # the lists of `dynamics.parquet` say it for each epoch
# A table of counts per class is made: a label of 10¹² is a mistake, not a class.
MOST_CLASSES = 1_000_000
# Of probabilities in 16 or 32 bits.
ROUNDING = 1e-3
EPOCH_COLUMNS = ("gold_probability", "margin", "predicted_correctly")


def write_dynamics(path: str | Path, dynamics: TrainingDynamics) -> None:
    """Write `dynamics.parquet`, data map and regions included."""
    flat = datamap_table(DataMap.from_dynamics(dynamics))
    seen = dynamics.seen
    lists = {
        "gold_probability": _lists(dynamics.gold_probability, seen),
        "margin": _lists(dynamics.margin, seen),
        "predicted_correctly": _lists(dynamics.predicted_correctly, seen),
    }
    if dynamics.predicted_label is not None:
        lists["predicted_label"] = _lists(dynamics.predicted_label.astype(np.int32), seen)
    columns = {name: flat[name] for name in ("row_id", "label")} | lists
    columns |= {name: flat[name] for name in flat.column_names if name not in (*columns, *MAP_ONLY)}
    _write_parquet(path, pa.table(columns).replace_schema_metadata(flat.schema.metadata))


def id_column(ids: npt.NDArray[Any]) -> pa.Array:
    """Ids as texts, numbers too."""
    return pa.array(ids.astype(np.str_, copy=False), type=pa.string())


def datamap_table(datamap: DataMap, *, fraction: float = 1 / 3, stratify: bool = False) -> pa.Table:
    """The data map with its regions as one table, in the rows' order."""
    columns: dict[str, Any] = {
        "row_id": id_column(datamap.row_ids),
        "label": pa.array(datamap.labels, mask=datamap.labels < 0),
    }
    if datamap.predicted_label is not None:
        columns["predicted_label"] = pa.array(datamap.predicted_label, mask=datamap.predicted_label < 0)
    for name in ("confidence", "variability", "correctness", "forgetting", "aum"):
        values = getattr(datamap, name)
        unseen = np.isnan(values)
        if name in ("correctness", "forgetting"):
            values = np.where(unseen, 0, values).astype(np.int64)
        columns[name] = pa.array(values, mask=unseen)
    columns["epochs_seen"] = pa.array(datamap.epochs_seen)
    columns |= _region_columns(datamap, fraction, stratify)
    metadata = {CLASS_NAMES_KEY: json.dumps(list(datamap.class_names), ensure_ascii=False).encode()}
    return pa.table(columns).replace_schema_metadata(metadata)


def write_datamap(directory: str | Path, table: pa.Table) -> None:
    """Write `datamap.parquet` and `datamap.csv`."""
    _write_parquet(Path(directory) / "datamap.parquet", table)
    with replacing(Path(directory) / "datamap.csv") as fresh:
        pa.csv.write_csv(spreadsheet_safe(table), fresh)


def read_dynamics_file(path: str | Path) -> TrainingDynamics:
    """Read the epochs of `dynamics.parquet`; the map is computed from them again."""
    table = read_arrow(path)
    missing = [name for name in ("row_id", "label", *EPOCH_COLUMNS) if name not in table.column_names]
    if missing:
        known = ", ".join(table.column_names)
        raise UserError(f"no column {missing[0]!r}", file=path, remedy=f"the columns are: {known}")
    gold = _matrix(table, "gold_probability", path, "numbers")
    margin = _matrix(table, "margin", path, "numbers")
    if margin.shape != gold.shape or (np.isnan(margin) != np.isnan(gold)).any():
        raise UserError("gold_probability and margin differ in their epochs", file=path)
    outside = np.flatnonzero(((gold < -ROUNDING) | (gold > 1 + ROUNDING)).any(axis=1))
    if len(outside):
        problem = "a probability must lie in [0, 1]"
        raise UserError(problem, file=path, row=int(outside[0]) + 1, column="gold_probability")
    correct = _matrix(table, "predicted_correctly", path, "truth values")
    predicted = None
    if "predicted_label" in table.column_names:
        predicted = _matrix(table, "predicted_label", path, "whole numbers").astype(np.int32)
    for name, matrix in (("predicted_correctly", correct), ("predicted_label", predicted)):
        if matrix is not None and matrix.shape != gold.shape:
            raise UserError("another number of epochs than gold_probability", file=path, column=name)
    if not _is_kind(table["label"].type, "whole numbers"):
        raise UserError(f"not whole numbers but {table['label'].type}", file=path, column="label")
    labels = _signed(table["label"], path, "label").fill_null(-1).to_numpy()
    _check_classes(labels, path, "label")
    names = stored_class_names(table.schema, path) or ()
    for column, indices in (("label", labels), ("predicted_label", predicted)):
        if names and indices is not None and indices.size and indices.max() >= len(names):
            problem = f"class {indices.max()} of {len(names)} named ones"
            raise UserError(problem, file=path, column=column, remedy="classes are counted from 0")
    return TrainingDynamics(row_ids(table, path), labels, gold, margin, correct, predicted, names)


def row_ids(table: pa.Table, path: str | Path, name: str = "row_id") -> npt.NDArray[np.str_]:
    """The column of ids: present, unique, of any type that has a text form."""
    texts = texts_of(table[name], path, name)
    if texts.null_count:
        row = int(pc.index(texts.is_null(), True).as_py()) + 1
        raise UserError("no row id", file=path, row=row, column=name)
    ids = text_array(texts)
    # Of the array: an id that ends with a zero byte loses it there.
    twice = first_repeated(ids)
    if twice is not None:
        raise UserError(f"row id {twice!r} occurs twice", file=path, column=name)
    return ids


def _region_columns(datamap: DataMap, fraction: float, stratify: bool) -> dict[str, Any]:
    if not datamap.has_regions:
        nothing = {"region": pa.nulls(len(datamap), pa.string())}
        return nothing | {name: pa.nulls(len(datamap), pa.bool_()) for name in REGION_NAMES}
    unseen = np.isnan(datamap.confidence)
    sets = datamap.regions(fraction=fraction, stratify=stratify)
    partition = datamap.partition(fraction=fraction, stratify=stratify)
    code = np.select([partition.easy, partition.ambiguous, partition.hard], [0, 1, 2]).astype(np.int8)
    names = pa.DictionaryArray.from_arrays(pa.array(code, mask=unseen), list(REGION_NAMES))
    columns = {"region": names.cast(pa.string())}
    return columns | {name: pa.array(getattr(sets, name), mask=unseen) for name in REGION_NAMES}


def _lists(matrix: npt.NDArray[Any], seen: npt.NDArray[np.bool_]) -> pa.ListArray:
    rows, epochs = matrix.shape
    offsets = pa.array(np.arange(rows + 1, dtype=np.int32) * epochs)
    return pa.ListArray.from_arrays(offsets, pa.array(matrix.ravel(), mask=~seen.ravel()))


def _matrix(
    table: pa.Table, name: str, path: str | Path, kind: Literal["numbers", "whole numbers", "truth values"]
) -> npt.NDArray[Any]:
    """[N, E] from a list column; nulls become NaN, −1 or False."""
    column = table[name]
    if not (pa.types.is_list(column.type) or pa.types.is_large_list(column.type)):
        raise UserError(f"not a list for each row but {column.type}", file=path, column=name)
    lengths = pc.list_value_length(column).fill_null(-1).to_numpy()
    if len(lengths) and (lengths != lengths[0]).any():
        row = int(np.flatnonzero(lengths != lengths[0])[0]) + 1
        raise UserError("another number of epochs than in the rows before", file=path, row=row, column=name)
    if lengths[0] < 0:
        raise UserError("no epochs", file=path, row=1, column=name)
    if not _is_kind(column.type.value_type, kind):
        raise UserError(f"not {kind} but {column.type.value_type}", file=path, column=name)
    filled = GrowingArray({"numbers": np.float64, "whole numbers": np.int64, "truth values": np.bool_}[kind])
    for chunk in column.chunks:
        values = chunk.flatten()
        if kind == "whole numbers":
            values = _signed(values, path, name).fill_null(-1)
        elif kind == "truth values":
            values = values.fill_null(False)
        part = values.to_numpy(zero_copy_only=False)
        if kind == "whole numbers":
            _check_classes(part, path, name)
        filled.append(part)
    matrix = filled.array().reshape(len(lengths), int(lengths[0]))
    if kind == "numbers":
        wrong = np.flatnonzero((np.abs(matrix) > LARGEST).any(axis=1))
        if len(wrong):
            problem = f"an infinite value, or one beyond {LARGEST:g}"
            raise UserError(problem, file=path, row=int(wrong[0]) + 1, column=name)
    return matrix


def _signed(values: Any, path: str | Path, name: str) -> Any:
    """An unsigned column cannot hold the -1 of a missing value."""
    with refusing("no class indices", path, column=name):
        return values.cast(pa.int64())


def _is_kind(kind: pa.DataType, expected: str) -> bool:
    if expected == "truth values":
        return bool(pa.types.is_boolean(kind))
    whole = bool(pa.types.is_integer(kind))
    return whole or (expected == "numbers" and bool(pa.types.is_floating(kind)))


def _check_classes(indices: npt.NDArray[Any], path: str | Path, name: str) -> None:
    if indices.size and not -1 <= indices.min() <= indices.max() < MOST_CLASSES:
        raise UserError(f"from {indices.min()} to {indices.max()}, no class indices", file=path, column=name)


def _write_parquet(path: str | Path, table: pa.Table) -> None:
    with replacing(Path(path)) as fresh:
        # Only the regions repeat: a dictionary of the numbers costs time and saves nothing.
        pa.parquet.write_table(table, fresh, compression="zstd", use_dictionary=["region"])
