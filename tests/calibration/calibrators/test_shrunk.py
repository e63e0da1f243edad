"""Shrunk scaling against scipy, and its two ends: no change and maximum likelihood."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.special import log_softmax, softmax

from calmix.calibration.calibrators.calibrator import load_calibrator
from calmix.calibration.calibrators.shrunk import LOWEST_SCALE, ShrunkScaling, shrunk_optima


def rows(count=200, classes=4, temperature=2.0, bias=0.8, seed=0):
    generator = np.random.default_rng(seed)
    logits = 2 * generator.normal(size=(count, classes))
    shifts = bias * generator.normal(size=classes)
    chances = softmax(logits / temperature + shifts, axis=1)
    labels = (chances.cumsum(axis=1) < generator.random((count, 1))).sum(axis=1)
    return logits, labels


def slow_optimum(logits, labels, penalty, weights=None, biases=True):
    """The objective as it is written, minimised by scipy."""
    shares = np.full(len(labels), 1 / len(labels)) if weights is None else weights / weights.sum()

    def loss(parameters):
        scores = parameters[0] * logits + (parameters[1:] if biases else 0.0)
        fit = -(shares * log_softmax(scores, axis=1)[np.arange(len(labels)), labels]).sum()
        far = (parameters[0] - 1) ** 2 + ((parameters[1:] ** 2).sum() if biases else 0.0)
        return fit + penalty / 2 * far

    start = np.repeat([1.0, 0.0], [1, logits.shape[1]])
    return minimize(loss, start, method="BFGS", options={"gtol": 1e-9}).x


@pytest.mark.parametrize("penalty", [0.002, 0.05, 1.5])
@pytest.mark.parametrize("biases", [True, False])
def test_the_fit_is_the_optimum_that_scipy_finds(penalty, biases):
    logits, labels = rows()
    weights = np.random.default_rng(1).uniform(0.5, 3, len(labels))
    fitted = ShrunkScaling(penalty, biases).fit(logits, labels, sample_weight=weights)
    expected = slow_optimum(logits, labels, penalty, weights, biases)
    assert 1 / fitted.temperature_ == pytest.approx(expected[0], abs=1e-5)
    centred = expected[1:] - expected[1:].mean() if biases else np.zeros(4)
    np.testing.assert_allclose(fitted.bias_, centred, atol=1e-5)


def test_an_infinite_penalty_changes_nothing_and_a_large_one_nearly_so():
    logits, labels = rows()
    kept = ShrunkScaling(None).fit(logits, labels)
    assert kept.temperature_ == 1.0
    assert not kept.bias_.any()
    np.testing.assert_array_equal(kept.transform(logits), logits)
    near = ShrunkScaling(1e9).fit(logits, labels)
    np.testing.assert_allclose(near.transform(logits), logits, atol=1e-5)


def test_no_penalty_is_maximum_likelihood():
    logits, labels = rows()
    fitted = ShrunkScaling(0.0).fit(logits, labels)
    expected = slow_optimum(logits, labels, 0.0)
    np.testing.assert_allclose(
        fitted.transform(logits)[:, 1:] - fitted.transform(logits)[:, :1],
        (expected[0] * logits + expected[1:])[:, 1:] - (expected[0] * logits + expected[1:])[:, :1],
        atol=1e-4,
    )
    # The gradient of a maximum: expected class counts are the observed ones.
    np.testing.assert_allclose(fitted.predict_proba(logits).sum(axis=0), np.bincount(labels), atol=1e-6)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10_000))
def test_a_stronger_penalty_never_goes_further(seed):
    logits, labels = rows(40, 3, seed=seed)
    distances = []
    for penalty in (0.01, 0.1, 1.0, 10.0):
        fitted = ShrunkScaling(penalty).fit(logits, labels)
        distances.append((1 / fitted.temperature_ - 1) ** 2 + (fitted.bias_**2).sum())
    assert distances == sorted(distances, reverse=True)


def test_labels_that_contradict_the_logits_end_at_the_bound():
    logits, _ = rows(100, 3, temperature=0.5, bias=0.0)
    opposite = logits.argmin(axis=1)
    fitted = ShrunkScaling(0.001).fit(logits, opposite)
    assert fitted.at_bound_ and 1 / fitted.temperature_ == pytest.approx(LOWEST_SCALE)


def test_several_problems_at_once_are_the_same_as_one_by_one():
    logits, labels = rows(60, 3)
    weights = np.random.default_rng(2).uniform(0, 1, (5, 60))
    weights[0, :20] = 0.0
    weights /= weights.sum(axis=1, keepdims=True)
    penalties = np.array([0.005, 0.02, 0.2, 2.0, 0.005])
    together = shrunk_optima(logits, labels, weights, penalties).parameters
    for place in range(5):
        alone = shrunk_optima(logits, labels, weights[place : place + 1], penalties[place : place + 1])
        np.testing.assert_allclose(together[place], alone.parameters[0], atol=1e-8)


def test_it_is_saved_and_loaded(tmp_path):
    logits, labels = rows()
    fitted = ShrunkScaling(0.01).fit(logits, labels)
    fitted.save(tmp_path)
    np.testing.assert_array_equal(load_calibrator(tmp_path).transform(logits), fitted.transform(logits))
