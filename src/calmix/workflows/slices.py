"""The slices of an evaluation: a column of the predictions file, or of the rows that a model predicted."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from calmix.user_error import UserError, argument

if TYPE_CHECKING:
    from calmix.calibration.files.file_evaluation import Source


def evaluate_source_slices(
    sources: Iterable[tuple[Source, Any]], column: str, **settings: Any
) -> list[dict[str, Any]]:
    """For every source its metrics per value of the column; beside each is where its rows are from: a
    predictions file, or the table that a model has predicted."""
    from calmix.calibration.files.file_evaluation import joined, together
    from calmix.calibration.slices import evaluate_slices

    found = []
    for source, place in sources:
        values = column_values(place, column)
        fit = None
        if source.fit is not None and settings.get("intervals", True):
            fit = source.fit.uncertainty(), together(list(source.fit.before()))
        try:
            sliced = evaluate_slices(joined(source), values, column=column, fit=fit, **settings)
        except ValueError as error:
            raise UserError(str(error), file=source.name) from None
        found.append({"file": source.name, **sliced.as_dict()})
    return found


def column_values(place: Any, column: str) -> Sequence[Any]:
    """A column of a file or of a table."""
    from calmix.io.table import DataTable
    from calmix.io.tables import read_table

    if isinstance(place, str | Path):
        if Path(place).is_dir():
            raise UserError(
                f"the predictions of a run have no column {column!r}",
                file=place,
                remedy=f"give {argument('model')} and {argument('data')}: the rows and the run",
            )
        place = read_table(place)
    if not isinstance(place, DataTable):
        raise UserError(
            f"predictions in memory have no column {column!r}",
            remedy=f"give {argument('model')} and {argument('data')}, or a predictions file",
        )
    return list(place.column(column, argument("slice")))
