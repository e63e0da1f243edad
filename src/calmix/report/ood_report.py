"""`ood.html`: how well a run's confidence tells familiar data from other data."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from calmix.report.page import (
    BLUE,
    CYAN,
    GREEN,
    GREY,
    PURPLE,
    RED,
    YELLOW,
    Beside,
    Block,
    Chart,
    Fact,
    Facts,
    Page,
    Prose,
    Section,
    literal,
    new_figure,
    write_page,
)
from calmix.report.tables import Column, Table

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

SCORE_TITLES = {
    "msp": "confidence",
    "max_logit": "largest logit",
    "energy": "energy",
    "entropy": "entropy",
    "mc_msp": "confidence, MC",
    "mc_entropy": "entropy, MC",
}
METRIC_TITLES = {
    "auroc": ("AUROC %", "the chance that a familiar row scores above another; 50 is guessing"),
    "aupr_in": ("AUPR in %", "average precision of finding familiar rows"),
    "aupr_out": ("AUPR out %", "average precision of finding the others"),
    "fpr95": ("FPR@95 %", "others that pass where 95 % of the familiar rows do; smaller is better"),
}
STAGE_TITLES = {
    "uncalibrated": "Raw",
    "calibrated": "After temperature scaling",
    "mc_dropout": "MC dropout, raw",
}
COLOURS = (BLUE, RED, GREEN, YELLOW, PURPLE, CYAN, GREY)


def write_ood_report(result: Mapping[str, Any], path: Path) -> Path:
    """Write the page of what `calmix ood` found."""
    return write_page(ood_page(result), path)


def detection_table(result: Mapping[str, Any]) -> Table:
    """One row for every out-set, stage and score, with 95 % intervals."""
    columns = [Column(title, meaning) for title, meaning in METRIC_TITLES.values()]
    rows = tuple(
        (
            found["out"],
            STAGE_TITLES[found["stage"]].lower(),
            SCORE_TITLES[found["score"]],
            *(with_interval(found, metric) for metric in METRIC_TITLES),
        )
        for found in result["scores"]
    )
    return Table(
        caption=f"Detection of other data than {result['in']}, with 95 % intervals",
        columns=(
            Column("Other data", numeric=False),
            Column("Stage", numeric=False),
            Column("Score", numeric=False),
            *columns,
        ),
        rows=rows,
        grouped=True,
    )


def headline_table(result: Mapping[str, Any]) -> Table:
    """What fits in a terminal: AUROC before and after temperature scaling, FPR@95 after."""
    by_stage = {(found["out"], found["score"], found["stage"]): found for found in result["scores"]}
    pairs = dict.fromkeys((found["out"], found["score"]) for found in result["scores"])
    rows = []
    for out, score in pairs:
        before, after = (by_stage[out, score, stage] for stage in ("uncalibrated", "calibrated"))
        cells = [with_interval(before, "auroc"), with_interval(after, "auroc")]
        rows.append((out, SCORE_TITLES[score], *cells, f"{100 * after['fpr95']:.1f}"))
    return Table(
        caption=f"Detection of other data than {result['in']}, with 95 % intervals",
        columns=(
            Column("Other data", numeric=False),
            Column("Score", numeric=False),
            Column("AUROC %, raw"),
            Column("AUROC %, calibrated"),
            Column("FPR@95 %"),
        ),
        rows=tuple(rows),
        grouped=True,
    )


def with_interval(found: Mapping[str, Any], metric: str) -> str:
    """
    >>> with_interval({"auroc": 0.9312, "auroc_ci": [0.92, 0.9455]}, "auroc")
    '93.1 [92.0, 94.5]'
    """
    low, high = found[f"{metric}_ci"]
    return f"{100 * found[metric]:.1f} [{100 * low:.1f}, {100 * high:.1f}]"


def ood_page(result: Mapping[str, Any]) -> Page:
    sets = result["sets"]
    stages = list(sets[0]["mean_confidence"])
    charts = tuple(
        Chart(
            figure=confidence_figure(result["histograms"], stage),
            title=STAGE_TITLES[stage],
            caption=confidence_caption(result, stage),
            description=f"Histogram of confidence, {stage}. {confidence_caption(result, stage)}",
        )
        for stage in stages
    )
    blocks: list[Block] = [Prose(note, "note") for note in result["notes"]]
    return Page(
        title="Does the model know what it does not know?",
        lead=ood_lead(result),
        facts=Facts(
            (
                Fact("Run", Path(result["run"]).name, result["run"]),
                Fact("Method", str(result["method"])),
                Fact("Temperature", f"{result['temperature']:.3f}"),
                Fact("MC dropout", f"{result['mc_dropout']} passes" if result["mc_dropout"] else "none"),
                *(Fact(one["name"], f"{one['rows']:,} rows") for one in sets),
            )
        ),
        sections=(
            Section("Confidence", (Beside(charts),)),
            Section(
                "Detection",
                (detection_table(result), *(Prose(line) for line in conclusions(result)[-2:]), *blocks),
            ),
            Section("How to read this", tuple(Prose(text) for text in READING)),
        ),
    )


READING = (
    "A row counts as familiar if its score is high. AUROC is the chance that a familiar row scores above one "
    "of the other set: 50 % is guessing, 100 % is perfect.",
    "Scores: the largest probability (confidence), the largest logit, the energy log Σ exp z, the negative "
    "entropy; MC: of the mean over passes with dropout on. MC dropout, raw, has no temperature in its "
    "passes.",
    "A temperature changes the order of rows by confidence only where there are more than two classes, and "
    "that of rows by their largest logit never.",
    "Intervals are percentiles of a bootstrap over the rows of both sets; not over runs.",
)


def conclusions(result: Mapping[str, Any]) -> list[str]:
    """The verdicts, the score to reject rows by, and what its threshold does to every set."""
    recommended, rejection = result["recommended"], result["rejection"]
    lines = [
        *result["verdicts"],
        f"recommended score: {SCORE_TITLES[recommended['score']]}; {recommended['reason']}",
    ]
    if rejection["threshold"] is None:
        return [*lines, rejection["rule"]]
    shares = ", ".join(f"{100 * share:.1f} % of {name}" for name, share in rejection["rejected"].items())
    return [*lines, f"{rejection['rule']}; it rejects {shares}"]


def ood_lead(result: Mapping[str, Any]) -> str:
    """The verdicts, and what happens to confidence on other data."""
    first, *others = result["sets"]
    said = [f"On {first['name']} the calibrated model has a mean confidence of {_percent(first)}"]
    said += [f"on {one['name']} {_percent(one)}" for one in others]
    return " ".join([*result["verdicts"], ", ".join(said) + "."])


def _percent(one: Mapping[str, Any]) -> str:
    return f"{100 * one['mean_confidence']['calibrated']:.1f} %"


def confidence_caption(result: Mapping[str, Any], stage: str) -> str:
    means = [f"{one['name']} {100 * one['mean_confidence'][stage]:.1f} %" for one in result["sets"]]
    return f"The share of rows by confidence. Mean confidence: {', '.join(means)}."


def confidence_figure(histograms: Mapping[str, Any], stage: str) -> Figure:
    """One outline for every set; the familiar one is filled."""
    from plotly.graph_objects import Scatter

    figure = new_figure(height=360)
    edges = histograms["edges"]
    for place, (name, shares) in enumerate(histograms["shares"].items()):
        heights = [100 * share for share in shares[stage]]
        figure.add_trace(
            Scatter(
                name=literal(name),
                x=edges,
                y=[*heights, heights[-1]],
                mode="lines",
                line={"shape": "hv", "width": 2, "color": COLOURS[place % len(COLOURS)]},
                fill="tozeroy" if place == 0 else None,
                hovertemplate="%{x:.2f}: %{y:.1f} %<extra>" + literal(name) + "</extra>",
            )
        )
    figure.update_layout(
        xaxis={"title": {"text": "confidence"}, "range": [0, 1]},
        yaxis={"title": {"text": "rows, %"}, "rangemode": "tozero"},
    )
    return figure
