"""Ticks of an axis, and how their numbers are written."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise


@dataclass(frozen=True)
class Axis:
    """A range of numbers with its ticks and their labels."""

    low: float
    high: float
    ticks: tuple[tuple[float, str], ...]
    title: str = ""

    def share(self, value: float) -> float:
        """Where a value lies between both ends, 0 to 1."""
        return (value - self.low) / (self.high - self.low)


def nice_ticks(low: float, high: float, wanted: int = 5) -> list[float]:
    """Multiples of 1, 2 or 5 times a power of ten inside a range, about as many as wanted.

    >>> nice_ticks(0, 1), nice_ticks(-0.03, 0.04, 3)
    ([0.0, 0.2, 0.4, 0.6, 0.8, 1.0], [-0.02, 0.0, 0.02, 0.04])
    """
    rough = (high - low) / wanted
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(times * power for times in (1, 2, 5, 10) if times * power >= 0.8 * rough)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [round(k * step, 12) for k in range(first, last + 1)]


def number_axis(values: Iterable[float | None], title: str = "", *, zero: bool = False) -> Axis:
    """An axis that holds these values, with `zero` from 0 on.

    >>> number_axis([0.2, 0.9], zero=True).ticks[-1]
    (0.8, '0.8')
    >>> number_axis([0.0, 1e-17]).ticks[-1]  # what differs by rounding is one value
    (0.04, '0.04')
    """
    finite = [value for value in values if value is not None and math.isfinite(value)] or [0.0, 1.0]
    low, high = min(finite), max(finite)
    if zero:
        low, high = min(low, 0.0), max(high, 0.0)
    room = 0.05 * next(size for size in (high - low, abs(high), 1.0) if size > 1e-9)
    high += room
    if low or not zero:
        low -= room
    ticks = nice_ticks(low, high)
    return Axis(low, high, tuple((tick, plain_number(tick, ticks)) for tick in ticks), title)


def percent_axis(low: float, high: float, title: str = "", *, wanted: int = 5) -> Axis:
    """Fractions, written as percentages.

    >>> percent_axis(0, 1).ticks[1]
    (0.2, '20 %')
    """
    ticks = nice_ticks(100 * low, 100 * high, wanted)
    return Axis(low, high, tuple((tick / 100, f"{plain_number(tick, ticks)} %") for tick in ticks), title)


def plain_number(value: float, beside: list[float]) -> str:
    """With as many decimals as the ticks beside it need.

    >>> plain_number(-0.5, [-0.5, 0.0, 0.5]), plain_number(1000.0, [0.0, 1000.0])
    ('−0.5', '1,000')
    """
    step = min((b - a for a, b in pairwise(beside)), default=1.0)
    decimals = max(0, -math.floor(math.log10(step) + 1e-9))
    return f"{value:,.{decimals}f}".replace("-", "−")
