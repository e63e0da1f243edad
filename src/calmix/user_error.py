"""The one exception for what a user can mend, and the check that raises it most."""

from __future__ import annotations

from pathlib import Path

from calmix.printable import printable


class UserError(Exception):
    """Bad input: one line that says what is wrong, where it is, and what to do.

    The command line prints the line and ends with exit code 2. Everything else crashes loudly.

    >>> str(UserError("no column 'label'", file="reviews.csv", remedy="name it with --label-column"))
    "reviews.csv: no column 'label'; name it with --label-column"
    >>> str(UserError("empty text", file="reviews.csv", row=3, column="text"))
    "reviews.csv, row 3, column 'text': empty text"
    """

    def __init__(
        self,
        problem: str,
        *,
        file: str | Path | None = None,
        row: int | None = None,
        column: str | None = None,
        remedy: str | None = None,
    ) -> None:
        place = [str(file)] if file is not None else []
        if row is not None:
            place.append(f"row {row}")
        if column is not None:
            place.append(f"column {column!r}")
        where = ", ".join(place)
        line = f"{where}: {problem}" if where else problem
        if remedy:
            line = f"{line}; {remedy}"
        super().__init__(printable(" ".join(line.split())))


def check_least(option: str, value: int, least: int) -> None:
    """
    >>> check_least("--epochs", 0, 1)
    Traceback (most recent call last):
    calmix.user_error.UserError: --epochs is 0; give a whole number of at least 1
    """
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise UserError(f"{option} is {value}", remedy=f"give a whole number of at least {least}")
