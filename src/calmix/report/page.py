"""A self-contained HTML page: prose, facts, tables and charts, in sections.

A page is data. `render` turns it into one file that opens offline: style, script and plotly.js are inside,
plotly.js once. Text is escaped by the template; charts follow the reader's light or dark theme by CSS.
"""

from __future__ import annotations

import html
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from calmix.io.run_directory import replacing
from calmix.report.tables import Table

if TYPE_CHECKING:
    from markupsafe import Markup
    from plotly.graph_objects import Figure

FONTS = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', 'DejaVu Sans', Arial, sans-serif"

# Paul Tol's "bright" scheme: distinguishable for colour-blind readers, legible on white and on near-black.
BLUE, RED, GREEN, YELLOW, CYAN, PURPLE, GREY = (
    "#4477AA",
    "#EE6677",
    "#228833",
    "#CCBB44",
    "#66CCEE",
    "#AA3377",
    "#888888",
)


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
    """A plotly figure; `description` is what a screen reader says in its place."""

    figure: Figure
    title: str
    caption: str
    description: str

    @property
    def height(self) -> int:
        return int(self.figure.layout.height or 400)

    @property
    def json(self) -> Markup:
        """The figure for a <script>: "<" is escaped, so that no label can end the element."""
        from markupsafe import Markup

        return Markup(self.figure.to_json(engine="json").replace("<", "\\u003c"))


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


Block = Prose | Facts | Table | Chart | Beside | Code | Details


@dataclass(frozen=True)
class Section:
    title: str
    blocks: tuple[Block, ...]


@dataclass(frozen=True)
class Page:
    title: str
    lead: str
    facts: Facts
    sections: tuple[Section, ...]


def new_figure(*, height: int) -> Figure:
    """An empty figure in the page's style: transparent, system fonts, no dragging, small margins."""
    from plotly.graph_objects import Figure, layout

    figure = Figure()
    figure.update_layout(
        template=layout.Template(),
        height=height,
        margin={"l": 56, "r": 18, "t": 34, "b": 44},
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        font={"family": FONTS, "size": 12},
        dragmode=False,
        hoverlabel={"font": {"family": FONTS}},
        legend={
            "orientation": "h",
            "x": 0,
            "xanchor": "left",
            "y": 1.01,
            "yanchor": "bottom",
            "font": {"size": 11},
        },
    )
    return figure


def literal(text: str) -> str:
    """Text for plotly, which reads labels as a small HTML.

    >>> literal("<b>&")
    '&lt;b&gt;&amp;'
    """
    return html.escape(text, quote=False)


def marked(text: str) -> Markup:
    """Escaped, with what stands in backticks as code.

    >>> marked("`plain` < `mix`")
    Markup('<code>plain</code> &lt; <code>mix</code>')
    """
    from markupsafe import Markup

    return Markup(re.sub("`([^`]+)`", r"<code>\1</code>", html.escape(text)))


def render(page: Page) -> str:
    """The page as one HTML document."""
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup
    from plotly.offline import get_plotlyjs

    environment = Environment(
        loader=PackageLoader("calmix.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["marked"] = marked
    environment.filters["kind"] = lambda block: type(block).__name__
    return environment.get_template("page.html").render(page=page, plotly=Markup(get_plotlyjs()))


def write_page(page: Page, path: Path) -> Path:
    with replacing(path) as fresh:
        fresh.write_text(render(page), encoding="utf-8")
    return path
