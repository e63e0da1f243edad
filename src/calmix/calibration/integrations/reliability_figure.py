"""The reliability diagram by matplotlib, which the extra `calmix[figures]` brings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np

from calmix.calibration.integrations.figure_canvas import COLOURS, SHAPES, bare, canvas, percents, words
from calmix.calibration.metrics.binning import Closed, reliability_bins
from calmix.calibration.predictions import Predictions
from calmix.calibration.uncertainty.noise_band import Side, noise_band, side_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MARKS: dict[Side, tuple[Literal["circle", "down", "up"], str, str]] = {
    "within": ("circle", "blue", "within the noise"),
    "over": ("down", "red", "overconfident"),
    "under": ("up", "yellow", "underconfident"),
}


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
        label="noise of a perfectly calibrated model",
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
