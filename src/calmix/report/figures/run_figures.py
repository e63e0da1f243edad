"""Of a run: every split raw and calibrated, and the training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from calmix.calibration.calibrators.calibrator import chosen_kind
from calmix.calibration.files.run_predictions import apply_calibrator, calibrator_of_run, predictions_of_run
from calmix.calibration.integrations.figure_canvas import COLOURS, bare, canvas
from calmix.calibration.integrations.reliability_figure import reliability_figure
from calmix.io.run_directory import RunDirectory
from calmix.report.figures.risk_coverage_figure import risk_coverage_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def run_figures(run: RunDirectory) -> dict[str, Figure]:
    """By the name of their file."""
    metrics = run.metrics()
    binning: dict[str, Any] = {"bins": metrics["ece_bins"], "closed": metrics["ece_edges"]}
    figures, calibrator = {}, calibrator_of_run(run, metrics)
    after_words = "+ TS" if calibrator.kind == "temperature" else f"+ {chosen_kind(calibrator)}"
    for split in metrics["splits"]:
        before = predictions_of_run(run, split)
        after = apply_calibrator(calibrator, before)
        for stage, meaning, predictions in (("raw", "raw", before), ("scaled", after_words, after)):
            title = f"{split}, {meaning}"
            figures[f"reliability-{split}-{stage}"] = reliability_figure(predictions, title=title, **binning)
        figures[f"risk-coverage-{split}"] = risk_coverage_figure(after, title=split)
    if metrics.get("history"):
        figures["training"] = history_figure(metrics["history"])
    return figures


def history_figure(history: Sequence[Mapping[str, Any]]) -> Figure:
    """Training loss and validation NLL of every epoch; a ring marks the epoch that was kept."""
    figure = canvas(4.2, 3.2)
    axes = figure.subplots()
    epochs = [entry["epoch"] for entry in history]
    for key, meaning, colour, style in (
        ("train_loss", "training loss", "grey", "o:"),
        ("validation_nll", "validation NLL", "red", "s--"),
        ("validation_nll_calibrated", "validation NLL, + TS", "blue", "D-"),
    ):
        values = [np.nan if entry.get(key) is None else entry[key] for entry in history]
        axes.plot(epochs, values, style, color=COLOURS[colour], markersize=4, linewidth=1.2, label=meaning)
    for entry in history:
        if entry.get("chosen") and entry.get("validation_nll_calibrated") is not None:
            place = entry["epoch"], entry["validation_nll_calibrated"]
            axes.plot(
                *place,
                "o",
                markersize=11,
                markerfacecolor="none",
                markeredgecolor=COLOURS["green"],
                label="kept",
            )
    axes.set(xlabel="epoch", ylabel="nats per row")
    axes.set_ylim(bottom=0)
    axes.legend(frameon=False, fontsize=8)
    bare(axes)
    return figure
