"""The estimated number of wrong labels, where the truth is known."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import softmax

from calmix.dynamics.label_estimate import estimate_wrong_labels, prediction_confidence
from calmix.dynamics.training_dynamics import TrainingDynamics


def drawn(share, seed, *, rows=1500, classes=4, scale=4.0):
    """Dynamics of a network that knows the true probabilities, on labels of which a share was replaced."""
    generator = np.random.default_rng([seed, int(1000 * share)])
    logits = scale * generator.normal(size=(rows, classes))
    labels = (logits + generator.gumbel(size=logits.shape)).argmax(axis=1)
    wrong = generator.random(rows) < share
    labels[wrong] = (labels[wrong] + generator.integers(1, classes, wrong.sum())) % classes
    # Overconfident, as networks are: the fit must find that too.
    return TrainingDynamics.from_logits(np.stack([logits, 1.7 * logits], axis=1), labels), int(wrong.sum())


@pytest.mark.simulates
@pytest.mark.parametrize("share", [0.0, 0.05, 0.1, 0.2])
def test_the_interval_holds_the_truth_as_often_as_it_says(share):
    """Of 20 draws, an interval of 95 % misses more than 3 with probability 0.016."""
    misses, counts = 0, []
    for seed in range(20):
        dynamics, wrong = drawn(share, seed)
        found = estimate_wrong_labels(dynamics)
        misses += not found.low <= wrong <= found.high
        counts.append(found.count - wrong)
    assert misses <= 3
    assert abs(np.mean(counts)) <= 0.01 * 1500


def test_a_network_that_is_never_sure_gives_a_wide_interval():
    dynamics, _ = drawn(0.1, 0, scale=0.7, classes=2)
    found = estimate_wrong_labels(dynamics)
    assert found.low == 0
    assert found.high - found.low >= 0.15 * 1500


def test_confidence_is_recovered_from_margin_and_gold_probability():
    generator = np.random.default_rng(0)
    logits = generator.normal(scale=3, size=(200, 5))
    labels = generator.integers(0, 5, 200)
    dynamics = TrainingDynamics.from_logits(logits[:, None], labels)
    found = prediction_confidence(dynamics.gold_probability[:, 0], dynamics.margin[:, 0])
    np.testing.assert_allclose(found, softmax(logits, axis=1).max(axis=1), rtol=1e-9)


def test_no_estimate_without_predictions_or_with_few_rows():
    assert estimate_wrong_labels(None) is None
    assert estimate_wrong_labels(drawn(0.1, 0, rows=150)[0]) is None


def test_logits_beyond_floating_point_are_survived():
    logits = np.zeros((300, 2, 2))
    logits[:, :, 1] = 2000.0
    labels = np.where(np.arange(300) % 10 == 0, 0, 1)
    found = estimate_wrong_labels(TrainingDynamics.from_logits(logits, labels))
    assert found.low <= 30 <= found.high
