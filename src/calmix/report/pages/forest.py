"""A forest plot as a table: every effect drawn with its interval beside its number.

A table is read by everybody: the numbers are text, a phone stacks the cells, a screen reader says the
headings. All cells of a column share one scale; the line marks no effect.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from calmix.report.pages.axes import nice_ticks, plain_number
from calmix.report.pages.page import NO_LEGEND, Forest
from calmix.report.pages.plot import SHAPES, Legend, Shape, tag


@dataclass(frozen=True)
class Effect:
    """A number with its interval, and how it is written."""

    value: float
    low: float
    high: float
    words: str
    kind: str = "blue"
    filled: bool = True
    other: float | None = None
    """A second number to compare with, such as the published one: a cross."""


def forest(
    caption: str,
    columns: Sequence[str],
    rows: Sequence[tuple[str, str, Sequence[Sequence[Effect]]]],
    *,
    origin: float = 0.0,
    legend: Legend = NO_LEGEND,
    compact: bool = False,
    head: str = "Method",
) -> Forest:
    """Rows are a name, a second name and the effects of each column, one under the other. `origin`: where no
    effect is."""
    scales = [
        _scale([one for _, _, cells in rows for one in cells[place]], origin) for place in range(len(columns))
    ]
    drawn = tuple(
        (
            name,
            second,
            tuple(
                (_draw(effects, *scales[place], origin), tuple(one.words for one in effects))
                if effects
                else None
                for place, effects in enumerate(cells)
            ),
        )
        for name, second, cells in rows
    )
    axes = tuple(_axis(low, high) for low, high in scales)
    return Forest(caption, tuple(columns), drawn, axes, legend, compact, head)


def _scale(effects: Sequence[Effect], origin: float) -> tuple[float, float]:
    ends = [end for effect in effects for end in (effect.low, effect.high, effect.value)]
    ends += [effect.other for effect in effects if effect.other is not None]
    low, high = min([*ends, origin]), max([*ends, origin])
    room = 0.06 * ((high - low) or 1.0)
    return low - room, high + room


def _axis(low: float, high: float) -> Markup:
    ticks = nice_ticks(low, high, 3)
    parts = []
    for tick in ticks:
        x = f"{100 * (tick - low) / (high - low):.2f}%"
        parts.append(tag("line", {"x1": x, "x2": x, "y1": "0", "y2": "5", "class": "grey thin"}))
        parts.append(tag("text", {"x": x, "y": "18", "class": "tick middle"}, plain_number(tick, ticks)))
    return tag("svg", {"class": "plot scale", "aria-hidden": "true"}, Markup("").join(parts))


def _draw(effects: Sequence[Effect], low: float, high: float, origin: float) -> Markup:
    def at(value: float) -> str:
        return f"{100 * (value - low) / (high - low):.2f}%"

    x = at(origin)
    parts = [tag("line", {"x1": x, "x2": x, "y1": "0", "y2": "100%", "class": "grey dashed thin"})]
    for place, effect in enumerate(effects):
        y = f"{100 * (place + 0.5) / len(effects):g}%"
        ends = {"x1": at(effect.low), "x2": at(effect.high), "y1": y, "y2": y}
        parts.append(tag("line", {**ends, "class": effect.kind}, tag("title", {}, effect.words)))
        if effect.other is not None:
            parts.append(_mark(at(effect.other), y, "cross", "ink"))
        parts.append(_mark(at(effect.value), y, "circle" if effect.filled else "ring", effect.kind))
    height = f"{14 * len(effects) + 10}"
    return tag("svg", {"aria-hidden": "true", "height": height}, Markup("").join(parts))


def _mark(x: str, y: str, shape: Shape, kind: str) -> Markup:
    if shape in SHAPES:
        drawn = tag("path", {"d": SHAPES[shape], "class": f"{kind} {shape}"})
    else:
        drawn = tag("circle", {"r": "4.5", "class": f"{kind} {shape}"})
    return tag("svg", {"x": x, "y": y, "overflow": "visible"}, drawn)
