from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom

from calmix.calibration.integrations.reliability_figure import MARKS
from calmix.calibration.metrics.binning import reliability_bins
from calmix.calibration.predictions import Predictions
from calmix.calibration.uncertainty.noise_band import noise_band
from calmix.report.run.reliability import DIAGRAM, reliability_chart, reliability_table

from .conftest import share

# Four rows at 0.9, one right: overconfident. Forty rows at 0.6, all right: underconfident.
PROBABILITIES = [[0.9, 0.1]] * 4 + [[0.6, 0.4]] * 40
LABELS = [0, 1, 1, 1] + [0] * 40


def height(accuracy):
    """Where an accuracy is drawn, as a share of the height from the top."""
    return DIAGRAM * (1 - np.asarray(accuracy))


@pytest.mark.parametrize("closed", ["right", "left"])
@pytest.mark.parametrize("bins", [10, 15])
def test_marks_intervals_and_noise_are_drawn_where_the_bins_say(predictions_of, drawn, bins, closed):
    predictions = predictions_of(500, seed=1)
    chart = reliability_chart(predictions, title="t", caption="c", bins=bins, closed=closed)
    drawing = drawn(chart)
    expected = reliability_bins(predictions.confidence(), predictions.correct(), bins=bins, closed=closed)
    filled = expected.count > 0
    marks = [one for shape, _, _ in MARKS.values() for one in drawing.shapes(shape)]
    tops = sorted(share(one["y"]) for one in marks)
    np.testing.assert_allclose(tops, np.sort(height(expected.accuracy[filled])), atol=2e-5)
    start = np.floor(bins / 3 + 1e-9) / bins
    lefts = sorted(share(one["x"]) for one in marks)
    places = (np.maximum(expected.mean_confidence[filled], start) - start) / (1 - start)
    np.testing.assert_allclose(lefts, np.sort(places), atol=2e-5)
    stems = [one for one in drawing.shapes("thin", "line") if one["title"]]
    lows = sorted(share(one["y1"]) for one in stems)
    np.testing.assert_allclose(lows, np.sort(height(expected.accuracy_low[filled])), atol=2e-5)
    low, _ = noise_band(expected.count, expected.mean_confidence)
    bands = sorted(share(one["y"]) + share(one["height"]) for one in drawing.shapes("band"))
    np.testing.assert_allclose(bands, np.sort(height(low[filled])), atol=2e-5)


def test_the_band_holds_95_of_100_samples_of_a_perfect_model():
    rows, confidence = np.array([1, 7, 40, 1000]), np.array([0.5, 0.8, 0.93, 0.6])
    low, high = noise_band(rows, confidence)
    for n, p, a, b in zip(rows, confidence, low, high, strict=True):
        inside = binom.cdf(round(b * n), n, p) - binom.cdf(round(a * n) - 1, n, p)
        assert inside >= 0.95


def test_marks_tell_over_from_underconfident_bins_by_their_shape(drawn):
    chart = reliability_chart(
        Predictions.from_probabilities(PROBABILITIES, LABELS), title="t", caption="c", bins=10
    )
    drawing = drawn(chart)
    assert len(drawing.shapes("down")) == len(drawing.shapes("up")) == 1
    assert "4 rows, mean confidence 90.0 %, accuracy 25.0 % [0.6, 80.6]" in drawing.shapes("down")[0]["title"]
    assert [words for _, _, words in chart.legend.entries][:2] == ["overconfident", "underconfident"]


@pytest.mark.parametrize(("classes", "start"), [(2, 7 / 15), (3, 5 / 15)])
def test_the_axis_starts_at_the_bin_of_one_over_the_number_of_classes(predictions_of, drawn, classes, start):
    chart = reliability_chart(predictions_of(50, seed=4, classes=classes), title="t", caption="c")
    (diagonal,) = drawn(chart).shapes("dashed")
    assert share(diagonal["y1"]) == pytest.approx(float(height(start)), abs=1e-5)


def test_the_table_says_what_the_diagram_shows():
    predictions = Predictions.from_probabilities([[0.9, 0.1]] * 4 + [[0.6, 0.4]] * 2, [0, 1, 1, 1, 0, 0])
    assert reliability_table(predictions, bins=10).rows == (
        ("50.0 to 60.0", "2", "60.0", "100.0 [15.8, 100.0]", "-40.0"),
        ("80.0 to 90.0", "4", "90.0", "25.0 [0.6, 80.6]", "+65.0"),
    )
