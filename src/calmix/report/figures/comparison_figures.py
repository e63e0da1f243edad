"""Of a comparison: the effects of the methods with their intervals, and their reliability curves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from calmix.calibration.integrations.figure_canvas import COLOURS, SHAPES, bare, canvas, percents, words
from calmix.report.comparison.comparison_tables import STAGES, compared_metrics, reference_title, splits_of
from calmix.report.comparison.effects import HEADLINE, KINDS, effects_of, titles
from calmix.report.comparison.overlay import Curves, comparison_curves, marked_arms
from calmix.report.pages.forest import Effect
from calmix.user_error import UserError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

STAGE_NAMES = {"uncalibrated": "raw", "calibrated": "scaled"}


def comparison_figures(data: Mapping[str, Any]) -> dict[str, Figure]:
    """By the name of their file; `data`: what `calmix compare --json` prints. The curves are there as long
    as the predictions of the runs are."""
    figures = {}
    curves = comparison_curves(data)
    for split in splits_of(data):
        if drawn_effects(data, split):
            figures[f"effects-{split}"] = effects_figure(data, split)
        for stage, name in STAGE_NAMES.items():
            if any(stage in by_split.get(split, {}) for by_split in curves.values()):
                figures[f"reliability-{split}-{name}"] = curves_figure(data, curves, split, stage)
    return figures


def drawn_effects(data: Mapping[str, Any], split: str) -> dict[tuple[str, str], dict[int, Effect]]:
    """By method and stage: the differences from plain at that stage, by the place of their metric."""
    metrics = [metric for metric in compared_metrics(data) if metric.key in HEADLINE]
    found = {
        (arm["name"], stage): effects_of(data, split, arm, stage, stage, metrics)
        for arm in data["arms"]
        for stage in STAGES
    }
    return {place: effects for place, effects in found.items() if effects}


def effects_figure(data: Mapping[str, Any], split: str) -> Figure:
    """A forest plot: each method raw against plain raw, and with temperature scaling against plain with it;
    bars are 95 % intervals, filled marks significant differences."""
    effects = drawn_effects(data, split)
    if not effects:
        raise UserError(
            f"there are no differences on {split!r} to draw", remedy=f"choose among: {_there(data)}"
        )
    metrics = [metric for metric in compared_metrics(data) if metric.key in HEADLINE]
    arms = list(dict.fromkeys(arm for arm, _ in effects))
    figure = canvas(2.2 + 2.2 * len(metrics), 1.4 + 0.5 * len(arms))
    columns = figure.subplots(1, len(metrics), sharey=True, squeeze=False)[0]
    for (arm, stage), found in effects.items():
        y = arms.index(arm) + (-0.15 if stage == "uncalibrated" else 0.15)
        colour = COLOURS[KINDS[stage]]
        for place, effect in found.items():
            columns[place].plot([effect.low, effect.high], [y, y], color=colour, linewidth=1.4)
            columns[place].plot(
                [effect.value], [y], "o", color=colour, markersize=5,
                markerfacecolor=colour if effect.filled else "white",
            )  # fmt: skip
    for axes, title in zip(columns, titles(metrics), strict=True):
        axes.axvline(0, color=COLOURS["grey"], linestyle="--", linewidth=1)
        axes.set_xlabel(title)
        bare(axes)
    columns[0].set_yticks(range(len(arms)), [words(arm) for arm in arms])
    columns[0].set_ylim(len(arms) - 0.5, -0.5)
    handles = [
        columns[0].plot([], [], "o-", color=COLOURS[KINDS[stage]], markersize=5)[0] for stage in STAGES
    ]
    meanings = [words(f"{short} against {reference_title(data, stage)}") for stage, short in STAGES.items()]
    figure.legend(handles, meanings, loc="outside lower center", ncols=2, frameon=False, fontsize=8)
    figure.suptitle(words(split), fontsize=11)
    return figure


def reliability_curves_figure(data: Mapping[str, Any], split: str, stage: str) -> Figure:
    """The reliability curves of all methods."""
    return curves_figure(data, comparison_curves(data), split, stage)


def curves_figure(data: Mapping[str, Any], curves: Curves, split: str, stage: str) -> Figure:
    shown = [arm for arm in marked_arms(data, curves) if curves[arm["name"]].get(split, {}).get(stage)]
    if not shown:
        raise UserError(
            f"the predictions of the runs on {split!r} are not there",
            remedy=f"choose among: {_there(data)}; or keep the runs directory of the comparison",
        )
    figure = canvas(4.4, 4.2)
    axes = figure.subplots()
    points = {arm["name"]: curves[arm["name"]][split][stage] for arm in shown}
    start = min(min(point[:2]) for each in points.values() for point in each)
    axes.plot([start, 1], [start, 1], color=COLOURS["grey"], linestyle="--", linewidth=1)
    for arm in shown:
        confidence, accuracy, _ = zip(*points[arm["name"]], strict=True)
        axes.plot(
            confidence, accuracy, marker=SHAPES[arm["mark"]], color=COLOURS[arm["kind"]], markersize=4.5,
            linewidth=1.2, label=words(arm["name"]),
        )  # fmt: skip
    axes.set(xlabel="confidence", ylabel="accuracy", title=words(f"{split}, {STAGES[stage]}"))
    axes.legend(frameon=False, fontsize=8)
    percents(axes.xaxis, axes.yaxis)
    bare(axes)
    return figure


def _there(data: Mapping[str, Any]) -> str:
    return ", ".join(splits_of(data))
