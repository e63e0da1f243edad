"""Of any predictions: the reliability diagram, and risk against coverage."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from calmix.calibration.metrics.binning import Closed, reliability_bins
from calmix.calibration.metrics.risk_coverage import risk_coverage_curve
from calmix.calibration.predictions import Predictions
from calmix.report.figures.canvas import COLOURS, SHAPES, bare, canvas, percents, words
from calmix.report.run.reliability import MARKS, Side, noise_band, side_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def reliability_figure(
    predictions: Predictions, *, bins: int = 15, closed: Closed = "right", title: str = ""
) -> Figure:
    """Accuracy per bin of confidence with its 95 % interval, the noise of a perfectly calibrated model, and
    the histogram of confidence below."""
    binned = reliability_bins(predictions.confidence(), predictions.correct(), bins=bins, closed=closed)
    low, high = noise_band(binned.count, binned.mean_confidence)
    filled = np.flatnonzero(binned.count)
    start = min(float(np.floor(bins / predictions.classes + 1e-9) / bins), 0.9)
    figure = canvas(4.2, 4.4)
    upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=(4, 1))
    width = 0.88 / bins
    centre = ((binned.lower + binned.upper) / 2)[filled]
    upper.bar(
        centre,
        (high - low)[filled],
        width,
        low[filled],
        color=COLOURS["band"],
        label="noise of a perfect model",
    )
    upper.plot([start, 1], [start, 1], color=COLOURS["grey"], linestyle="--", linewidth=1)
    sides: dict[Side, list[int]] = {}
    for place in filled.tolist():
        side = side_of(float(binned.accuracy[place]), float(low[place]), float(high[place]))
        sides.setdefault(side, []).append(place)
    for side, places in sides.items():
        shape, kind, meaning = MARKS[side]
        accuracy = binned.accuracy[places]
        bars = (accuracy - binned.accuracy_low[places], binned.accuracy_high[places] - accuracy)
        upper.errorbar(
            binned.mean_confidence[places], accuracy, bars, fmt=SHAPES[shape], color=COLOURS[kind],
            markersize=5, linewidth=1, label=meaning,
        )  # fmt: skip
    upper.set(ylabel="accuracy", ylim=(0, 1.02), xlim=(start, 1), title=words(title))
    upper.legend(frameon=False, fontsize=8)
    lower.bar(centre, (binned.count / len(predictions))[filled], width, color=COLOURS["bars"])
    lower.set(xlabel="confidence", ylabel="rows")
    percents(upper.yaxis, lower.yaxis, lower.xaxis)
    bare(upper, lower)
    return figure


def risk_coverage_figure(predictions: Predictions, *, title: str = "") -> Figure:
    """The error rate among the rows that are accepted, the most confident first."""
    curve = risk_coverage_curve(predictions.log_confidence(), predictions.correct())
    figure = canvas(4.2, 3.2)
    axes = figure.subplots()
    axes.plot(curve.coverage, curve.risk, color=COLOURS["blue"], linewidth=1.5)
    axes.axhline(float(curve.risk[-1]), color=COLOURS["grey"], linestyle="--", linewidth=1)
    # The first rows alone swing between 0 and 1; they must not set the scale.
    highest = float(curve.risk[curve.coverage >= 0.03].max(initial=0.005))
    axes.set(xlabel="rows accepted", ylabel="wrong among the accepted", title=words(title))
    axes.set(xlim=(0, 1), ylim=(0, 1.15 * highest))
    percents(axes.xaxis, axes.yaxis)
    bare(axes)
    return figure
