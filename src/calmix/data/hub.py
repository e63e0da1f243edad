"""Datasets on the Hugging Face hub, when it can be reached."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from calmix.io.arrow_values import ArrowColumn
from calmix.io.table import DataTable, shorten
from calmix.runtime.hub import offline_if_unreachable
from calmix.user_error import UserError


def read_hub_table(name: str, split: str) -> DataTable:
    """A split of a hub dataset `[OWNER/]NAME[:CONFIGURATION]`.

    Class labels come by their names. The hub writes -1 where a label is withheld: that is no label here.
    """
    dataset = _load(name).get(split)
    if dataset is None:
        held = ", ".join(_load(name)) or "none"
        raise UserError(f"no split {split!r}; the splits are: {held}", file=name)
    if dataset.num_rows == 0:
        raise UserError(f"the split {split!r} has no rows", file=name)
    return dataset_table(dataset, name)


def dataset_table(dataset: Any, source: str) -> DataTable:
    """The table of a `datasets.Dataset`; class labels by their names."""

    def read_column(column: str) -> Sequence[Any]:
        values = ArrowColumn(dataset.with_format("arrow")[:].column(column), source, column)
        label_names = _class_names(dataset, column)
        if label_names is None:
            return values
        return [label_names[value] if value is not None and value >= 0 else None for value in values]

    return DataTable(source, tuple(dataset.column_names), dataset.num_rows, read_column)


def hub_splits(name: str) -> tuple[str, ...]:
    """The splits of a hub dataset that can be tested on: those whose class labels are not all withheld."""
    return tuple(split for split, dataset in _load(name).items() if not _is_withheld(dataset))


def _is_withheld(dataset: Any) -> bool:
    columns = [column for column in dataset.column_names if _class_names(dataset, column)]
    return bool(columns) and all(set(dataset.unique(column)) <= {-1, None} for column in columns)


def _class_names(dataset: Any, column: str) -> Sequence[str] | None:
    names: Sequence[str] | None = getattr(dataset.features[column], "names", None)
    return names


@lru_cache(maxsize=4)
def _load(name: str) -> Mapping[str, Any]:
    """All splits of a dataset; the library keeps them on disk after the first time."""
    import datasets

    path, _, configuration = name.partition(":")
    try:
        with offline_if_unreachable():
            loaded: Mapping[str, Any] = datasets.load_dataset(path, configuration or None)
    except (datasets.exceptions.DatasetsError, OSError, RuntimeError, ValueError) as error:
        raise UserError(
            f"no such file, and no dataset that the hub gives out ({shorten(str(error), 200)})",
            file=name,
            remedy="check the name, as NAME:CONFIGURATION where it has several, and the connection",
        ) from None
    return loaded
