"""The rows that `calmix ood` compares: in-domain rows of a run, and sets of others."""

from __future__ import annotations

from collections.abc import Sequence

from calmix.data.columns import ColumnNames
from calmix.data.reading import read_rows
from calmix.data.rows import Rows
from calmix.data.splits import name_outside
from calmix.experiments.recommendation import IN_DOMAIN
from calmix.inference.run_rows import rows_of_run
from calmix.io.run_directory import RunDirectory
from calmix.user_error import UserError, argument


def columns_of(run: RunDirectory, **given: str | None) -> ColumnNames:
    """The names of columns: as given, else as in training."""
    trained = run.config()
    return ColumnNames.from_options(
        **{name: value or trained.get(f"{name}_column") for name, value in given.items()}
    )


def inside_rows(run: RunDirectory, source: str | None, columns: ColumnNames) -> tuple[str, Rows]:
    """The in-domain rows and their name. A test with a name of its own may be out of domain."""
    if source is not None:
        return "in-domain rows", _read(run, source, "in", columns)
    tests = [split for split in run.splits() if split != "validation"]
    if IN_DOMAIN not in tests:
        named = f"only on {', '.join(tests)}, which may be other data" if tests else "not on anything"
        raise UserError(
            f"this run was tested {named}", file=run.path, remedy=f"give {argument('in', 'FILE')}"
        )
    return IN_DOMAIN, rows_of_run(run, remedy=f"give the rows with {argument('in', 'FILE')}")[IN_DOMAIN]


def outside_rows(
    run: RunDirectory, sources: Sequence[str], columns: ColumnNames, in_name: str
) -> dict[str, Rows]:
    """The other sets by name."""
    named = name_outside(sources, in_name)
    return {name: _read(run, source, name, columns) for name, source in named.items()}


def _read(run: RunDirectory, source: str, name: str, columns: ColumnNames) -> Rows:
    metrics = run.metrics()
    # The choices of a row have no names, but their number must be that of training.
    names = tuple(metrics["label_names"]) if metrics["task"] == "choice" else None
    return read_rows(source, "test", columns, names, labelled=False, task=metrics["task"], name=name)
