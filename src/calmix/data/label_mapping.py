"""Labels under other names, and rows without one left out: `--label-map`, `--drop-unlabelled`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from calmix.data.labels import label_text
from calmix.io.table import DataTable, shorten


def map_labels(
    table: DataTable,
    column: str,
    labels: Mapping[str, str],
    *,
    drop: Sequence[str] = (),
    drops_missing: bool = False,
) -> DataTable:
    """The table with its labels renamed, without the rows whose label is in `drop` or missing.

    With a map, a label that is neither one of its keys nor of its values is an error: a class would otherwise
    be there twice. `dropped` of the table counts the rows that were left out.

    >>> values = {"text": ["a", "b", "c"], "label": [0, 1, -1]}
    >>> table = DataTable("x.csv", ("text", "label"), 3, values.__getitem__)
    >>> mapped = map_labels(table, "label", {"0": "no", "1": "yes"}, drop=["-1"])
    >>> mapped.read_column("label"), mapped.read_column("text"), mapped.dropped
    (['no', 'yes'], ['a', 'b'], 1)
    """
    if column not in table.names or not (labels or drop or drops_missing):
        return table
    targets = set(labels.values())
    kept: list[int] = []
    found: list[Any] = []
    for row, value in enumerate(table.read_column(column), start=1):
        try:
            text = label_text(value)
        except ValueError as error:
            raise table.error(f"the label {error}", row, column) from None
        if (text is None and drops_missing) or (text is not None and text in drop):
            continue
        if labels and text is not None:
            if text not in labels and text not in targets:
                known = ", ".join(shorten(name) for name in labels)
                problem = f"no label map knows the label {shorten(text)!r}"
                raise table.error(problem, row, column, f"the map has: {known}")
            text = labels.get(text, text)
        kept.append(row - 1)
        found.append(text if text is not None else value)

    def read_column(name: str) -> Sequence[Any]:
        if name == column:
            return found
        values = table.read_column(name)
        return [values[row] for row in kept] if len(kept) < table.row_count else values

    dropped = table.dropped + table.row_count - len(kept)
    return DataTable(table.source, table.names, len(kept), read_column, dropped)
