"""The reliability diagram: accuracy against confidence.

For each bin of confidence a bar shows the accuracy with its 95 % Clopper-Pearson interval; the shaded piece
reaches from there to the bin's mean confidence, so its area is what the bin adds to the ECE. On the
diagonal, confidence and accuracy agree. The histogram below shows where the rows are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from calmix.calibration.metrics.binning import Closed, ReliabilityBins, reliability_bins
from calmix.report.page import BLUE, GREY, RED, YELLOW, new_figure
from calmix.report.tables import Column, Table

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

    from calmix.calibration.predictions import Predictions


def reliability_figure(predictions: Predictions, *, bins: int = 15, closed: Closed = "right") -> Figure:
    """Accuracy per bin of top-label confidence, above the histogram of confidence."""
    from plotly.graph_objects import Bar, Scatter

    confidence, correct = predictions.confidence(), predictions.correct()
    binned = reliability_bins(confidence, correct, bins=bins, closed=closed)
    filled = binned.count > 0
    centre = (binned.lower + binned.upper) / 2
    # A hair narrower than the bin, so that neighbours stay apart.
    place: dict[str, Any] = {"x": centre[filled].tolist(), "width": 0.94 / bins}
    accuracy, said = binned.accuracy[filled], binned.mean_confidence[filled]

    figure = new_figure(height=430)
    figure.add_trace(
        Bar(
            name="accuracy",
            y=accuracy.tolist(),
            marker={"color": BLUE, "line": {"width": 0}},
            showlegend=False,
            error_y={
                "type": "data",
                "array": (binned.accuracy_high[filled] - accuracy).tolist(),
                "arrayminus": (accuracy - binned.accuracy_low[filled]).tolist(),
                "color": GREY,
                "thickness": 1.5,
                "width": 3,
            },
            customdata=_hover_data(binned, filled),
            hovertemplate=(
                "confidence %{customdata[0]:.1%} to %{customdata[1]:.1%}, mean %{customdata[2]:.1%}<br>"
                "accuracy %{y:.1%} [%{customdata[3]:.1%}, %{customdata[4]:.1%}]<br>"
                "%{customdata[5]} rows<extra></extra>"
            ),
            **place,
        )
    )
    for name, colour, shape, wide in (
        ("overconfident", RED, "/", said > accuracy),
        ("underconfident", YELLOW, "\\", said < accuracy),
    ):
        gap = np.where(wide, np.abs(said - accuracy), 0.0)
        figure.add_trace(
            Bar(
                name=name,
                base=np.minimum(accuracy, said).tolist(),
                y=gap.tolist(),
                marker={
                    "color": "rgba(0,0,0,0)",
                    "line": {"color": colour, "width": np.where(wide, 1.2, 0.0).tolist()},
                    "pattern": {"shape": shape, "fgcolor": colour, "size": 5, "solidity": 0.35},
                },
                hoverinfo="skip",
                showlegend=bool(wide.any()),
                **place,
            )
        )
    figure.add_trace(
        Scatter(
            name="perfect calibration",
            x=[0, 1],
            y=[0, 1],
            mode="lines",
            line={"color": GREY, "dash": "dash", "width": 1.5},
            hoverinfo="skip",
            showlegend=False,
        )
    )
    figure.add_trace(
        Bar(
            name="rows",
            y=(binned.count[filled] / len(confidence)).tolist(),
            yaxis="y2",
            marker={"color": GREY, "line": {"width": 0}},
            showlegend=False,
            hovertemplate="%{y:.1%} of the rows<extra></extra>",
            **place,
        )
    )
    # No top-label confidence lies below 1/C: the axis starts at the edge of that bin.
    start = float(np.floor(bins / predictions.classes + 1e-9) / bins)
    percent = {"tickformat": ".0%", "dtick": 0.1 if start >= 0.3 else 0.2}
    figure.update_layout(
        barmode="overlay",
        xaxis={"title": {"text": "confidence"}, "range": [start, 1.001], **percent, "anchor": "y2"},
        yaxis={
            "title": {"text": "accuracy"},
            "range": [0, 1.005],
            "tickformat": ".0%",
            "domain": [0.27, 1],
        },
        yaxis2={
            "title": {"text": "rows"},
            "domain": [0, 0.2],
            "tickformat": ".0%",
            "rangemode": "tozero",
            "nticks": 3,
            "anchor": "x",
        },
    )
    return figure


def _hover_data(binned: ReliabilityBins, filled: np.ndarray[Any, np.dtype[np.bool_]]) -> list[list[float]]:
    columns = (
        binned.lower,
        binned.upper,
        binned.mean_confidence,
        binned.accuracy_low,
        binned.accuracy_high,
        binned.count,
    )
    return [list(row) for row in zip(*(column[filled].tolist() for column in columns), strict=True)]


def reliability_table(predictions: Predictions, *, bins: int = 15, closed: Closed = "right") -> Table:
    """The numbers of the diagram, for readers who cannot see it or want to copy them."""
    binned = reliability_bins(predictions.confidence(), predictions.correct(), bins=bins, closed=closed)
    rows = []
    for place in np.flatnonzero(binned.count):
        gap = binned.mean_confidence[place] - binned.accuracy[place]
        rows.append(
            (
                f"{100 * binned.lower[place]:.1f} to {100 * binned.upper[place]:.1f}",
                f"{binned.count[place]:,}",
                f"{100 * binned.mean_confidence[place]:.1f}",
                f"{100 * binned.accuracy[place]:.1f} "
                f"[{100 * binned.accuracy_low[place]:.1f}, {100 * binned.accuracy_high[place]:.1f}]",
                f"{100 * gap:+.1f}",
            )
        )
    return Table(
        caption="The bins of the diagram, in percent; empty bins are left out",
        columns=(
            Column("Confidence %", numeric=False),
            Column("Rows"),
            Column("Mean confidence %"),
            Column("Accuracy % [95 %]"),
            Column("Gap %", "mean confidence minus accuracy: positive where the model is overconfident"),
        ),
        rows=tuple(rows),
    )
