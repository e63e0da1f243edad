"""Of any predictions: risk against coverage."""

from __future__ import annotations

from typing import TYPE_CHECKING

from calmix.calibration.integrations.figure_canvas import COLOURS, bare, canvas, percents, words
from calmix.calibration.metrics.risk_coverage import risk_coverage_curve
from calmix.calibration.predictions import Predictions

if TYPE_CHECKING:
    from matplotlib.figure import Figure


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
