"""Several tests at once: corrections for their number.

Of k tests, Holm (1979) rejects the j-th smallest p-value while p_(j) <= alpha / (k - j + 1): the chance of
any false finding is at most alpha, however the tests depend on each other.
"""

from __future__ import annotations

from collections.abc import Sequence


def holm(p_values: Sequence[float]) -> list[float]:
    """Adjusted p-values: max over i <= j of (k - i + 1) p_(i), at most 1.

    >>> [round(p, 3) for p in holm([0.01, 0.04, 0.03])]
    [0.03, 0.06, 0.06]
    """
    adjusted, highest = [0.0] * len(p_values), 0.0
    for step, place in enumerate(sorted(range(len(p_values)), key=lambda place: p_values[place])):
        highest = max(highest, min((len(p_values) - step) * p_values[place], 1.0))
        adjusted[place] = highest
    return adjusted


def holm_levels(p_values: Sequence[float], alpha: float = 0.05) -> list[float]:
    """The level of the step that decides about each: alpha / (k - j + 1), up to the first step that fails.

    The second of three is decided at 0.05 / 2, and so is the third, since the second fails.

    >>> [round(level, 4) for level in holm_levels([0.001, 0.04, 0.045])]
    [0.0167, 0.025, 0.025]
    """
    levels, level, failed = [alpha] * len(p_values), alpha, False
    for step, place in enumerate(sorted(range(len(p_values)), key=lambda place: p_values[place])):
        if not failed:
            level = alpha / (len(p_values) - step)
            failed = p_values[place] > level
        levels[place] = level
    return levels
