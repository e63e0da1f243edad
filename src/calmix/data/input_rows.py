"""Rows to be predicted, with the other columns of their file.

The columns of the input are kept for the output. A row whose text is blank cannot be predicted: it is an
error that names it, or, where asked for, it is left out. All others keep their order and the ids that they
have in the whole file.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from calmix.data.columns import PAIR_COLUMN, ColumnNames, Task, find_task
from calmix.data.reading import Request, rows_from_table
from calmix.data.rows import Rows
from calmix.data.sources import read_source
from calmix.io.arrow_values import ArrowColumn, values_at
from calmix.io.table import DataTable
from calmix.user_error import UserError, argument

# How many row numbers an error lists.
LISTED = 10
FILLER = "-"


@dataclass(frozen=True)
class InputRows:
    """What is predicted, the columns that stood beside it, and which rows were left out."""

    rows: Rows
    columns: dict[str, pa.Array | pa.ChunkedArray]
    """Of the input, in its order, each as long as `rows`, of the types that the file has."""
    blank: tuple[int, ...]
    """Rows that were left out, counted from 1."""
    dropped: tuple[str, ...]
    """Columns that are not copied: the bytes of images and the like."""


def read_input(
    source: str | Path,
    columns: ColumnNames,
    *,
    task: Task | None = None,
    label_names: tuple[str, ...] | None = None,
    skip_blank: bool = False,
) -> InputRows:
    """The rows of a source without their labels; `label_names` are needed for multiple choice alone."""
    table = read_source(source, "input")
    is_image = (task or find_task(table, columns)) == "image"
    blank = {} if is_image else blank_rows(table, columns, task)
    positions = sorted(set().union(*blank.values()))
    if positions and not skip_blank:
        column = next(name for name, found in blank.items() if found)
        raise UserError(
            f"{_counted(positions)} no text: {_listed(positions)}",
            file=table.source,
            column=column,
            remedy=f"fill them in, or leave them out with {argument('skip_blank')}",
        )
    if len(positions) == table.row_count:
        raise UserError("no row has a text", file=table.source)
    # Filled for the checks, so that ids and row numbers stay those of the file.
    rows = rows_from_table(_filled(table, blank), Request("input", columns, label_names, False, task))
    kept = np.delete(np.arange(table.row_count), positions).tolist()
    taken: dict[str, pa.Array | pa.ChunkedArray] = {}
    dropped = []
    for name in table.names:
        values = table.read_column(name)
        if holds_bytes(values):
            dropped.append(name)
        else:
            taken[name] = arrow_column(values_at(values, kept) if positions else values)
    return InputRows(
        rows.select(kept) if positions else rows,
        taken,
        tuple(place + 1 for place in positions),
        tuple(dropped),
    )


def blank_rows(table: DataTable, columns: ColumnNames, task: Task | None = None) -> dict[str, list[int]]:
    """Positions of rows that have nothing, or only spaces, where a text should be, by column."""
    found = find_task(table, columns, task)
    names = [columns.text] + ([columns.pair or PAIR_COLUMN] if found == "pair" else [])
    return {
        name: [place for place, value in enumerate(table.read_column(name)) if is_blank(value)]
        for name in names
        if name in table.names
    }


def is_blank(value: Any) -> bool:
    """
    >>> is_blank(None), is_blank(" "), is_blank("a")
    (True, True, False)
    """
    return value is None or (isinstance(value, str) and not value.strip())


def holds_bytes(values: Sequence[Any]) -> bool:
    """Whether a column is of bytes, or of objects that hold some, as the hub keeps images.

    >>> holds_bytes([None, b"P5"]), holds_bytes(["P5"])
    (True, False)
    """
    if isinstance(values, ArrowColumn):
        return _is_of_bytes(values.arrow.type)
    return isinstance(next((value for value in values if value is not None), None), bytes)


def _is_of_bytes(kind: pa.DataType) -> bool:
    """
    >>> _is_of_bytes(pa.list_(pa.struct({"raw": pa.binary()}))), _is_of_bytes(pa.list_(pa.string()))
    (True, False)
    """
    is_binary = pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind)
    inner = (kind.field(place).type for place in range(kind.num_fields))
    return is_binary or pa.types.is_fixed_size_binary(kind) or any(map(_is_of_bytes, inner))


def arrow_column(values: Sequence[Any]) -> pa.Array | pa.ChunkedArray:
    """Values of one column as Arrow has them; of several kinds, or objects with different keys, as text.

    >>> arrow_column([1, "one", None]).to_pylist(), arrow_column([{"a": 1}, {"b": 2}]).to_pylist()
    (['1', 'one', None], ['{"a": 1}', '{"b": 2}'])
    """
    if isinstance(values, ArrowColumn):
        return values.arrow
    try:
        made = pa.array(values)
        # Arrow gives all objects the keys of all.
        if not pa.types.is_nested(made.type) or made.to_pylist() == list(values):
            return made
    except (pa.ArrowException, TypeError, OverflowError):
        pass
    return pa.array(
        [
            value
            if value is None or isinstance(value, str)
            else json.dumps(value, ensure_ascii=False, default=str)
            for value in values
        ],
        pa.string(),
    )


def _filled(table: DataTable, blank: dict[str, list[int]]) -> DataTable:
    def read_column(name: str) -> Sequence[Any]:
        values = table.read_column(name)
        if not blank.get(name):
            return values
        filled = list(values)
        for place in blank[name]:
            filled[place] = FILLER
        return filled

    return replace(table, read_column=read_column) if any(blank.values()) else table


def _counted(positions: Sequence[int]) -> str:
    return "1 row has" if len(positions) == 1 else f"{len(positions)} rows have"


def _listed(positions: Sequence[int]) -> str:
    """
    >>> _listed([0, 4])
    'rows 1, 5'
    """
    numbers = ", ".join(str(place + 1) for place in positions[:LISTED])
    more = f" and {len(positions) - LISTED} more" if len(positions) > LISTED else ""
    return f"row{'s' if len(positions) > 1 else ''} {numbers}{more}"
