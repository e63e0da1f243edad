"""The texts behind a run, read again from its files: the run directory holds none."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pyarrow.compute as pc

from calmix.data.columns import ColumnNames
from calmix.data.reading import read_rows
from calmix.data.rows import Rows
from calmix.inference.run_rows import COLUMN_KINDS, rows_of_run
from calmix.io.run_directory import RunDirectory
from calmix.user_error import UserError


class RowTexts(Mapping[str, str]):
    """Row id to text, looked up when asked for: a report shows a few of millions of rows."""

    def __init__(self, rows: Rows) -> None:
        self.rows = rows

    def __getitem__(self, row_id: str) -> str:
        place = pc.index(self.rows.table.column("row_id"), row_id).as_py()
        if place < 0:
            raise KeyError(row_id)
        return self.rows.select([place]).texts()[0]

    def __iter__(self) -> Iterator[str]:
        return iter(self.rows.row_ids.tolist())

    def __len__(self) -> int:
        return len(self.rows)


def training_texts(run: RunDirectory) -> RowTexts | None:
    """Row id to text of the training file, if it can still be read."""
    config = run.config()
    names = {name: config.get(f"{name}_column") for name in COLUMN_KINDS}
    try:
        rows = read_rows(config["train"], "train", ColumnNames.from_options(**names))
    except (UserError, KeyError):
        return None
    return RowTexts(rows)


def split_texts(run: RunDirectory) -> dict[str, list[str]]:
    """The texts of every split in the order of its predictions; nothing where the files have changed."""
    try:
        named = rows_of_run(run, remedy="train again")
    except (UserError, KeyError):
        return {}
    return {name: whole_texts(rows) for name, rows in named.items() if rows.task != "image"}


def whole_texts(rows: Rows) -> list[str]:
    """Both texts of a pair, all choices of a question."""
    texts = rows.texts()
    if rows.task == "pair":
        return [f"{first} | {second}" for first, second in zip(texts, rows.pairs(), strict=True)]
    if rows.task == "choice":
        return [
            f"{text} | {' / '.join(choices)}" for text, choices in zip(texts, rows.choices(), strict=True)
        ]
    return texts
