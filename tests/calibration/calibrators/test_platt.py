"""Platt scaling against closed forms and scikit-learn."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from scipy.special import expit

from calmix.calibration.calibrators.platt import PlattScaling
from calmix.calibration.calibrators.temperature import TemperatureScaling


def sample(rows, slope=0.4, intercept=0.7, seed=0):
    """Logits whose difference d is right as sigmoid(slope d + intercept)."""
    generator = np.random.default_rng(seed)
    difference = 4 * generator.standard_normal(rows)
    labels = (generator.random(rows) < expit(slope * difference + intercept)).astype(np.int64)
    base = generator.standard_normal(rows)
    return np.stack([base, base + difference], axis=1), labels


def test_it_finds_the_line_that_made_the_data():
    logits, labels = sample(200_000)
    fitted = PlattScaling().fit(logits, labels)
    assert (fitted.slope_, fitted.intercept_) == (pytest.approx(0.4, rel=0.02), pytest.approx(0.7, abs=0.02))
    assert fitted.converged_


@pytest.mark.parametrize("smoothing", [True, False])
def test_it_agrees_with_scikit_learn(smoothing):
    logits, labels = sample(3000)
    difference = logits[:, 1] - logits[:, 0]
    fitted = PlattScaling(smoothing=smoothing).fit(logits, labels)
    if smoothing:
        from sklearn.calibration import _SigmoidCalibration

        theirs = _SigmoidCalibration().fit(difference, labels)
        slope, intercept = -theirs.a_, -theirs.b_
    else:
        from sklearn.linear_model import LogisticRegression

        model = LogisticRegression(C=np.inf, tol=1e-10).fit(difference[:, None], labels)
        slope, intercept = model.coef_[0, 0], model.intercept_[0]
    assert fitted.slope_ == pytest.approx(slope, rel=1e-4)
    assert fitted.intercept_ == pytest.approx(intercept, rel=1e-4)


def test_at_the_optimum_residuals_are_uncorrelated_with_the_difference():
    logits, labels = sample(1000)
    fitted = PlattScaling(smoothing=False).fit(logits, labels)
    residual = fitted.predict_proba(logits)[:, 1] - labels
    assert residual.mean() == pytest.approx(0, abs=1e-10)
    assert (residual * (logits[:, 1] - logits[:, 0])).mean() == pytest.approx(0, abs=1e-10)


def test_symmetric_data_gives_temperature_scaling():
    logits, labels = sample(1000, intercept=0.0)
    both = np.concatenate([logits, logits[:, ::-1]]), np.concatenate([labels, 1 - labels])
    fitted = PlattScaling(smoothing=False).fit(*both)
    assert fitted.intercept_ == pytest.approx(0, abs=1e-9)
    assert 1 / fitted.slope_ == pytest.approx(TemperatureScaling().fit(*both).temperature_, rel=1e-8)


@pytest.mark.parametrize("factor", [1e-3, 1e3])
def test_the_scale_of_the_logits_does_not_matter(factor):
    logits, labels = sample(500)
    expected = PlattScaling().fit(logits, labels)
    scaled = PlattScaling().fit(factor * logits, labels)
    assert scaled.slope_ * factor == pytest.approx(expected.slope_, rel=1e-7)
    assert scaled.intercept_ == pytest.approx(expected.intercept_, rel=1e-7)


def test_smoothing_keeps_separable_rows_and_a_single_class_finite():
    logits, _ = sample(100)
    separable = PlattScaling().fit(logits, logits.argmax(axis=1))
    assert separable.converged_ and np.isfinite(separable.slope_)
    one = PlattScaling().fit(logits, np.ones(100, dtype=np.int64))
    np.testing.assert_allclose(one.predict_proba(logits)[:, 1], 101 / 102, rtol=1e-6)


def test_without_smoothing_separable_rows_are_told():
    logits, _ = sample(100)
    with pytest.warns(UserWarning, match="separable"):
        PlattScaling(smoothing=False).fit(logits, logits.argmax(axis=1))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        PlattScaling(smoothing=False).fit(*sample(100))


def test_more_than_two_classes_are_refused():
    with pytest.raises(ValueError, match="two classes, not 3"):
        PlattScaling().fit(np.zeros((3, 3)), [0, 1, 2])


def test_it_folds_exactly():
    logits, labels = sample(300)
    fitted = PlattScaling().fit(logits, labels)
    scale, bias = fitted.folding()
    np.testing.assert_allclose(fitted.transform(logits), scale * logits + bias, atol=1e-14)
    expected = expit(fitted.slope_ * (logits[:, 1] - logits[:, 0]) + fitted.intercept_)
    np.testing.assert_allclose(fitted.predict_proba(logits)[:, 1], expected, atol=1e-12)
