"""Data that is given as objects: frames, datasets, lists. They become the tables that files become, so that
every check of the readers holds for them too.

    a pandas or polars frame, a pyarrow table, a `datasets.Dataset`
    a dict of columns             {"text": [...], "label": [...]}
    a list of rows                [{"text": "good", "label": 1}, ...]
    texts and labels              (["good", "bad"], [1, 0]); texts alone where no labels are needed
    a dict of splits              {"train": ..., "test": ...}, such as a `datasets.DatasetDict`
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from calmix.data.columns import ColumnNames
from calmix.data.hub import dataset_table
from calmix.data.images.stored import as_pnm
from calmix.io.memory_tables import WHOLE, MemoryData, hold
from calmix.io.table import DataTable, check_names
from calmix.user_error import UserError

SPLITS = ("train", "validation", "test")
KINDS = "a file name, a DataFrame, a Dataset, a list of rows, or (texts, labels)"


def is_place(data: Any) -> bool:
    """Whether data is named, not given: a file, a directory, a dataset on the hub."""
    return isinstance(data, str | Path)


def hold_data(data: Any, argument: str, columns: ColumnNames | None = None) -> MemoryData:
    """Data under a name that readers take, as `memory_tables` keeps it. `argument` is what errors call it.

    >>> hold_data((["good", "bad"], [1, 0]), "train").name
    'in memory: 2 rows, fingerprint d93e3bf95b99a6a9'
    """
    columns = columns or ColumnNames()
    if isinstance(data, Mapping) and is_splits(data):
        return hold(
            {str(name): table_of(part, f"{argument}[{name!r}]", columns) for name, part in data.items()}
        )
    return hold({WHOLE: table_of(data, argument, columns)})


def is_splits(data: Mapping[Any, Any]) -> bool:
    """Whether a mapping holds splits; else it holds columns."""
    return "train" in data and set(data) <= {*SPLITS, "unsupervised"}


def is_columns(data: Any, columns: ColumnNames) -> bool:
    """Whether a mapping holds the columns of one table; else it holds data by name.

    >>> is_columns({"text": ["good"]}, ColumnNames()), is_columns({"imdb": ["good"]}, ColumnNames())
    (True, False)
    """
    return isinstance(data, Mapping) and bool({columns.text, columns.image or "image"} & set(data))


def table_of(data: Any, argument: str, columns: ColumnNames) -> DataTable:
    """One table, its values as a reader of files gives them: plain Python, None for what is missing."""
    source = f"{argument} (in memory)"
    found: dict[str, Sequence[Any]] | None
    if _comes_from(data, "datasets") and hasattr(data, "column_names"):
        table = dataset_table(data, source)
        found = {name: table.read_column(name) for name in table.names}
    else:
        found = _columns_of(data, source, columns)
    if found is None:
        raise UserError(f"{argument} is {_described(data)}", remedy=f"give {KINDS}")
    check_names(map(str, found), source)
    values = {str(name): [_plain(value) for value in column] for name, column in found.items()}
    lengths = {len(column) for column in values.values()}
    if len(lengths) > 1:
        sizes = ", ".join(f"{name!r} {len(column)}" for name, column in values.items())
        raise UserError(f"columns of different lengths: {sizes}", file=source, remedy="give one value a row")
    if not lengths or not max(lengths):
        raise UserError("no rows", file=source, remedy=f"give {KINDS}")
    return DataTable(source, tuple(values), lengths.pop(), values.__getitem__)


def _columns_of(data: Any, source: str, columns: ColumnNames) -> dict[str, Sequence[Any]] | None:
    if _comes_from(data, "pandas") and hasattr(data, "columns"):
        names = [str(name) for name in data.columns]
        check_names(names, source)
        return {name: data.iloc[:, place].tolist() for place, name in enumerate(names)}
    if hasattr(data, "__arrow_c_stream__"):  # polars, pyarrow and their kin
        import pyarrow as pa

        table = pa.table(data)
        return {name: table.column(name).to_pylist() for name in table.column_names}
    if isinstance(data, Mapping):
        return {str(name): column for name, column in data.items() if _is_sequence(column, source, name)}
    if _is_pair(data):
        texts, labels = data
        return {columns.text: list(texts), columns.label: list(labels)}
    if not _is_list(data):
        return None
    rows = list(data)
    if rows and all(isinstance(row, Mapping) for row in rows):
        keys = dict.fromkeys(name for row in rows for name in row)
        return {str(name): [row.get(name) for row in rows] for name in keys}
    if rows and all(row is None or isinstance(row, str) for row in rows):
        return {columns.text: rows}
    for number, row in enumerate(rows, start=1):
        if not isinstance(row, Mapping | str):
            raise UserError(
                f"{_described(row)} where a row is expected", file=source, row=number, remedy=f"give {KINDS}"
            )
    return {} if not rows else None


def _is_pair(data: Any) -> bool:
    """(texts, labels): two sequences, of which the first is no text itself."""
    return isinstance(data, tuple) and len(data) == 2 and all(_is_list(part) for part in data)


def _is_list(data: Any) -> bool:
    """Lists, tuples, arrays and series; never a text."""
    return (
        not isinstance(data, str | bytes | Mapping) and hasattr(data, "__len__") and hasattr(data, "__iter__")
    )


def _is_sequence(column: Any, source: str, name: Any) -> bool:
    if not _is_list(column):
        raise UserError(f"{_described(column)}, not a list of values", file=source, column=str(name))
    return True


def _plain(value: Any) -> Any:
    """As a reader of files gives it.

    >>> import numpy as np
    >>> [_plain(value) for value in (np.int64(3), float("nan"), ("a", "b"), np.array(["a"]))]
    [3, None, ['a', 'b'], ['a']]
    """
    if value is None or isinstance(value, str | bytes | int):
        return str(value) if type(value) is not str and isinstance(value, str) else value
    if isinstance(value, float):
        return None if math.isnan(value) else float(value)
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    if isinstance(value, Mapping):
        return {str(name): _plain(part) for name, part in value.items()}
    if type(value).__module__.startswith("PIL."):
        import numpy as np

        return as_pnm(np.asarray(value.convert("L" if value.mode in ("1", "L") else "RGB")))
    if hasattr(value, "dtype"):  # of numpy or torch: a scalar or an array
        shape = getattr(value, "shape", ())
        if len(shape) > 1 and str(value.dtype) == "uint8":  # the pixels of an image
            return as_pnm(value)
        return _plain(value.tolist())
    return None if _is_missing(value) else value


def _is_missing(value: Any) -> bool:
    """pandas.NA and NaT, which are not equal to themselves."""
    return type(value).__name__ in ("NAType", "NaTType")


def _comes_from(data: Any, package: str) -> bool:
    """By name: nobody who has not loaded a package holds an object of it."""
    return any(kind.__module__.split(".")[0] == package for kind in type(data).__mro__)


def _described(value: Any) -> str:
    """
    >>> _described(3), _described(None)
    ('int 3', 'None')
    """
    return "None" if value is None else f"{type(value).__name__} {str(value)[:40]}".strip()
