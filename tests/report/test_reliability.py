from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binomtest

from calmix.calibration.metrics.binning import reliability_bins
from calmix.calibration.metrics.errors import expected_calibration_error
from calmix.calibration.predictions import Predictions
from calmix.report.reliability import reliability_figure, reliability_table


def traces(figure) -> dict:
    return {trace["name"]: trace for trace in figure.to_dict()["data"]}


@pytest.mark.parametrize("closed", ["right", "left"])
@pytest.mark.parametrize("bins", [10, 15])
def test_the_bars_are_the_bins(predictions_of, bins, closed):
    predictions = predictions_of(500, seed=1)
    bar = traces(reliability_figure(predictions, bins=bins, closed=closed))["accuracy"]
    expected = reliability_bins(predictions.confidence(), predictions.correct(), bins=bins, closed=closed)
    filled = expected.count > 0
    accuracy = np.array(bar["y"])
    np.testing.assert_allclose(bar["x"], ((expected.lower + expected.upper) / 2)[filled], atol=1e-12)
    np.testing.assert_allclose(accuracy, expected.accuracy[filled], atol=1e-12)
    error = bar["error_y"]
    np.testing.assert_allclose(accuracy + error["array"], expected.accuracy_high[filled], atol=1e-12)
    np.testing.assert_allclose(accuracy - error["arrayminus"], expected.accuracy_low[filled], atol=1e-12)


def test_the_error_bars_are_exact_binomial_intervals(predictions_of):
    predictions = predictions_of(300, seed=2)
    bar = traces(reliability_figure(predictions))["accuracy"]
    confidence, correct = predictions.confidence(), predictions.correct()
    for place, (centre, accuracy) in enumerate(zip(bar["x"], bar["y"], strict=True)):
        inside = np.abs(confidence - centre) <= 0.5 / 15
        interval = binomtest(int(correct[inside].sum()), int(inside.sum())).proportion_ci(0.95, "exact")
        assert accuracy + bar["error_y"]["array"][place] == pytest.approx(interval.high, abs=1e-9)
        assert accuracy - bar["error_y"]["arrayminus"][place] == pytest.approx(interval.low, abs=1e-9)


def test_the_shaded_area_weighted_by_the_rows_is_the_ece(predictions_of):
    predictions = predictions_of(700, seed=3)
    drawn = traces(reliability_figure(predictions))
    gap = np.array(drawn["overconfident"]["y"]) + np.array(drawn["underconfident"]["y"])
    expected = expected_calibration_error(predictions.confidence(), predictions.correct())
    assert gap @ np.array(drawn["rows"]["y"]) == pytest.approx(expected, abs=1e-12)


def test_the_gap_spans_from_accuracy_to_mean_confidence_on_the_right_side():
    # Four rows at 0.9, one right: overconfident by 0.65. Two rows at 0.6, both right: underconfident by 0.4.
    probabilities = [[0.9, 0.1]] * 4 + [[0.6, 0.4]] * 2
    drawn = traces(
        reliability_figure(Predictions.from_probabilities(probabilities, [0, 1, 1, 1, 0, 0]), bins=10)
    )
    assert drawn["accuracy"]["y"] == [1.0, 0.25]
    assert drawn["overconfident"]["y"] == pytest.approx([0, 0.65])
    assert drawn["underconfident"]["y"] == pytest.approx([0.4, 0])
    assert drawn["overconfident"]["base"] == pytest.approx([0.6, 0.25])
    assert drawn["rows"]["y"] == pytest.approx([1 / 3, 2 / 3])


@pytest.mark.parametrize(("classes", "start"), [(2, 7 / 15), (3, 5 / 15)])
def test_the_axis_starts_at_the_bin_of_one_over_the_number_of_classes(predictions_of, classes, start):
    figure = reliability_figure(predictions_of(50, seed=4, classes=classes))
    assert figure.layout.xaxis.range[0] == pytest.approx(start)


def test_the_table_says_what_the_diagram_shows():
    probabilities = [[0.9, 0.1]] * 4 + [[0.6, 0.4]] * 2
    table = reliability_table(Predictions.from_probabilities(probabilities, [0, 1, 1, 1, 0, 0]), bins=10)
    assert table.rows == (
        ("50.0 to 60.0", "2", "60.0", "100.0 [15.8, 100.0]", "-40.0"),
        ("80.0 to 90.0", "4", "90.0", "25.0 [0.6, 80.6]", "+65.0"),
    )
