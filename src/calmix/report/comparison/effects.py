"""The effects of the methods of a comparison: forest plots of the differences to plain fine-tuning."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from calmix.report.comparison.comparison_tables import (
    STAGES,
    TITLES,
    compared_metrics,
    difference_cell,
    differences_of,
    reference_title,
)
from calmix.report.pages.forest import Effect, forest
from calmix.report.pages.page import Forest
from calmix.report.pages.plot import Legend
from calmix.report.tables import Metric

KINDS = {"uncalibrated": "red", "calibrated": "blue"}
HEADLINE = ("accuracy", "nll", "ece")
READING = (
    "The dashed line is no difference. A filled dot "
    "is significant at 5 % after Holm's correction for the number of methods; a line is the 95 % interval. "
    "NLL measures how wrong the probabilities are, ECE how far confidence is from accuracy."
)


def headline_forest(data: Mapping[str, Any], split: str) -> Forest | None:
    """Each method raw against plain raw and, under it, with temperature scaling against plain with it."""
    metrics = [metric for metric in compared_metrics(data) if metric.key in HEADLINE]
    rows = []
    for arm in data["arms"]:
        staged = [effects_of(data, split, arm, stage, stage, metrics) for stage in STAGES]
        cells = [[one[place] for one in staged if place in one] for place in range(len(metrics))]
        if any(cells):
            rows.append((arm["name"], "", cells))
    if not rows:
        return None
    legend = Legend(
        tuple(
            ("line", KINDS[stage], f"{words} against {reference_title(data, stage)}")
            for stage, words in STAGES.items()
        )
    )
    return forest(f"Effect on {split}", titles(metrics), rows, legend=legend, compact=True)


def difference_forest(data: Mapping[str, Any], split: str, reference_stage: str, caption: str) -> Forest:
    """Every method at both stages against one stage of plain, for all metrics that are compared."""
    metrics = compared_metrics(data)
    rows = []
    for arm in data["arms"]:
        for stage, words in STAGES.items():
            found = effects_of(data, split, arm, stage, reference_stage, metrics)
            if found:
                cells = [[found[place]] if place in found else [] for place in range(len(metrics))]
                rows.append((arm["name"], words, cells))
    return forest(caption, titles(metrics), rows)


def titles(metrics: Sequence[Metric]) -> list[str]:
    """With the side that is better."""
    return [
        f"Δ {TITLES.get(metric.key, metric.title)} {'better →' if metric.key == 'accuracy' else '← better'}"
        for metric in metrics
    ]


def effects_of(
    data: Mapping[str, Any],
    split: str,
    arm: Mapping[str, Any],
    stage: str,
    reference_stage: str,
    metrics: Sequence[Metric],
) -> dict[int, Effect]:
    """By the place of their metric, in the unit it is shown in."""
    found = differences_of(data, split, arm, stage, reference_stage)
    return {
        place: Effect(
            metric.scale * found[metric.key]["difference"],
            metric.scale * found[metric.key]["low"],
            metric.scale * found[metric.key]["high"],
            difference_cell(metric, found[metric.key]),
            KINDS[stage],
            bool(found[metric.key]["significant"]),
        )
        for place, metric in enumerate(metrics)
        if metric.key in found
    }
