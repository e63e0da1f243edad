"""Presets that train nothing: the hyper-parameters of a paper beside those that its presets use, and how soft
mixup makes the labels: the mean entropy of mixed targets by α.

For two different labels the target is (λ, 1 − λ) with λ ~ Beta(α, α), and its mean entropy is known:

    E[H] = ψ(2α + 1) − ψ(α + 1)  nats

The draws are those of training (`mixing.pairing`), so that the table shows what the code does beside what the
formula says. Figure 5 of Thulasidasan et al. 2019 shows the distribution of these entropies.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

from calmix.experiments.significance import Spread
from calmix.mixing.pairing import draw_ratio
from calmix.reproduction.blocks import blocks_of
from calmix.reproduction.catalogue import all_presets
from calmix.reproduction.outcome import POINTS, MeasuredCell, MeasuredEffect, Outcome
from calmix.reproduction.preset import FULL, Preset
from calmix.runtime.randomness import stream

ENTROPY_SEEDS = (0, 1, 2, 3, 4)
DRAWS = 20_000


def analyse(preset: Preset, outcome: Outcome) -> Outcome:
    """The outcome of a preset without runs."""
    return ANALYSES[preset.analysis](preset, outcome)


def _label_entropy(preset: Preset, outcome: Outcome) -> Outcome:
    """Rows are values of α, the one column is the mean entropy of the targets."""
    column = preset.columns[0]
    cells = []
    for row in preset.rows:
        found = [float(drawn_entropies(float(row.title), seed).mean()) for seed in ENTROPY_SEEDS]
        mean = sum(found) / len(found)
        deviation = (sum((value - mean) ** 2 for value in found) / (len(found) - 1)) ** 0.5
        cells.append(MeasuredCell(row.title, column, "entropy", mean, deviation, len(found), DRAWS))
    effects = []
    for claim in preset.claims:
        spread = entropy_effect(float(claim.arm), float(claim.against))
        values = tuple(cell.mean for name in (claim.arm, claim.against) for cell in cells if cell.row == name)
        effects.append(
            MeasuredEffect(
                claim.key, column, spread.difference, spread.rows_variance, spread.seeds_variance,
                spread.seeds, (values[0], values[1]),
            )
        )  # fmt: skip
    return dataclasses.replace(outcome, cells=cells, effects=effects, finished=True)


def drawn_entropies(alpha: float, seed: int) -> np.ndarray[Any, Any]:
    """Entropies of mixed targets of two labels, λ drawn as a step of training draws it."""
    from scipy.special import entr

    ratios = draw_ratio(alpha, stream(seed, "reproduction: label entropy"), size=DRAWS)
    return np.asarray(entr(ratios) + entr(1 - ratios))


def entropy_effect(ours: float, theirs: float) -> Spread:
    points = np.array(
        [(drawn_entropies(ours, seed) - drawn_entropies(theirs, seed)).mean() for seed in ENTROPY_SEEDS]
    )
    return Spread(float(points.mean()), 0.0, float(points.var(ddof=1)) / len(points), len(points))


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
