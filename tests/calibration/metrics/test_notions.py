"""The notion is named in the call, and so is what the scores are."""

from __future__ import annotations

import inspect

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calmix.calibration.metrics.errors import classwise_calibration_error, expected_calibration_error
from calmix.calibration.metrics.notions import calibration_error, confidence_and_outcome, top_label
from calmix.calibration.metrics.scores import brier_score, negative_log_likelihood
from calmix.calibration.predictions import Predictions


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("from_logits", [True, False])
@pytest.mark.parametrize("weighted", [True, False])
def test_each_notion_is_the_error_of_its_own_confidence(dtype, from_logits, weighted):
    generator = np.random.default_rng(0)
    logits = generator.standard_normal((5000, 2)).astype(dtype)
    labels = generator.integers(0, 2, 5000)
    exact = np.exp(logits.astype(np.float64))
    probabilities = exact / exact.sum(axis=1, keepdims=True)
    scores = logits if from_logits else probabilities.astype(dtype)
    if not from_logits:
        probabilities = scores.astype(np.float64)
    weights = generator.uniform(0, 2, 5000) if weighted else None
    settings = {"bins": 10, "closed": "left", "weights": weights}
    predicted = probabilities.argmax(axis=1)
    expected = {
        "top_label": expected_calibration_error(probabilities.max(axis=1), predicted == labels, **settings),
        "positive": expected_calibration_error(probabilities[:, 1], labels == 1, **settings),
        "classwise": classwise_calibration_error(probabilities, labels, **settings),
    }
    for notion, value in expected.items():
        found = calibration_error(scores, labels, from_logits=from_logits, notion=notion, **settings)
        assert found == pytest.approx(value, abs=1e-9)


def test_logits_that_look_like_probabilities_are_not_taken_for_them():
    scores, labels = [[0.9, 0.1], [0.8, 0.2]], [0, 0]
    as_logits = calibration_error(scores, labels, from_logits=True)
    assert as_logits == pytest.approx(1 - np.mean(1 / (1 + np.exp([-0.8, -0.6]))))
    assert as_logits != calibration_error(scores, labels, from_logits=False)


@pytest.mark.parametrize("function", [calibration_error, negative_log_likelihood, brier_score])
def test_what_the_scores_are_has_no_default(function):
    parameter = inspect.signature(function).parameters["from_logits"]
    assert parameter.default is inspect.Parameter.empty
    assert parameter.kind is inspect.Parameter.KEYWORD_ONLY


def test_the_positive_class_needs_two_classes():
    predictions = Predictions.from_logits([[0, 1, 2]], [0])
    with pytest.raises(ValueError, match="two classes"):
        confidence_and_outcome(predictions, "positive")
    with pytest.raises(ValueError, match="notion"):
        confidence_and_outcome(predictions, "classwise")


@given(
    st.lists(st.lists(st.integers(0, 3), min_size=3, max_size=3), min_size=1, max_size=20), st.integers(0, 2)
)
def test_ties_go_to_the_lowest_class_whatever_the_path(rows, label):
    values = np.array(rows, dtype=np.float64) + 0.5
    values /= values.sum(axis=1, keepdims=True)
    labels = np.full(len(values), label)
    expected = values.argmax(axis=1) == labels
    assert np.array_equal(top_label(values, labels)[1], expected)
    wide = np.hstack([values, np.zeros((len(values), 100))])
    assert np.array_equal(top_label(wide, labels)[1], expected)


def test_entries_a_rounding_above_one_are_confidences_of_one():
    scores = np.array([[1.0005, 0.0], [1.0, 0.0]], dtype=np.float32)
    for notion in ("top_label", "positive", "classwise"):
        assert 0 <= calibration_error(scores, [0, 0], from_logits=False, notion=notion) < 1e-3
