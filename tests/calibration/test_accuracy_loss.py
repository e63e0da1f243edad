"""The share of lost accuracy that confidence follows, from predictions."""

import numpy as np
import pytest

from calmix.calibration.accuracy_loss import confidence_follows, note_accuracy_loss
from calmix.calibration.evaluation import evaluate
from calmix.calibration.predictions import Predictions


def measured(confidence, right, rows=200):
    scores = np.tile([confidence, 1 - confidence], (rows, 1))
    labels = np.where(np.arange(rows) < right * rows, 0, 1)
    return evaluate(Predictions.from_probabilities(scores, labels), intervals=False)


def test_the_share_is_lost_confidence_over_lost_accuracy():
    home = measured(0.9, 0.85)
    assert confidence_follows(home, measured(0.7, 0.65)) == pytest.approx(1.0)
    assert confidence_follows(home, measured(0.9, 0.65)) == pytest.approx(0.0)
    assert confidence_follows(home, measured(0.95, 0.65)) == pytest.approx(-0.25)
    assert confidence_follows(home, measured(0.9, 0.84)) is None


def test_it_stands_beside_every_test_set_after_the_first():
    splits = {
        name: {"uncalibrated": measured(*facts), "calibrated": measured(*facts)}
        for name, facts in {"validation": (0.9, 0.9), "test": (0.9, 0.85), "far": (0.8, 0.65)}.items()
    }
    note_accuracy_loss(splits)
    assert splits["far"]["calibrated"]["confidence_follows"] == pytest.approx(0.5)
    assert all("confidence_follows" not in splits[name]["calibrated"] for name in ("validation", "test"))
