"""Figures for papers and slides, by matplotlib: reliability, risk and coverage, the training curves.

They show what the pages show, in the same colours; `write_figures` saves them as SVG and PDF.
The extra `calmix[figures]` brings matplotlib.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from calmix.calibration.metrics.binning import Closed, reliability_bins
from calmix.calibration.metrics.risk_coverage import risk_coverage_curve
from calmix.calibration.predictions import Predictions
from calmix.io.run_directory import RunDirectory, replacing
from calmix.printable import printable
from calmix.report.run.reliability import MARKS, Side, noise_band, side_of
from calmix.user_error import UserError, argument

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BLUE, RED, YELLOW, GREY, GREEN, BAND, BARS = (
    "#3a6ea5", "#cf4a5f", "#a8922a", "#7b8694", "#22813a", "#d9e0e9", "#b9c7d8",
)  # fmt: skip
COLOURS = {"blue": BLUE, "red": RED, "yellow": YELLOW}
SHAPES = {"circle": "o", "down": "v", "up": "^"}
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


def reliability_figure(
    predictions: Predictions, *, bins: int = 15, closed: Closed = "right", title: str = ""
) -> Figure:
    """Accuracy per bin of confidence with its 95 % interval, the noise of a perfectly calibrated model, and
    the histogram of confidence below."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import PercentFormatter

    binned = reliability_bins(predictions.confidence(), predictions.correct(), bins=bins, closed=closed)
    low, high = noise_band(binned.count, binned.mean_confidence)
    filled = np.flatnonzero(binned.count)
    start = min(float(np.floor(bins / predictions.classes + 1e-9) / bins), 0.9)
    figure = Figure(figsize=(4.2, 4.4), layout="constrained")
    upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=(4, 1))
    width = 0.88 / bins
    centre = ((binned.lower + binned.upper) / 2)[filled]
    upper.bar(centre, (high - low)[filled], width, low[filled], color=BAND, label="noise of a perfect model")
    upper.plot([start, 1], [start, 1], color=GREY, linestyle="--", linewidth=1)
    sides: dict[Side, list[int]] = {}
    for place in filled.tolist():
        side = side_of(float(binned.accuracy[place]), float(low[place]), float(high[place]))
        sides.setdefault(side, []).append(place)
    for side, places in sides.items():
        shape, kind, words = MARKS[side]
        accuracy = binned.accuracy[places]
        bars = (accuracy - binned.accuracy_low[places], binned.accuracy_high[places] - accuracy)
        upper.errorbar(
            binned.mean_confidence[places], accuracy, bars, fmt=SHAPES[shape], color=COLOURS[kind],
            markersize=5, linewidth=1, label=words,
        )  # fmt: skip
    upper.set(ylabel="accuracy", ylim=(0, 1.02), xlim=(start, 1), title=printable(title))
    upper.legend(frameon=False, fontsize=8)
    lower.bar(centre, (binned.count / len(predictions))[filled], width, color=BARS)
    lower.set(xlabel="confidence", ylabel="rows")
    for axis in (upper.yaxis, lower.yaxis, lower.xaxis):
        axis.set_major_formatter(PercentFormatter(1.0))
    _plain(upper, lower)
    return figure


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
    _plain(axes)
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
    _plain(axes)
    return figure


def _plain(*axes: Any) -> None:
    for one in axes:
        one.spines[["top", "right"]].set_visible(False)


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
