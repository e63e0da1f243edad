"""A self-contained HTML page: an answer, prose, facts, tables and charts, in sections.

A page is data. `render` turns it into one file that opens offline: style and script are inside and admitted
by their hashes. Text is escaped by the template; colours follow the reader's light or dark theme by CSS.
"""

from __future__ import annotations

import html
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from markupsafe import Markup

from calmix.io.run_directory import replacing
from calmix.printable import UNSAFE
from calmix.report.pages.embedding import Asset, json_block
from calmix.report.pages.plot import Legend
from calmix.report.tables import Table

Tone = Literal["good", "fair", "bad", "unknown"]
SYMBOLS: Mapping[Tone, str] = {"good": "✓", "fair": "≈", "bad": "!", "unknown": "?"}


NO_LEGEND = Legend(())


@dataclass(frozen=True)
class Prose:
    """A paragraph; a `note` or a `warning` stands out."""

    text: str
    tone: Literal["plain", "note", "warning"] = "plain"


@dataclass(frozen=True)
class Fact:
    name: str
    value: str
    note: str = ""


@dataclass(frozen=True)
class Facts:
    """Short name-value pairs, as cards."""

    items: tuple[Fact, ...]


@dataclass(frozen=True)
class Chart:
    """A drawing; `title` is its heading, the drawing itself describes what it shows to a screen reader."""

    svg: Markup
    title: str
    caption: str
    legend: Legend = NO_LEGEND
    name: str = "figure"
    """Of the file that a reader saves."""


@dataclass(frozen=True)
class Beside:
    """Charts side by side where the window is wide enough."""

    charts: tuple[Chart, ...]


@dataclass(frozen=True)
class Code:
    text: str


@dataclass(frozen=True)
class Details:
    """Blocks that open on a click."""

    summary: str
    blocks: tuple[Block, ...]


@dataclass(frozen=True)
class Widget:
    """A part of the page with controls: a template and the data that its scripts read."""

    template: str
    data: Mapping[str, Any]
    scripts: tuple[str, ...]
    values: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Forest:
    """Effects with their intervals in a table: rows of words, then a drawing and its number in each cell."""

    caption: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, str, tuple[tuple[Markup, tuple[str, ...]] | None, ...]], ...]
    """Name, second name, cells."""
    axes: tuple[Markup, ...]
    legend: Legend = NO_LEGEND
    compact: bool = False
    """Numbers for screen readers alone: another table shows them."""
    head: str = "Method"
    """What the rows are."""


Block = Prose | Facts | Table | Chart | Beside | Code | Details | Widget | Forest


@dataclass(frozen=True)
class Section:
    title: str
    blocks: tuple[Block, ...]


@dataclass(frozen=True)
class Verdict:
    """One line of the answer."""

    tone: Tone
    subject: str
    text: str


@dataclass(frozen=True)
class Answer:
    """The first screen: a sentence, what it rests on, what to do next, one picture."""

    verdicts: tuple[Verdict, ...] = ()
    steps: tuple[tuple[str, str], ...] = ()
    """What to do, and the command that does it."""
    blocks: tuple[Block, ...] = ()
    wide: bool = False
    """The picture below the words, not beside them."""


@dataclass(frozen=True)
class Page:
    title: str
    lead: str
    facts: Facts
    sections: tuple[Section, ...]
    answer: Answer | None = None


def marked(text: str) -> Markup:
    """Escaped, with what stands in backticks as code.

    >>> marked("`plain` < `mix`")
    Markup('<code>plain</code> &lt; <code>mix</code>')
    """
    return Markup(re.sub("`([^`]+)`", r"<code>\1</code>", html.escape(shown(text))))


def shown(value: Any) -> Any:
    r"""Text with control characters and marks of direction spelled out; lines and tabs stay.

    >>> shown("a\u202eb"), shown("x\ny"), shown(3)
    ('a\\u202eb', 'x\ny', 3)
    """
    if not isinstance(value, str) or isinstance(value, Markup):
        return value
    return UNSAFE.sub(
        lambda found: found[0] if found[0] in "\n\t" else found[0].encode("unicode_escape").decode("ascii"),
        value,
    )


def render(page: Page) -> str:
    """The page as one HTML document."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("calmix.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=shown,
    )
    environment.filters["marked"] = marked
    environment.filters["kind"] = lambda block: type(block).__name__
    environment.filters["json_block"] = json_block
    environment.globals["symbols"] = SYMBOLS
    widgets = [block for section in page.sections for block in section.blocks if isinstance(block, Widget)]
    scripts = dict.fromkeys(name for widget in widgets for name in widget.scripts)
    style = Asset.of(("page.css", *(["explorer.css"] if widgets else [])))
    script = Asset.of(("shared.js", "page.js", *scripts))
    return environment.get_template("page.html").render(page=page, style=style, script=script)


def write_page(page: Page, path: Path) -> Path:
    with replacing(path) as fresh:
        fresh.write_text(render(page), encoding="utf-8")
    return path
