"""The risk-coverage curve: the error rate among the rows that are accepted, most confident first."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from calmix.calibration.metrics.risk_coverage import risk_coverage_curve
from calmix.report.page import BLUE, GREY, RED, new_figure

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

    from calmix.calibration.predictions import Predictions

POINTS = 400


def risk_coverage_figure(before: Predictions, after: Predictions) -> Figure:
    """Both curves. With two classes a temperature keeps the order, so they are one."""
    from plotly.graph_objects import Scatter

    figure = new_figure(height=430)
    highest = 0.0
    for name, predictions, line in (
        ("uncalibrated", before, {"color": RED, "dash": "dot", "width": 2}),
        ("calibrated", after, {"color": BLUE, "width": 2}),
    ):
        # The log keeps apart what rounds to a confidence of 1.
        curve = risk_coverage_curve(predictions.log_confidence(), predictions.correct())
        coverage, risk = curve.coverage, curve.risk
        kept = np.unique(np.linspace(0, len(coverage) - 1, min(POINTS, len(coverage))).astype(int))
        # The first rows alone swing between 0 and 1; they must not set the scale.
        highest = max(highest, float(risk[coverage >= 0.02].max()))
        figure.add_trace(
            Scatter(
                name=name,
                x=coverage[kept].tolist(),
                y=risk[kept].tolist(),
                mode="lines",
                line=line,
                hovertemplate="accept %{x:.1%}: %{y:.2%} wrong<extra>" + name + "</extra>",
            )
        )
    error_rate = float(1 - np.mean(before.correct()))
    figure.add_hline(y=error_rate, line={"color": GREY, "dash": "dash", "width": 1.5})
    figure.update_layout(
        xaxis={
            "title": {"text": "coverage: rows accepted"},
            "range": [0, 1.001],
            "tickformat": ".0%",
            "dtick": 0.2,
        },
        yaxis={
            "title": {"text": "risk: share wrong among the accepted"},
            "tickformat": "~%",
            "range": [0, max(1.15 * highest, 0.01)],
        },
    )
    return figure
