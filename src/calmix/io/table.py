"""A table of raw values: what a data file holds before anything is known about its columns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from calmix.user_error import UserError


@dataclass(frozen=True)
class DataTable:
    """Named columns of raw values. A column is read when it is asked for; rows are counted from 1."""

    source: str
    names: tuple[str, ...]
    row_count: int
    read_column: Callable[[str], Sequence[Any]]
    dropped: int = 0
    """Rows of the source that are not in the table, since they have no label."""
    kept: Sequence[int] | None = None
    """Where some were dropped: the number in the source, from 1, of every row that is left."""

    def column(self, name: str, option: str) -> Sequence[Any]:
        """The values of a column; `option` is the command-line option that would name another."""
        if name not in self.names:
            raise self.missing_column(name, option)
        return self.read_column(name)

    def missing_column(self, name: str, option: str) -> UserError:
        existing = ", ".join(shorten(existing) for existing in self.names) or "none"
        return UserError(
            f"no column {name!r}; the columns are: {existing}",
            file=self.source,
            remedy=f"name the right one with {option}",
        )

    def error(self, problem: str, row: int, column: str, remedy: str | None = None) -> UserError:
        """What is wrong with one value, and where it stands."""
        return UserError(problem, file=self.source, row=self.number(row), column=column, remedy=remedy)

    def number(self, row: int) -> int:
        """Where a row of the table stands in the source; both are counted from 1."""
        return row if self.kept is None else self.kept[row - 1]


def check_names(names: Iterable[str], source: str) -> None:
    """Refuse two columns of one name: nobody could say which is meant."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise UserError(f"two columns are named {name!r}", file=source, remedy="rename one of them")
        seen.add(name)


def shorten(text: str, limit: int = 40) -> str:
    """A value as it may appear in a message of one line.

    >>> shorten("a name")
    'a name'
    >>> shorten("x" * 100, limit=8)
    'xxxxx...'
    """
    return text if len(text) <= limit else text[: limit - 3] + "..."
