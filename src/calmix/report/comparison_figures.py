"""The charts of a comparison: differences with their intervals, and what temperature scaling does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from textwrap import wrap
from typing import TYPE_CHECKING, Any

from calmix.report.comparison_tables import STAGES, TITLES, compared_metrics, differences_of
from calmix.report.page import BLUE, GREY, RED, literal, new_figure
from calmix.report.tables import METRICS, Metric

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

COLOURS = {"uncalibrated": RED, "calibrated": BLUE}
ROW_HEIGHT = 34
# Of a line, in letters.
LABEL_WIDTH = 36
# Above and below the rows: titles, axis, legend.
FRAME = 120


def difference_figure(data: Mapping[str, Any], split: str, reference_stage: str) -> Figure:
    """A dot and its 95 % interval for every arm and stage, one panel per metric; 0 is the reference.

    Filled where the difference is significant after the correction for the number of arms, else open.
    """
    from plotly.graph_objects import Scatter

    metrics = compared_metrics(data)
    arms = [
        arm
        for arm in data["arms"]
        if any(differences_of(data, split, arm, stage, reference_stage) for stage in STAGES)
    ]
    figure = _panels(metrics, [arm["name"] for arm in arms], "Δ ")
    for stage, title in STAGES.items():
        for panel, metric in enumerate(metrics, 1):
            found = [differences_of(data, split, arm, stage, reference_stage).get(metric.key) for arm in arms]
            points = [(place, d) for place, d in enumerate(found) if d is not None]
            middle = [metric.scale * d["difference"] for _, d in points]
            figure.add_trace(
                Scatter(
                    name=title,
                    legendgroup=stage,
                    showlegend=panel == 1,
                    mode="markers",
                    x=middle,
                    y=[place + _offset(stage) for place, _ in points],
                    xaxis=_axis("x", panel),
                    marker={
                        "color": COLOURS[stage],
                        "size": 9,
                        "symbol": ["circle" if d["significant"] else "circle-open" for _, d in points],
                        "line": {"width": 2, "color": COLOURS[stage]},
                    },
                    error_x={
                        "type": "data",
                        "array": [metric.scale * (d["high"] - d["difference"]) for _, d in points],
                        "arrayminus": [metric.scale * (d["difference"] - d["low"]) for _, d in points],
                        "color": COLOURS[stage],
                        "thickness": 1.5,
                        "width": 3,
                    },
                    customdata=[
                        [literal(d["arm"]), metric.scale * d["low"], metric.scale * d["high"]]
                        for _, d in points
                    ],
                    hovertemplate=(
                        f"%{{customdata[0]}} {title}<br>%{{x:+.4g}} "
                        "[%{customdata[1]:+.4g}, %{customdata[2]:+.4g}]<extra></extra>"
                    ),
                )
            )
    for panel in range(1, len(metrics) + 1):
        figure.add_shape(
            type="line", x0=0, x1=0, y0=-0.5, y1=len(arms) - 0.5, xref=_axis("x", panel), yref="y",
            line={"color": GREY, "width": 1.5, "dash": "dash"},
        )  # fmt: skip
    return figure


def temperature_figure(data: Mapping[str, Any], split: str) -> Figure:
    """Each arm's mean over seeds before and after temperature scaling, with one standard deviation."""
    from plotly.graph_objects import Scatter

    metrics = [metric for metric in METRICS if metric.key in ("nll", "ece")]
    records = {
        (record["arm"], record["stage"]): record for record in data["summary"] if record["split"] == split
    }
    arms = [arm["name"] for arm in data["arms"] if (arm["name"], "calibrated") in records]
    figure = _panels(metrics, arms, "")
    for panel, metric in enumerate(metrics, 1):

        def values(stage: str, kind: str, metric: Metric = metric) -> list[float]:
            return [metric.scale * (records[arm, stage][f"{metric.key}_{kind}"] or 0.0) for arm in arms]

        joined_x = [
            x for pair in zip(*(values(s, "mean") for s in STAGES), strict=True) for x in (*pair, None)
        ]
        figure.add_trace(
            Scatter(
                mode="lines",
                x=joined_x,
                y=[y for place in range(len(arms)) for y in (place, place, None)],
                xaxis=_axis("x", panel),
                line={"color": GREY, "width": 2},
                hoverinfo="skip",
                showlegend=False,
            )
        )
        for stage, title in STAGES.items():
            figure.add_trace(
                Scatter(
                    name=title,
                    legendgroup=stage,
                    showlegend=panel == 1,
                    mode="markers",
                    x=values(stage, "mean"),
                    y=list(range(len(arms))),
                    xaxis=_axis("x", panel),
                    marker={"color": COLOURS[stage], "size": 10},
                    error_x={
                        "type": "data",
                        "array": values(stage, "std"),
                        "color": COLOURS[stage],
                        "thickness": 1.5,
                        "width": 3,
                    },
                    customdata=list(zip(map(literal, arms), values(stage, "std"), strict=True)),
                    hovertemplate=(
                        f"%{{customdata[0]}} {title}<br>%{{x:.4g}} ± %{{customdata[1]:.2g}}<extra></extra>"
                    ),
                )
            )
    return figure


def height_for(arms: Sequence[str]) -> int:
    """Of a figure with a row for each arm."""
    return FRAME + ROW_HEIGHT * max(len(arms), 2)


def axis_of_arms(arms: Sequence[str]) -> dict[str, Any]:
    """A row for each arm, the first on top."""
    return {
        "tickmode": "array",
        "tickvals": list(range(len(arms))),
        "ticktext": [_in_lines(name) for name in arms],
        "range": [len(arms) - 0.5, -0.5],
        "showgrid": True,
        "zeroline": False,
        "automargin": True,
    }


def _in_lines(name: str) -> str:
    """A long name in two lines, which a row has room for.

    >>> _in_lines("plain teacher=informed-mixup teacher_label_smoothing=0.1 student_layers=3")
    'plain teacher=informed-mixup<br>teacher_label_smoothing=0.1 student_layers=3'
    """
    widths = range(LABEL_WIDTH, max(LABEL_WIDTH, len(name)) + 1)
    forms = (wrap(name, width, break_on_hyphens=False) for width in widths)
    return "<br>".join(literal(line) for line in next(lines for lines in forms if len(lines) <= 2))


def _panels(metrics: Sequence[Metric], arms: Sequence[str], prefix: str) -> Figure:
    """An empty figure: a row per arm, the first on top; a column per metric with its own scale."""
    figure = new_figure(height=height_for(arms))
    gap = 0.04
    width = (1 - gap * (len(metrics) - 1)) / len(metrics)
    axes: dict[str, Any] = {"yaxis": axis_of_arms(arms)}
    for panel, metric in enumerate(metrics, 1):
        start = (panel - 1) * (width + gap)
        axes[f"xaxis{panel if panel > 1 else ''}"] = {
            "domain": [start, min(start + width, 1.0)],
            "title": {"text": f"{prefix}{TITLES.get(metric.key, metric.title)}"},
            "anchor": "y",
            "nticks": 5,
            "showgrid": True,
            "zeroline": False,
        }
    figure.update_layout(**axes)
    return figure


def _axis(letter: str, panel: int) -> str:
    return letter if panel == 1 else f"{letter}{panel}"


def _offset(stage: str) -> float:
    """The two stages of an arm, one above the other."""
    return -0.14 if stage == "uncalibrated" else 0.14
