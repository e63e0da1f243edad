"""Figures for papers and slides, by matplotlib: reliability, risk and coverage, the training curves.

They show what the pages show, in the same colours; `write_figures` saves them as SVG and PDF.
The extra `calmix[figures]` brings matplotlib.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from calmix.calibration.integrations.reliability_figure import (
    BLUE,
    GREEN,
    GREY,
    RED,
    reliability_figure,
    without_frame,
)
from calmix.calibration.metrics.risk_coverage import risk_coverage_curve
from calmix.calibration.predictions import Predictions
from calmix.io.run_directory import RunDirectory, replacing
from calmix.printable import printable
from calmix.user_error import UserError, argument

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FORMATS = ("svg", "pdf")


def check_figures(directory: Path) -> None:
    """Refuse before hours of training what would fail after them."""
    import matplotlib  # noqa: F401  # where it is missing, the command line names the extra

    if directory.exists() and not directory.is_dir():
        raise UserError(
            "a file is in the way of the figures",
            file=directory,
            remedy=f"give {argument('figures')} a directory",
        )


def risk_coverage_figure(predictions: Predictions, *, title: str = "") -> Figure:
    """The error rate among the rows that are accepted, the most confident first."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import PercentFormatter

    curve = risk_coverage_curve(predictions.log_confidence(), predictions.correct())
    figure = Figure(figsize=(4.2, 3.2), layout="constrained")
    axes = figure.subplots()
    axes.plot(curve.coverage, curve.risk, color=BLUE, linewidth=1.5)
    axes.axhline(float(curve.risk[-1]), color=GREY, linestyle="--", linewidth=1)
    # The first rows alone swing between 0 and 1; they must not set the scale.
    highest = float(curve.risk[curve.coverage >= 0.03].max(initial=0.005))
    axes.set(xlabel="rows accepted", ylabel="wrong among the accepted", title=printable(title))
    axes.set(xlim=(0, 1), ylim=(0, 1.15 * highest))
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(PercentFormatter(1.0))
    without_frame(axes)
    return figure


def history_figure(history: Sequence[Mapping[str, Any]]) -> Figure:
    """Training loss and validation NLL of every epoch; a ring marks the epoch that was kept."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4.2, 3.2), layout="constrained")
    axes = figure.subplots()
    epochs = [entry["epoch"] for entry in history]
    for key, words, colour, style in (
        ("train_loss", "training loss", GREY, "o:"),
        ("validation_nll", "validation NLL", RED, "s--"),
        ("validation_nll_calibrated", "validation NLL, + TS", BLUE, "D-"),
    ):
        values = [np.nan if entry.get(key) is None else entry[key] for entry in history]
        axes.plot(epochs, values, style, color=colour, markersize=4, linewidth=1.2, label=words)
    for entry in history:
        if entry.get("chosen") and entry.get("validation_nll_calibrated") is not None:
            place = entry["epoch"], entry["validation_nll_calibrated"]
            axes.plot(*place, "o", markersize=11, markerfacecolor="none", markeredgecolor=GREEN, label="kept")
    axes.set(xlabel="epoch", ylabel="nats per row")
    axes.set_ylim(bottom=0)
    axes.legend(frameon=False, fontsize=8)
    without_frame(axes)
    return figure


def write_figures(run: RunDirectory, directory: Path) -> list[Path]:
    """The figures of a run as SVG and PDF: every split raw and with temperature scaling, and the training."""
    check_figures(directory)
    metrics = run.metrics()
    figures = run_figures(run, metrics)
    written = []
    for name, figure in figures.items():
        for suffix in FORMATS:
            path = directory / f"{name}.{suffix}"
            # Neither the date nor the version in the file: the same run writes the same bytes.
            plain = {"Date": None} if suffix == "svg" else {"CreationDate": None}
            with replacing(path) as fresh:
                figure.savefig(fresh, metadata=plain)
            written.append(path)
    return written


def run_figures(run: RunDirectory, metrics: Mapping[str, Any]) -> dict[str, Figure]:
    """By the name of their file."""
    from calmix.calibration.calibrators.calibrator import chosen_kind
    from calmix.calibration.files.run_predictions import (
        apply_calibrator,
        calibrator_of_run,
        predictions_of_run,
    )

    binning: dict[str, Any] = {"bins": metrics["ece_bins"], "closed": metrics["ece_edges"]}
    figures, calibrator = {}, calibrator_of_run(run, metrics)
    after_words = "+ TS" if calibrator.kind == "temperature" else f"+ {chosen_kind(calibrator)}"
    for split in metrics["splits"]:
        before = predictions_of_run(run, split)
        after = apply_calibrator(calibrator, before)
        for stage, words, predictions in (("raw", "raw", before), ("scaled", after_words, after)):
            title = f"{split}, {words}"
            figures[f"reliability-{split}-{stage}"] = reliability_figure(predictions, title=title, **binning)
        figures[f"risk-coverage-{split}"] = risk_coverage_figure(after, title=split)
    if metrics.get("history"):
        figures["training"] = history_figure(metrics["history"])
    return figures
