"""Presets that train nothing: the hyper-parameters of a paper beside those that its presets use, and the
entropy of mixed labels."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from calmix.reproduction.blocks import blocks_of
from calmix.reproduction.catalogue import all_presets
from calmix.reproduction.label_entropy import DRAWS, entropy_cell, entropy_effect
from calmix.reproduction.outcome import POINTS, MeasuredCell, MeasuredEffect, Outcome
from calmix.reproduction.preset import FULL, Preset

ENTROPY_SEEDS = (0, 1, 2, 3, 4)


def analyse(preset: Preset, outcome: Outcome) -> Outcome:
    """The outcome of a preset without runs."""
    return ANALYSES[preset.analysis](preset, outcome)


def _label_entropy(preset: Preset, outcome: Outcome) -> Outcome:
    """Rows are values of α, the one column is the mean entropy of the targets."""
    column = preset.columns[0]
    cells = []
    for row in preset.rows:
        found = entropy_cell(float(row.title), ENTROPY_SEEDS)["values"]
        mean = sum(found) / len(found)
        deviation = (sum((value - mean) ** 2 for value in found) / (len(found) - 1)) ** 0.5
        cells.append(MeasuredCell(row.title, column, "entropy", mean, deviation, len(found), DRAWS))
    effects = []
    for claim in preset.claims:
        spread = entropy_effect(float(claim.arm), float(claim.against), ENTROPY_SEEDS)
        values = tuple(cell.mean for name in (claim.arm, claim.against) for cell in cells if cell.row == name)
        effects.append(
            MeasuredEffect(
                claim.key, column, spread.difference, spread.rows_variance, spread.seeds_variance,
                spread.seeds, (values[0], values[1]),
            )
        )  # fmt: skip
    return dataclasses.replace(outcome, cells=cells, effects=effects, finished=True)


def _settings(preset: Preset, outcome: Outcome) -> Outcome:
    """Rows are tasks, columns hyper-parameters; the numbers are those of the paper's other presets at
    `full`."""
    used: dict[str, dict[str, float]] = {}
    for other in all_presets():
        if other.paper != preset.paper or other.analysis:
            continue
        for block in blocks_of(other, other.scales[FULL]):
            settings = block.settings()
            options = [block.options(arm) for arm in block.arms]
            found = {
                **settings,
                "alpha": max((one["alpha"] for one in options if "alpha" in one), default=None),
            }
            used.setdefault(block.task.title, {}).update(
                {name: float(value) for name, value in found.items() if isinstance(value, int | float)}
            )
    cells = [
        MeasuredCell(row.title, column, preset.metrics[0], used[row.title][column] / POINTS, None, 1, 1)
        for row in preset.rows
        for column in preset.columns
        if column in used.get(row.title, {})
    ]
    return dataclasses.replace(outcome, cells=cells, finished=True)


ANALYSES: dict[str, Callable[[Preset, Outcome], Outcome]] = {
    "label_entropy": _label_entropy,
    "settings": _settings,
}
