"""The numbers that a paper prints: "90.04 ± 0.3"."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Published:
    """A printed number, in the unit of the table, and what stands behind its ±."""

    value: float
    spread: float | None = None

    @classmethod
    def parse(cls, cell: Any) -> Published | None:
        """A cell of a preset; None for a number that the text at hand does not have.

        >>> Published.parse("90.04 ± 0.3")
        Published(value=90.04, spread=0.3)
        >>> Published.parse(7.7), Published.parse(None)
        (Published(value=7.7, spread=None), None)
        """
        if cell is None:
            return None
        value, _, spread = str(cell).partition("±")
        found = cls(float(value), float(spread) if spread.strip() else None)
        if isinstance(cell, bool) or not math.isfinite(found.value):
            raise ValueError(cell)
        return found

    def __str__(self) -> str:
        """
        >>> str(Published(90.04, 0.3)), str(Published(7.7))
        ('90.04 ± 0.3', '7.7')
        """
        return f"{self.value:g}" if self.spread is None else f"{self.value:g} ± {self.spread:g}"
