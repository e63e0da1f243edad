"""A chart as SVG that keeps the size of its letters at any width.

Positions are percentages of the drawing area, so that the browser stretches the chart and not its text;
labels of the axes stand outside the area, where the style sheet leaves room. Colours are classes, which
follow the light or dark theme; every mark can carry a title that the browser shows on hover.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Literal

from markupsafe import Markup, escape

from calmix.printable import printable
from calmix.report.pages.axes import Axis

Shape = Literal["circle", "ring", "square", "diamond", "up", "down", "cross"]
Swatch = Literal["circle", "ring", "square", "diamond", "up", "down", "cross", "line", "dashed", "box"]
SHAPES: Mapping[str, str] = {
    "square": "M-4.2-4.2H4.2V4.2H-4.2Z",
    "diamond": "M0-5.5 5.5 0 0 5.5-5.5 0Z",
    "up": "M0-5.2 5.2 4.2H-5.2Z",
    "down": "M0 5.2 5.2-4.2H-5.2Z",
    "cross": "M-4.5-4.5 4.5 4.5M-4.5 4.5 4.5-4.5",
}


@dataclass
class Plot:
    """The drawing area and what is drawn in it, in the order of the calls."""

    x: Axis
    y: Axis
    height: int = 300
    parts: list[Markup] = field(default_factory=list)

    def bar(self, x: tuple[float, float], y: tuple[float, float], kind: str, tip: str = "") -> None:
        left, right = sorted(map(self.x.share, x))
        low, high = sorted(map(self.y.share, y))
        attributes = {
            "x": _percent(left),
            "y": _percent(1 - high),
            "width": _percent(right - left),
            "height": _percent(high - low),
        }
        self.parts.append(tag("rect", {**attributes, "class": kind}, _title(tip)))

    def line(self, points: Iterable[tuple[float, float | None]], kind: str, tip: str = "") -> None:
        """Segments from point to point; a missing value leaves a gap."""
        known = list(points)
        for (x0, y0), (x1, y1) in pairwise(known):
            if y0 is not None and y1 is not None:
                ends = {"x1": self._x(x0), "y1": self._y(y0), "x2": self._x(x1), "y2": self._y(y1)}
                self.parts.append(tag("line", {**ends, "class": kind}, _title(tip)))

    def mark(self, x: float, y: float, shape: Shape, kind: str, tip: str = "", size: float = 4.5) -> None:
        if shape in ("circle", "ring"):
            drawn = tag("circle", {"r": f"{size:g}", "class": f"{kind} {shape}"}, _title(tip))
        else:
            drawn = tag("path", {"d": SHAPES[shape], "class": f"{kind} {shape}"}, _title(tip))
        # A drawing of no size whose origin is at a percentage: shapes know no percentages.
        self.parts.append(tag("svg", {"x": self._x(x), "y": self._y(y), "overflow": "visible"}, drawn))

    def dots(self, points: Iterable[tuple[float, float, str]], kind: str) -> None:
        """Many small points."""
        self.parts += [
            tag("circle", {"cx": self._x(x), "cy": self._y(y), "r": "2.6", "class": kind}, _title(tip))
            for x, y, tip in points
        ]

    def svg(self, description: str) -> Markup:
        """The axes, then everything drawn."""
        attributes = {"class": "plot", "height": str(self.height), "role": "img", "aria-label": description}
        return tag("svg", attributes, Markup("").join([*self._axes(), *self.parts]))

    def _x(self, value: float) -> str:
        return _percent(self.x.share(value))

    def _y(self, value: float) -> str:
        return _percent(1 - self.y.share(value))

    def _axes(self) -> list[Markup]:
        parts = []
        for value, label in self.y.ticks:
            at = self._y(value)
            parts.append(tag("line", {"x1": "0", "x2": "100%", "y1": at, "y2": at, "class": "grid"}))
            parts.append(
                tag("text", {"x": "-8", "y": at, "dy": "0.32em", "class": "tick end"}, escape(label))
            )
        for value, label in self.x.ticks:
            at = self._x(value)
            parts.append(tag("line", {"x1": at, "x2": at, "y1": "0", "y2": "100%", "class": "grid"}))
            parts.append(
                tag("text", {"x": at, "y": "100%", "dy": "1.5em", "class": "tick middle"}, escape(label))
            )
        if self.x.title:
            place = {"x": "50%", "y": "100%", "dy": "3.1em", "class": "axis middle"}
            parts.append(tag("text", place, escape(self.x.title)))
        if self.y.title:
            # Above the area rather than beside it: it stays upright and takes no width.
            parts.append(tag("text", {"x": "-44", "y": "-10", "class": "axis"}, escape(self.y.title)))
        return parts


@dataclass(frozen=True)
class Legend:
    """What the marks of a chart mean, beside it as text."""

    entries: tuple[tuple[Swatch, str, str], ...]
    """Shape, kind (a class of colour), words."""

    def swatches(self) -> Sequence[tuple[Markup, str]]:
        return [(swatch(shape, kind), words) for shape, kind, words in self.entries]


def swatch(shape: Swatch, kind: str) -> Markup:
    if shape in ("line", "dashed"):
        attributes = {"x1": "0", "x2": "20", "y1": "6", "y2": "6", "class": f"{kind} {shape}"}
        return _swatch(20, tag("line", attributes))
    if shape == "box":
        return _swatch(14, tag("rect", {"y": "1", "width": "14", "height": "10", "class": kind}))
    if shape in ("circle", "ring"):
        return _swatch(12, tag("circle", {"cx": "6", "cy": "6", "r": "4.5", "class": f"{kind} {shape}"}))
    return _swatch(
        12, tag("path", {"d": SHAPES[shape], "transform": "translate(6 6)", "class": f"{kind} {shape}"})
    )


def _swatch(width: int, inside: Markup) -> Markup:
    return tag("svg", {"width": str(width), "height": "12", "aria-hidden": "true"}, inside)


def tag(name: str, attributes: Mapping[str, str], inside: Markup | str = "") -> Markup:
    """
    >>> tag("text", {"class": "a&b"}, "<x>")
    Markup('<text class="a&amp;b">&lt;x&gt;</text>')
    """
    listed = Markup("").join(Markup(' {}="{}"').format(key, value) for key, value in attributes.items())
    return Markup("<{0}{1}>{2}</{0}>").format(name, listed, inside)


def _title(tip: str) -> Markup:
    return tag("title", {}, printable(tip)) if tip else Markup("")


def _percent(share: float) -> str:
    """
    >>> _percent(0.25), _percent(1 / 3)
    ('25%', '33.333%')
    """
    return f"{round(100 * share, 3):g}%"
