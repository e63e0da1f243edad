"""Colours, and what all figures have in common."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from calmix.printable import printable

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLOURS = {
    "blue": "#3a6ea5", "red": "#cf4a5f", "yellow": "#a8922a", "green": "#22813a", "purple": "#9a3070",
    "cyan": "#2a93b5", "grey": "#7b8694", "ink": "#222222", "band": "#d9e0e9", "bars": "#b9c7d8",
}  # fmt: skip
SHAPES = {"circle": "o", "square": "s", "diamond": "D", "up": "^", "down": "v"}


def canvas(width: float, height: float) -> Figure:
    """An empty sheet, in inches; it belongs to no window."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def words(text: str) -> str:
    r"""A name of unknown origin as matplotlib shows it: no formula, and never left out of a legend.

    >>> words("$x$"), words("_private"), words("a\x1b")
    ('\\$x\\$', ' _private', 'a\\x1b')
    """
    safe = printable(text).replace("$", r"\$")
    return f" {safe}" if safe.startswith("_") else safe


def percents(*axes: Any) -> None:
    """Shares as percentages."""
    from matplotlib.ticker import PercentFormatter

    for axis in axes:
        axis.set_major_formatter(PercentFormatter(1.0))


def bare(*axes: Any) -> None:
    """Without the frame's upper and right side."""
    for one in axes:
        one.spines[["top", "right"]].set_visible(False)
