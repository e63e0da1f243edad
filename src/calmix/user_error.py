"""The one exception for what a user can fix, and how its message names an option.

A message names an option with `argument("label_weight")`. In Python it reads `label_weight`, on the command
line `--label-weight`: the two are one message, and nobody is told about a flag that they cannot give.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from calmix.printable import printable

# Around the name and the value of an option in the text of an error: private characters of Unicode.
BEGIN, VALUE, END = "\ue000", "\ue001", "\ue002"
LONG_WORD = re.compile(rf"[^\s{BEGIN}{VALUE}{END}]{{400,}}")
LONGEST = 600
NAMED = re.compile(f"{BEGIN}([^{BEGIN}{VALUE}{END}]*)(?:{VALUE}([^{BEGIN}{VALUE}{END}]*))?{END}")


class UserError(Exception):
    """Bad input: one line that says what is wrong, where it is, and what to do.

    The command line prints the line and ends with exit code 2. Everything else crashes loudly.

    >>> remedy = f"name it with {argument('label_column')}"
    >>> error = UserError("no column 'label'", file="a.csv", remedy=remedy)
    >>> str(error)
    "a.csv: no column 'label'; name it with label_column"
    >>> error.on_command_line
    "a.csv: no column 'label'; name it with --label-column"
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
            place.append(f"column {_shortened(column)!r}")
        where = ", ".join(place)
        line = f"{where}: {_shortened(problem)}" if where else _shortened(problem)
        if remedy:
            line = f"{line}; {_shortened(remedy)}"
        super().__init__(printable(" ".join(line.split())))

    def __str__(self) -> str:
        return NAMED.sub(lambda found: _in_python(found[1], found[2]), self.args[0])

    @property
    def on_command_line(self) -> str:
        return NAMED.sub(lambda found: flag_of(found[1]) + (f" {found[2]}" if found[2] else ""), self.args[0])


def _shortened(text: str) -> str:
    """One line for a terminal, whatever the names in a file are: words and texts without end are cut.

    >>> _shortened("no column " + "a" * 5000), len(_shortened("many words " * 100))
    ('no column aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa...', 604)
    """
    text = LONG_WORD.sub(lambda found: f"{found[0][:60]}...", text)
    if len(text) <= LONGEST:
        return text
    cut = text[:LONGEST]
    if cut.count(BEGIN) != cut.count(END):  # never within the name of an option
        cut = cut[: cut.rindex(BEGIN)]
    return f"{cut} ..."


def argument(name: str, value: Any = None) -> str:
    """An option, and the value it has or should have, in the text of a `UserError`.

    >>> error = UserError("too few epochs", remedy=f"give {argument('epochs', 2)} or more")
    >>> str(error), error.on_command_line
    ('too few epochs; give epochs=2 or more', 'too few epochs; give --epochs 2 or more')
    """
    return f"{BEGIN}{name}{END}" if value is None else f"{BEGIN}{name}{VALUE}{value}{END}"


def _in_python(name: str, value: str | None) -> str:
    """
    >>> _in_python("epochs", "2"), _in_python("model_options", "dropout=0.3")
    ('epochs=2', "model_options={'dropout': 0.3}")
    """
    if value is None:
        return name
    key, equals, entry = value.partition("=")
    return f"{name}={{{key!r}: {entry}}}" if equals and name.endswith("_options") else f"{name}={value}"


def flag_of(name: str) -> str:
    """
    >>> flag_of("label_weight"), flag_of("method_options")
    ('--label-weight', '--method-option')
    """
    # A table is given one entry at a time.
    return "--" + re.sub("_options$", "_option", name).replace("_", "-")


def check_least(name: str, value: int, least: int) -> None:
    """
    >>> check_least("epochs", 0, 1)
    Traceback (most recent call last):
    calmix.user_error.UserError: epochs is 0; give a whole number of at least 1
    """
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise UserError(f"{argument(name)} is {value}", remedy=f"give a whole number of at least {least}")
