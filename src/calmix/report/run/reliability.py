"""The reliability diagram: accuracy against confidence, with what chance alone would show.

For each bin of confidence a mark shows the accuracy with its 95 % Clopper-Pearson interval. The grey box is
where the accuracy of a perfectly calibrated model would lie in 95 of 100 samples of this size: the binomial
quantiles at the bin's mean confidence (a consistency bar, Bröcker & Smith 2007). Marks below it are
overconfident, marks above underconfident. The histogram at the bottom shows where the rows are.
"""

from __future__ import annotations

import numpy as np

from calmix.calibration.integrations.reliability_figure import MARKS
from calmix.calibration.metrics.binning import Closed, ReliabilityBins, reliability_bins
from calmix.calibration.predictions import Predictions
from calmix.calibration.uncertainty.noise_band import Side, noise_band, side_of
from calmix.report.pages.axes import Axis, percent_axis
from calmix.report.pages.page import Chart
from calmix.report.pages.plot import Legend, Plot, Swatch
from calmix.report.tables import Column, Table

# The share of the height that the diagram takes; below it the histogram.
DIAGRAM = 0.8


def reliability_chart(
    predictions: Predictions,
    *,
    title: str,
    caption: str,
    bins: int = 15,
    closed: Closed = "right",
    height: int = 280,
    name: str = "reliability",
) -> Chart:
    """Accuracy per bin of top-label confidence, above the histogram of confidence."""
    binned = reliability_bins(predictions.confidence(), predictions.correct(), bins=bins, closed=closed)
    # No top-label confidence lies below 1/C: the axis starts at the edge of that bin.
    start = min(float(np.floor(bins / predictions.classes + 1e-9) / bins), 0.9)
    return bins_chart(binned, title=title, caption=caption, start=start, height=height, name=name)


def bins_chart(
    binned: ReliabilityBins,
    *,
    title: str,
    caption: str,
    start: float = 0.0,
    height: int = 280,
    name: str = "reliability",
    words: tuple[str, str] = ("confidence", "accuracy"),
) -> Chart:
    """Bins as a diagram; `words` are what its axes are called: the stated, and the observed."""
    low, high = noise_band(binned.count, binned.mean_confidence)
    plot = Plot(percent_axis(start, 1, words[0], wanted=4), _upper(percent_axis(0, 1, words[1])), height)
    filled = np.flatnonzero(binned.count).tolist()
    for place in filled:
        left, right = max(float(binned.lower[place]), start), float(binned.upper[place])
        room = 0.06 * (right - left)
        box, tip = (left + room, right - room), bin_words(binned, place, words)
        plot.bar(box, (float(low[place]), max(float(high[place]), float(low[place]) + 0.004)), "band", tip)
        floor, share = plot.y.low, float(binned.count[place] / binned.count.max())
        plot.bar(box, (floor, floor - 0.85 * floor * share), "histogram", tip)
    plot.line([(start, start), (1.0, 1.0)], "grey dashed thin")
    sides = set[Side]()
    for place in filled:
        side = side_of(float(binned.accuracy[place]), float(low[place]), float(high[place]))
        sides.add(side)
        shape, kind, _ = MARKS[side]
        at, tip = max(float(binned.mean_confidence[place]), start), bin_words(binned, place, words)
        ends = [(at, float(binned.accuracy_low[place])), (at, float(binned.accuracy_high[place]))]
        plot.line(ends, f"{kind} thin", tip)
        plot.mark(at, float(binned.accuracy[place]), shape, kind, tip)
    entries: list[tuple[Swatch, str, str]] = [MARKS[side] for side in MARKS if side in sides]
    legend = Legend((*entries, ("box", "band", "noise of a perfectly calibrated model")))
    return Chart(plot.svg(f"Reliability diagram, {title}. {caption}"), title, caption, legend, name)


def _upper(axis: Axis) -> Axis:
    """The axis in the upper part of the drawing: room for the histogram below 0."""
    return Axis(axis.high - (axis.high - axis.low) / DIAGRAM, axis.high, axis.ticks, axis.title)


def bin_words(
    binned: ReliabilityBins, place: int, words: tuple[str, str] = ("confidence", "accuracy")
) -> str:
    """What a bin holds, for a reader who points at it."""
    return (
        f"{words[0]} {100 * binned.lower[place]:.1f} to {100 * binned.upper[place]:.1f} %: "
        f"{binned.count[place]:,} rows, mean {words[0]} {100 * binned.mean_confidence[place]:.1f} %, "
        f"{words[1]} {100 * binned.accuracy[place]:.1f} % "
        f"[{100 * binned.accuracy_low[place]:.1f}, {100 * binned.accuracy_high[place]:.1f}]"
    )


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
