from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import rankdata

from calmix.calibration.predictions import Predictions
from calmix.report.risk_coverage import POINTS, risk_coverage_figure


def curves(before: Predictions, after: Predictions) -> dict:
    return {trace["name"]: trace for trace in risk_coverage_figure(before, after).to_dict()["data"]}


def test_the_curve_is_the_error_rate_of_the_most_confident_rows(predictions_of):
    before = predictions_of(200, seed=5)
    after = before.with_temperature(2.0)
    for name, predictions in (("uncalibrated", before), ("calibrated", after)):
        curve = curves(before, after)[name]
        rank = rankdata(-predictions.confidence(), method="ordinal")
        wrong = ~predictions.correct()
        expected = [wrong[rank <= accepted].mean() for accepted in range(1, 201)]
        np.testing.assert_allclose(curve["x"], np.arange(1, 201) / 200, atol=1e-12)
        np.testing.assert_allclose(curve["y"], expected, atol=1e-12)


def test_confidences_that_all_round_to_one_keep_their_order():
    logits = [[200.0, 0.0], [150.0, 0.0], [100.0, 0.0]]
    predictions = Predictions.from_logits(logits, [0, 1, 0])
    assert (predictions.confidence() == 1).all()
    assert curves(predictions, predictions)["calibrated"]["y"] == pytest.approx([0, 1 / 2, 1 / 3])


def test_a_long_curve_is_thinned_but_keeps_its_ends(predictions_of):
    predictions = predictions_of(3 * POINTS, seed=6)
    curve = curves(predictions, predictions)["calibrated"]
    assert len(curve["x"]) <= POINTS
    assert curve["x"][0] == pytest.approx(1 / len(predictions))
    assert curve["x"][-1] == 1
    assert curve["y"][-1] == pytest.approx(1 - predictions.correct().mean())
