"""Rows to label: the weights make sums over the sample unbiased for all rows."""

import numpy as np
import pytest

from calmix.calibration.adaptation import LabelledLogits
from calmix.calibration.label_request import allocation, request_labels


def population(rows=600, seed=0):
    generator = np.random.default_rng(seed)
    logits = 2 * generator.normal(size=(rows, 3))
    chances = np.exp(logits / 2) / np.exp(logits / 2).sum(axis=1, keepdims=True)
    labels = (chances.cumsum(axis=1) < generator.random((rows, 1))).sum(axis=1)
    confidence = (np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)).max(axis=1)
    return logits, labels, confidence


@pytest.mark.parametrize("design", ["random", "confidence"])
def test_weighted_means_are_unbiased_over_draws(design):
    logits, labels, confidence = population()
    values = LabelledLogits(logits, labels, np.ones(len(labels)), True).losses()
    means = []
    for seed in range(400):
        found = request_labels(confidence, 30, design=design, seed=seed)
        means.append(np.average(values[found.positions], weights=found.weights))
        assert found.weights.sum() == pytest.approx(len(values))
    error = np.std(means) / np.sqrt(len(means))
    assert abs(np.mean(means) - values.mean()) < 3 * error


def test_without_the_weights_a_stratified_sample_is_biased():
    logits, labels, confidence = population()
    correct = logits.argmax(axis=1) == labels
    plain = [correct[request_labels(confidence, 30, seed=seed).positions].mean() for seed in range(400)]
    assert abs(np.mean(plain) - correct.mean()) > 5 * np.std(plain) / 20


def test_accuracy_is_measured_with_less_variance_than_at_random():
    logits, labels, confidence = population(2000)
    correct = (logits.argmax(axis=1) == labels).astype(float)
    spread = {}
    for design in ("random", "confidence"):
        means = []
        for seed in range(600):
            found = request_labels(confidence, 50, design=design, seed=seed)
            means.append(np.average(correct[found.positions], weights=found.weights))
        spread[design] = np.std(means)
    assert spread["confidence"] < spread["random"]


def test_no_row_is_drawn_twice_and_all_of_them_can_be():
    found = request_labels(np.linspace(0.4, 1, 17), 17)
    assert sorted(found.positions.tolist()) == list(range(17))
    np.testing.assert_allclose(found.weights, 1.0)


def test_a_stratum_gives_no_more_than_it_has():
    values = np.concatenate([np.full(3, 0.5), np.full(97, 0.999999)])
    sizes = allocation(values, np.repeat([0, 1], [3, 97]), 50)
    assert sizes.tolist() == [3, 47]


def test_designs_and_counts_are_checked():
    with pytest.raises(ValueError, match="design"):
        request_labels([0.5, 0.6], 1, design="best")
    with pytest.raises(ValueError, match="3 rows to label of 2"):
        request_labels([0.5, 0.6], 3)
