"""The charts of a reproduction: a forest plot of the claims, and the losses of every epoch."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import wrap
from typing import TYPE_CHECKING

from calmix.report.comparison_figures import axis_of_arms, height_for
from calmix.report.page import BLUE, CYAN, GREEN, GREY, PURPLE, RED, YELLOW, literal, new_figure
from calmix.reproduction.outcome import POINTS, JudgedEffect, Regime
from calmix.reproduction.preset import Preset
from calmix.reproduction.verdicts import HELD, REVERSED, UNDECIDED

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

COLOURS = {HELD: GREEN, REVERSED: RED, UNDECIDED: GREY}
ARM_COLOURS = (GREY, BLUE, RED, GREEN, PURPLE, YELLOW, CYAN)
LABEL_WIDTH = 44


def forest_figure(preset: Preset, found: Sequence[JudgedEffect]) -> Figure:
    """A dot and its interval for every claim and column, coloured by verdict; a cross is the paper's."""
    from plotly.graph_objects import Scatter

    names = [_label(preset, one) for one in found]
    figure = new_figure(height=height_for(names) + 20 * len(names))
    for word, colour in COLOURS.items():
        places = [place for place, one in enumerate(found) if one.verdict.word == word]
        if not places:
            continue
        middle = [POINTS * found[place].effect.difference for place in places]
        figure.add_trace(
            Scatter(
                name=word,
                mode="markers",
                x=middle,
                y=places,
                marker={"color": colour, "size": 10},
                error_x={
                    "type": "data",
                    "array": [
                        POINTS * found[p].verdict.high - m for p, m in zip(places, middle, strict=True)
                    ],
                    "arrayminus": [
                        m - POINTS * found[p].verdict.low for p, m in zip(places, middle, strict=True)
                    ],
                    "color": colour,
                    "thickness": 1.5,
                    "width": 3,
                },
                customdata=[literal(found[place].claim.statement) for place in places],
                hovertemplate="%{customdata}<br>%{x:+.2f}<extra>" + word + "</extra>",
            )
        )
    printed = [
        (place, one.claim.reported[one.effect.column])
        for place, one in enumerate(found)
        if one.effect.column in one.claim.reported
    ]
    if printed:
        figure.add_trace(
            Scatter(
                name="paper",
                mode="markers",
                x=[effect for _, effect in printed],
                y=[place for place, _ in printed],
                marker={"color": BLUE, "size": 10, "symbol": "x-thin", "line": {"width": 2, "color": BLUE}},
                hovertemplate="published %{x:+.2f}<extra></extra>",
            )
        )
    figure.add_shape(
        type="line",
        x0=0,
        x1=0,
        y0=-0.5,
        y1=len(names) - 0.5,
        line={"color": GREY, "width": 1.5, "dash": "dash"},
    )
    axis = axis_of_arms(names)
    axis["ticktext"] = ["<br>".join(map(literal, wrap(name, LABEL_WIDTH))) for name in names]
    figure.update_layout(yaxis=axis, xaxis={"title": {"text": "effect in points"}, "zeroline": False})
    return figure


def _label(preset: Preset, one: JudgedEffect) -> str:
    return f"{one.claim.key}, {preset.column_titles[one.effect.column]}"


def regime_figure(regimes: Sequence[Regime]) -> Figure:
    """Training loss (dotted) and validation NLL (solid) of every arm of a block by epoch."""
    from plotly.graph_objects import Scatter

    figure = new_figure(height=360)
    for place, regime in enumerate(regimes):
        colour = ARM_COLOURS[place % len(ARM_COLOURS)]
        for key, dash, title in (
            ("train_loss", "dot", "training"),
            ("validation_nll", "solid", "validation"),
        ):
            figure.add_trace(
                Scatter(
                    name=literal(regime.arm),
                    legendgroup=regime.arm,
                    showlegend=key == "validation_nll",
                    x=[entry["epoch"] for entry in regime.epochs],
                    y=[entry.get(key) for entry in regime.epochs],
                    mode="lines+markers",
                    line={"color": colour, "dash": dash, "width": 2},
                    marker={"size": 5},
                    hovertemplate=f"{literal(regime.arm)}, {title}, epoch %{{x}}: %{{y:.4f}}<extra></extra>",
                )
            )
    figure.update_layout(
        xaxis={"title": {"text": "epoch"}}, yaxis={"title": {"text": "nats per row"}, "rangemode": "tozero"}
    )
    return figure
