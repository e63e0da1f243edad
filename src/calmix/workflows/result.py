"""What the results of workflows have in common: they print tables and lines, and display in a notebook."""

from __future__ import annotations

import html
import io
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from calmix.printable import printable

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from calmix.report.tables import Table

WIDTH = 110


class Result:
    """Shown by warnings, headings, tables and lines of text; a subclass says by which."""

    def warnings(self) -> list[str]:
        """What makes the rest doubtful; nothing, most of the time."""
        return []

    def headings(self) -> list[str]:
        """What stands over the tables."""
        return []

    def tables(self) -> list[Table]:
        """The tables of what was found."""
        return []

    def lines(self) -> list[str]:
        """What stands under the tables."""
        return []

    def __str__(self) -> str:
        from rich.console import Console

        stream = io.StringIO()
        console = Console(file=stream, width=WIDTH, color_system=None)
        for table in self.tables():
            console.print(table.to_rich())
        below = stream.getvalue() + "\n".join(map(printable, self.lines()))
        return "\n".join([*map(printable, self._above()), below])

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        above, below = (
            "".join(f"<p>{_text(line)}</p>" for line in lines) for lines in (self._above(), self.lines())
        )
        return above + "".join(map(table_html, self.tables())) + below

    def _above(self) -> list[str]:
        return [*(f"WARNING: {line}" for line in self.warnings()), *self.headings()]


class DrawnResult(Result):
    """A result that is also drawn by matplotlib, for papers and slides: the extra `calmix[figures]`."""

    def figures(self) -> dict[str, Figure]:
        """All figures by the name of their file."""
        raise NotImplementedError

    def write_figures(self, directory: str | Path) -> list[Path]:
        """All figures as SVG and PDF; their paths."""
        from calmix.report.figures.files import write_figures

        return write_figures(self.figures(), directory)


def table_html(table: Table) -> str:
    """A table as plain HTML, which a notebook draws in its own style.

    >>> from calmix.report.tables import Column, Table
    >>> table_html(Table("", (Column("split"),), (("<b>",),)))
    '<table><tr><th>split</th></tr><tr><td>&lt;b&gt;</td></tr></table>'
    """
    caption = f"<caption>{_text(table.caption)}</caption>" if table.caption else ""
    head = "".join(f"<th{_title(column.meaning)}>{_text(column.title)}</th>" for column in table.columns)
    rows = "".join(
        "<tr>" + "".join(f"<td>{_text(cell)}</td>" for cell in row) + "</tr>" for row in table.rows
    )
    notes = "".join(f"<p><small>{_text(note)}</small></p>" for note in table.notes)
    return f"<table>{caption}<tr>{head}</tr>{rows}</table>{notes}"


def _text(text: str) -> str:
    return html.escape(printable(text))


def _title(meaning: str) -> str:
    return f' title="{html.escape(meaning)}"' if meaning else ""


class Record(Mapping[str, Any]):
    """Values by name, as a mapping and as attributes.

    >>> metrics = Record({"ece": 0.02, "ece_ci": [0.01, 0.03]})
    >>> metrics.ece, metrics["ece_ci"], "nll" in metrics
    (0.02, [0.01, 0.03], False)
    >>> metrics.nll
    Traceback (most recent call last):
    AttributeError: no 'nll'; there are: ece, ece_ci
    """

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = dict(values)

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # pickle and copy look for names of theirs before there are any values
            raise AttributeError(name)
        try:
            return self._values[name]
        except KeyError:
            raise AttributeError(f"no {name!r}; there are: {', '.join(self._values)}") from None

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self._values]

    def __repr__(self) -> str:
        return f"Record({self._values!r})"


def place_of(given: Any) -> Path | None:
    """The path of a file, of a directory or of a `Run`."""
    path = getattr(given, "path", given)
    return Path(path) if isinstance(path, str | Path) else None
