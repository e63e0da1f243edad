"""NLL, Brier and its split, against scikit-learn and the formulas."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import log_softmax, softmax
from sklearn.metrics import brier_score_loss, log_loss

from calmix.calibration.metrics.scores import brier_decomposition, brier_score, negative_log_likelihood
from calmix.calibration.predictions import Predictions


def random_logits(n: int, classes: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(seed)
    logits = 3 * generator.standard_normal((n, classes))
    return logits, (logits + generator.gumbel(size=logits.shape)).argmax(axis=1)


@pytest.mark.parametrize("classes", [2, 3, 20])
def test_scikit_learn_agrees(classes):
    logits, labels = random_logits(500, classes, seed=classes)
    probabilities = softmax(logits, axis=1)
    weights = np.random.default_rng(0).random(500)
    for weight in (None, weights):
        nll = log_loss(labels, probabilities, labels=range(classes), sample_weight=weight)
        brier = brier_score_loss(
            labels, probabilities, labels=range(classes), sample_weight=weight, scale_by_half=False
        )
        for scores, from_logits in ((logits, True), (probabilities, False)):
            settings = {"from_logits": from_logits, "weights": weight}
            assert negative_log_likelihood(scores, labels, **settings) == pytest.approx(nll, abs=1e-9)
            assert brier_score(scores, labels, **settings) == pytest.approx(brier, abs=1e-9)


def test_the_binary_brier_score_of_scikit_learn_is_half_of_this_one():
    logits, labels = random_logits(300, 2, seed=1)
    probabilities = softmax(logits, axis=1)
    half = brier_score_loss(labels, probabilities[:, 1])
    assert brier_score(probabilities, labels, from_logits=False) == pytest.approx(2 * half, abs=1e-12)


def test_scores_are_their_formulas_row_by_row():
    logits, labels = random_logits(60, 4, seed=2)
    nll = brier = 0.0
    for z, y in zip(logits, labels, strict=True):
        powers = [float(np.exp(v)) for v in z]
        p = [v / sum(powers) for v in powers]
        nll -= np.log(p[y]) / 60
        brier += sum((p[k] - (k == y)) ** 2 for k in range(4)) / 60
    assert negative_log_likelihood(logits, labels, from_logits=True) == pytest.approx(nll, abs=1e-9)
    assert brier_score(logits, labels, from_logits=True) == pytest.approx(brier, abs=1e-9)


@given(st.floats(-1e4, 1e4), st.integers(0, 100))
def test_a_shift_of_the_logits_changes_nothing(shift, seed):
    logits, labels = random_logits(20, 3, seed)
    for score in (negative_log_likelihood, brier_score):
        assert score(logits + shift, labels, from_logits=True) == pytest.approx(
            score(logits, labels, from_logits=True), abs=1e-9
        )


def test_the_order_of_rows_and_classes_changes_nothing():
    logits, labels = random_logits(100, 5, seed=3)
    order, classes = np.random.default_rng(0).permutation(100), np.random.default_rng(1).permutation(5)
    for score in (negative_log_likelihood, brier_score):
        plain = score(logits, labels, from_logits=True)
        assert score(logits[order], labels[order], from_logits=True) == pytest.approx(plain, abs=1e-12)
        renamed = score(logits[:, classes], np.argsort(classes)[labels], from_logits=True)
        assert renamed == pytest.approx(plain, abs=1e-12)


def test_sharp_logits_neither_overflow_nor_vanish():
    logits = np.array([[1000.0, 0.0], [0.0, 1000.0]])
    assert negative_log_likelihood(logits, [0, 0], from_logits=True) == 500.0
    assert negative_log_likelihood(logits, [0, 1], from_logits=True) == 0.0
    # A probability of exactly 0 is the smallest step of its precision, as in scikit-learn.
    zero = negative_log_likelihood([[0.0, 1.0]], [0], from_logits=False)
    assert zero == pytest.approx(log_loss([0], [[0.0, 1.0]], labels=[0, 1]), rel=1e-6)


def test_a_tiny_brier_score_does_not_cancel():
    # 1 - 2 p + p^2 would be 0 here.
    found = brier_score([[20.0, 0.0]], [0], from_logits=True)
    assert found == pytest.approx(2 * softmax([20.0, 0.0])[1] ** 2, rel=1e-6)


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_low_precision_is_read_exactly_and_added_in_float64(dtype):
    logits, labels = random_logits(20_000, 3, seed=4)
    low = logits.astype(dtype)
    expected = -log_softmax(low.astype(np.float64), axis=1)[np.arange(len(labels)), labels].mean()
    assert negative_log_likelihood(low, labels, from_logits=True) == pytest.approx(expected, abs=1e-12)


def test_the_split_adds_up_and_is_its_formula():
    logits, labels = random_logits(400, 3, seed=5)
    probabilities = softmax(1.5 * logits, axis=1)
    split = brier_decomposition(probabilities, labels, from_logits=False, bins=10)
    calibration = 0.0
    for k in range(3):
        place = np.clip(np.ceil(probabilities[:, k] * 10).astype(int) - 1, 0, 9)
        for m in set(place):
            inside = place == m
            gap = probabilities[inside, k].mean() - (labels[inside] == k).mean()
            calibration += inside.mean() * gap**2
    assert split.calibration == pytest.approx(calibration, abs=1e-9)
    assert split.brier == pytest.approx(brier_score(probabilities, labels, from_logits=False), abs=1e-12)
    assert split.calibration + split.refinement == pytest.approx(split.brier, abs=1e-12)


def test_predictions_say_what_they_are_and_are_never_guessed():
    scores = [[0.25, 0.75], [0.5, 0.5]]
    as_logits = negative_log_likelihood(scores, [1, 0], from_logits=True)
    as_probabilities = negative_log_likelihood(scores, [1, 0], from_logits=False)
    assert as_probabilities == pytest.approx(-(np.log(0.75) + np.log(0.5)) / 2)
    assert as_logits == pytest.approx((np.log1p(np.exp(-0.5)) + np.log(2)) / 2)
    with pytest.raises(TypeError):
        negative_log_likelihood(scores, [1, 0])


@pytest.mark.parametrize("make", [Predictions.from_logits, Predictions.from_probabilities])
@pytest.mark.parametrize(
    ("scores", "labels", "message"),
    [
        ([[np.nan, 0.5]], [0], "finite"),
        ([[0.5, np.inf]], [0], "finite"),
        (np.empty((0, 2)), [], "empty"),
        ([[[0.5, 0.5]]], [0], "shape"),
        ([0.5, 0.5], [0], "2 rows of scores but 1 labels"),
        ([[1.0]], [0], "two classes"),
        ([["a", "b"]], [0], "numbers"),
        ([[0.5, 0.5]], [2], r"label 2 is outside 0\.\.1 \(row 0\)"),
        ([[0.5, 0.5]], [0, 0], "2 labels"),
    ],
)
def test_what_makes_no_sense_is_refused(make, scores, labels, message):
    with pytest.raises(ValueError, match=message):
        make(scores, labels)


def test_values_that_are_no_distribution_are_refused_as_probabilities_only():
    Predictions.from_logits([[2.0, -1.0]], [0])
    for scores, message in (([[2.0, -1.0]], "negative"), ([[0.6, 0.6]], r"sum to 1, not 1\.2")):
        with pytest.raises(ValueError, match=message):
            Predictions.from_probabilities(scores, [0])
