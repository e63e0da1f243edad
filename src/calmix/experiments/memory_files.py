"""Rows that were given as objects, as files that the worker processes of a comparison can read.

DIR/data/in-memory-<fingerprint>.parquet, or a directory of that name with a file for every split. They are
written once: another comparison in the directory, or more seeds of it, finds them.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from calmix.data.input_rows import arrow_column
from calmix.io.memory_tables import WHOLE, is_in_memory, memory_data
from calmix.io.table import DataTable
from calmix.io.writing import write_table


def with_files(options: Mapping[str, Any], directory: Path) -> dict[str, Any]:
    """Options of training in which every source is a place; rows in memory are written there."""
    single = {name: options[name] for name in ("train", "validation", "unlabelled") if options.get(name)}
    written = {name: write_out(source, directory) for name, source in single.items()}
    tests = []
    for test in options["test"]:
        name, equals, source = str(test).partition("=")
        is_named = bool(equals) and is_in_memory(source)
        tests.append(f"{name}={write_out(source, directory)}" if is_named else write_out(test, directory))
    return {**options, **written, "test": tests}


def write_out(source: str, directory: Path) -> str:
    """The file of a source that is in memory; any other source is its own."""
    data = memory_data(source)
    if data is None:
        return source
    place = directory / "data" / f"in-memory-{data.name.rsplit(' ', 1)[-1]}"
    if WHOLE in data.tables:
        place = place.with_suffix(".parquet")
    for split, table in data.tables.items():
        file = place if split == WHOLE else place / f"{split}.parquet"
        if not file.is_file():
            write_table(file, as_arrow(table))
    return str(place)


def as_arrow(table: DataTable) -> pa.Table:
    return pa.table({name: arrow_column(table.read_column(name)) for name in table.names})
