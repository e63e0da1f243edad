"""Of out-of-distribution detection: the confidence on every set of data, or the AUROC of every method."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from calmix.calibration.integrations.figure_canvas import COLOURS, bare, canvas, percents, words
from calmix.report.figures.files import file_name
from calmix.report.ood.ood_comparison import bar_lengths, confidence_records, ways_of
from calmix.report.ood.ood_report import KINDS, STAGE_TITLES

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def ood_figures(result: Mapping[str, Any]) -> dict[str, Figure]:
    """By the name of their file; `result`: what `calmix ood --json` prints, of a run or of a comparison."""
    if "summary" in result:
        outs = dict.fromkeys(record["out"] for record in result["summary"])
        return {f"auroc-{file_name(out)}": auroc_figure(result, out) for out in outs}
    stages = next(iter(result["histograms"]["shares"].values()))
    return {f"confidence-{stage}": confidence_figure(result, stage) for stage in stages}


def confidence_figure(result: Mapping[str, Any], stage: str = "calibrated") -> Figure:
    """The share of rows by confidence, one outline for every set; the familiar one is filled."""
    histograms = result["histograms"]
    figure = canvas(4.6, 3.2)
    axes = figure.subplots()
    used = []
    for place, (name, by_stage) in enumerate(histograms["shares"].items()):
        colour = COLOURS[KINDS[place % len(KINDS)]]
        shares = by_stage[stage]
        used += [histograms["edges"][where] for where, share in enumerate(shares) if share]
        axes.stairs(
            shares, histograms["edges"], color=colour, linewidth=1.4, label=words(name),
            fill=place == 0, alpha=0.35 if place == 0 else None,
        )  # fmt: skip
    axes.set(xlabel="confidence", ylabel="rows", xlim=(min(used, default=0.0), 1))
    axes.set_title(STAGE_TITLES[stage])
    axes.legend(frameon=False, fontsize=8)
    percents(axes.xaxis, axes.yaxis)
    bare(axes)
    return figure


def auroc_figure(result: Mapping[str, Any], out: str) -> Figure:
    """AUROC of every method by confidence: one standard deviation over seeds, or one seed's interval."""
    records = {arm: ways for (name, arm), ways in confidence_records(result).items() if name == out}
    ways = ways_of(result)
    figure = canvas(5.2, 1.4 + 0.5 * len(records))
    axes = figure.subplots()
    for place, way in enumerate(ways):
        there = [(row, by_way[way]) for row, by_way in enumerate(records.values()) if way in by_way]
        lengths = [bar_lengths(record) for _, record in there]
        axes.errorbar(
            [100 * record["auroc_mean"] for _, record in there],
            [row + 0.2 * (place - (len(ways) - 1) / 2) for row, _ in there],
            xerr=list(zip(*lengths, strict=True)),
            fmt="o", color=COLOURS[KINDS[place % len(KINDS)]], markersize=5, linewidth=1.2, label=way,
        )  # fmt: skip
    axes.axvline(50, color=COLOURS["grey"], linestyle="--", linewidth=1)
    axes.set_yticks(range(len(records)), [words(arm) for arm in records])
    axes.set_ylim(len(records) - 0.5, -0.5)
    axes.set(xlabel="AUROC %", title=words(f"{result['in']} against {out}"))
    figure.legend(loc="outside lower center", ncols=len(ways), frameon=False, fontsize=8)
    bare(axes)
    return figure
