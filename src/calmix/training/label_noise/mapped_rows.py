"""The training rows behind a data map, found again in the file they came from."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from calmix.data.columns import ColumnNames
from calmix.data.reading import read_rows
from calmix.data.rows import Rows
from calmix.dynamics.datamap import DataMap
from calmix.user_error import UserError, argument


def read_mapped_rows(
    datamap: DataMap, source: str | Path, columns: ColumnNames, *, labelled: bool = True
) -> Rows:
    """The rows of the map, in its order, matched by row id.

    The file may hold more rows (those that were split off for validation), but none of the map's may be
    missing. With `labelled`, the labels must be those that the map was recorded with: other labels would
    mean that the file is not the one that was trained on.
    """
    rows = read_rows(source, "train", columns, labelled=labelled)
    place = {row_id: position for position, row_id in enumerate(rows.row_ids.tolist())}
    wanted = [str(row_id) for row_id in datamap.row_ids.tolist()]
    missing = [row_id for row_id in wanted if row_id not in place]
    if missing:
        raise UserError(
            f"{len(missing)} of {len(wanted)} mapped rows are not in this file, for example {missing[0]!r}",
            file=source,
            remedy=f"give the training file, and {argument('id_column')} if its rows were named by a column",
        )
    found = rows.select(np.array([place[row_id] for row_id in wanted], dtype=np.int64))
    changed = np.flatnonzero(found.labels != datamap.labels) if labelled else np.empty(0, dtype=np.int64)
    if len(changed):
        raise UserError(
            f"{len(changed)} rows have another label than in training, for example {wanted[changed[0]]!r}",
            file=source,
            remedy="give the file that was trained on",
        )
    return found


def shown_texts(rows: Rows) -> list[str]:
    """Each row as a reader wants to see it: both texts of a pair, all choices with the right one marked.

    >>> rows = Rows.from_columns(["a"], ["Why?"], choices=[["So.", "No."]], labels=[1], label_names="01")
    >>> shown_texts(rows)
    ['Why?\\n  0: So.\\n> 1: No.']
    """
    texts = rows.texts()
    if rows.task == "pair":
        return [f"{first}\n{second}" for first, second in zip(texts, rows.pairs(), strict=True)]
    if rows.task == "choice":
        right = rows.labels.tolist() if rows.is_labelled else [-1] * len(rows)
        shown = []
        for text, choices, label in zip(texts, rows.choices(), right, strict=True):
            lines = [f"{'>' if at == label else ' '} {at}: {choice}" for at, choice in enumerate(choices)]
            shown.append("\n".join([text, *lines]))
        return shown
    return texts
