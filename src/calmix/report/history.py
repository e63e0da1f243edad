"""The training section: the losses of every epoch, and which epoch was kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from calmix.report.page import BLUE, GREEN, GREY, RED, new_figure
from calmix.report.tables import Column, Table

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

LINES = (
    ("train_loss", "training loss", GREY, "dot", "circle"),
    ("validation_nll", "validation NLL", RED, "dash", "square"),
    ("validation_nll_calibrated", "validation NLL, calibrated", BLUE, "solid", "diamond"),
)


def history_figure(history: Sequence[Mapping[str, Any]]) -> Figure:
    """Loss and validation NLL per epoch; a ring marks the epoch that was kept."""
    from plotly.graph_objects import Scatter

    figure = new_figure(height=340)
    epochs = [entry["epoch"] for entry in history]
    for key, name, colour, dash, symbol in LINES:
        figure.add_trace(
            Scatter(
                name=name,
                x=epochs,
                y=[entry.get(key) for entry in history],
                mode="lines+markers",
                line={"color": colour, "dash": dash, "width": 2},
                marker={"symbol": symbol, "size": 8},
                hovertemplate="epoch %{x}: %{y:.4f}<extra>" + name + "</extra>",
            )
        )
    chosen = [entry for entry in history if entry.get("chosen")]
    if chosen:
        figure.add_trace(
            Scatter(
                name="kept",
                x=[entry["epoch"] for entry in chosen],
                y=[entry["validation_nll_calibrated"] for entry in chosen],
                mode="markers",
                marker={"symbol": "circle-open", "size": 18, "color": GREEN, "line": {"width": 3}},
                hoverinfo="skip",
            )
        )
    figure.update_layout(
        xaxis={"title": {"text": "epoch"}, "tickmode": "array", "tickvals": epochs[:: 1 + len(epochs) // 20]},
        yaxis={"title": {"text": "nats per row"}, "rangemode": "tozero"},
    )
    return figure


def error_figure(history: Sequence[Mapping[str, Any]]) -> Figure:
    """Expected calibration error on the validation rows per epoch, uncalibrated, beside the error rate."""
    from plotly.graph_objects import Scatter

    figure = new_figure(height=340)
    epochs = [entry["epoch"] for entry in history]
    wrong = [None if entry.get("accuracy") is None else 1 - entry["accuracy"] for entry in history]
    for name, values, colour, dash in (
        ("validation ECE", [entry.get("validation_ece") for entry in history], RED, "solid"),
        ("validation error rate", wrong, GREY, "dot"),
    ):
        figure.add_trace(
            Scatter(
                name=name,
                x=epochs,
                y=[None if value is None else 100 * value for value in values],
                mode="lines+markers",
                line={"color": colour, "dash": dash, "width": 2},
                hovertemplate="epoch %{x}: %{y:.2f} %<extra>" + name + "</extra>",
            )
        )
    figure.update_layout(
        xaxis={"title": {"text": "epoch"}, "tickmode": "array", "tickvals": epochs[:: 1 + len(epochs) // 20]},
        yaxis={"title": {"text": "%"}, "rangemode": "tozero"},
    )
    return figure


def history_table(history: Sequence[Mapping[str, Any]]) -> Table:
    """The numbers of the figure, with temperature and accuracy."""
    return Table(
        caption="Every epoch, on the validation rows",
        columns=(
            Column("Epoch"),
            Column("Training loss"),
            Column("NLL"),
            Column("NLL, calibrated", "after temperature scaling"),
            Column("Temperature"),
            Column("Accuracy %"),
            Column("ECE %", "uncalibrated; it does not choose the epoch"),
            Column("Choice", numeric=False),
        ),
        rows=tuple(
            (
                f"{entry['epoch']:g}",
                _number(entry.get("train_loss"), 4),
                _number(entry.get("validation_nll"), 4),
                _number(entry.get("validation_nll_calibrated"), 4),
                _number(entry.get("temperature"), 3),
                _number(entry.get("accuracy"), 1, scale=100),
                _number(entry.get("validation_ece"), 2, scale=100),
                "kept" if entry.get("chosen") else "–",
            )
            for entry in history
        ),
    )


def _number(value: float | None, decimals: int, scale: float = 1.0) -> str:
    return "–" if value is None else f"{scale * value:.{decimals}f}"
