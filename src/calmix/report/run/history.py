"""The training section: the losses of every epoch, which epoch was kept, and the regime they show."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from calmix.report.pages.axes import Axis, number_axis
from calmix.report.pages.page import Chart
from calmix.report.pages.plot import Legend, Plot, Shape, Swatch
from calmix.report.tables import Column, Table

LINES: tuple[tuple[str, str, str, str, Shape], ...] = (
    ("train_loss", "training loss", "grey", "dotted", "circle"),
    ("validation_nll", "validation NLL", "red", "dashed", "square"),
    ("validation_nll_calibrated", "validation NLL, calibrated", "blue", "", "diamond"),
)
# Of the lowest validation NLL: a rise beyond it after the best epoch is over-training, a fall of as much in
# the last epoch says that training stopped early.
NOTABLE = 0.02

History = Sequence[Mapping[str, Any]]


def regime(history: History) -> str:
    """Whether a run was trained too long or too short, by its raw validation NLL.

    >>> regime([{"epoch": 1, "validation_nll": 0.5}, {"epoch": 2, "validation_nll": 0.6}])
    'Over-trained by the last epoch: the validation NLL was lowest in epoch 1 (0.500) and rose to 0.600.'
    >>> regime([{"epoch": 1, "validation_nll": 0.6}, {"epoch": 2, "validation_nll": 0.5}])
    'Perhaps undertrained: the validation NLL still fell in the last epoch, from 0.600 to 0.500.'
    """
    losses = [(entry["epoch"], entry["validation_nll"]) for entry in history if "validation_nll" in entry]
    if len(losses) < 2:
        return ""
    best_epoch, best = min(losses, key=lambda one: one[1])
    last = losses[-1][1]
    if last > best * (1 + NOTABLE):
        return (
            f"Over-trained by the last epoch: the validation NLL was lowest in epoch {best_epoch:g} "
            f"({best:.3f}) and rose to {last:.3f}."
        )
    before = losses[-2][1]
    if before > last * (1 + NOTABLE):
        return (
            f"Perhaps undertrained: the validation NLL still fell in the last epoch, from {before:.3f} to "
            f"{last:.3f}."
        )
    return f"Trained to the end: the validation NLL levelled off at {last:.3f}."


def history_chart(history: History, caption: str, unit: str = "nats per row") -> Chart:
    """Loss and validation NLL per epoch; a ring marks the epoch that was kept."""
    values = [entry.get(key) for entry in history for key, *_ in LINES]
    plot = Plot(epoch_axis(history), number_axis(values, unit, zero=True), 260)
    for key, name, kind, dash, shape in LINES:
        points = [(float(entry["epoch"]), entry.get(key)) for entry in history]
        plot.line(points, f"{kind} {dash}")
        for epoch, value in points:
            if value is not None:
                plot.mark(epoch, value, shape, kind, f"epoch {epoch:g}: {name} {value:.4f}")
    for entry in history:
        if entry.get("chosen") and entry.get("validation_nll_calibrated") is not None:
            where = float(entry["epoch"]), float(entry["validation_nll_calibrated"])
            plot.mark(*where, "ring", "green", f"epoch {entry['epoch']:g} was kept", size=8)
            plot.mark(*where, "diamond", "blue")
    entries: list[tuple[Swatch, str, str]] = [(shape, kind, name) for _, name, kind, _, shape in LINES]
    legend = Legend((*entries, ("ring", "green", "kept")))
    return Chart(plot.svg(f"Line chart. {caption}"), "Loss by epoch", caption, legend, "losses")


def error_chart(history: History, caption: str) -> Chart:
    """Expected calibration error on the validation rows per epoch, uncalibrated, beside the error rate."""
    wrong = [None if entry.get("accuracy") is None else 1 - entry["accuracy"] for entry in history]
    series: tuple[tuple[str, list[float | None], str, Shape], ...] = (
        ("validation ECE", [entry.get("validation_ece") for entry in history], "red", "circle"),
        ("validation error rate", wrong, "grey", "square"),
    )
    hundreds = [None if one is None else 100 * one for _, values, *_ in series for one in values]
    plot = Plot(epoch_axis(history), number_axis(hundreds, "%", zero=True), 260)
    for name, values, kind, shape in series:
        points = [
            (float(entry["epoch"]), None if value is None else 100 * value)
            for entry, value in zip(history, values, strict=True)
        ]
        plot.line(points, kind)
        for epoch, value in points:
            if value is not None:
                plot.mark(epoch, value, shape, kind, f"epoch {epoch:g}: {name} {value:.2f} %")
    legend = Legend(tuple((shape, kind, name) for name, _, kind, shape in series))
    return Chart(plot.svg(f"Line chart. {caption}"), "Calibration by epoch", caption, legend, "errors")


def epoch_axis(history: History) -> Axis:
    epochs = [float(entry["epoch"]) for entry in history]
    shown = epochs[:: 1 + len(epochs) // 12]
    room = 0.04 * ((epochs[-1] - epochs[0]) or 1.0)
    ticks = tuple((epoch, f"{epoch:g}") for epoch in shown)
    return Axis(epochs[0] - room, epochs[-1] + room, ticks, "epoch")


def history_table(history: History) -> Table:
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
