"""Vector scaling against closed forms, a general-purpose optimiser and other libraries."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import log_softmax, softmax

from calmix.calibration.calibrators.temperature import TemperatureScaling
from calmix.calibration.calibrators.vector import VectorLoss, VectorScaling


def sample(rows, classes, seed=0):
    """Logits that would be calibrated after their own scale and bias per class."""
    generator = np.random.default_rng(seed)
    true = 2 * generator.standard_normal((rows, classes))
    labels = (softmax(true, axis=1).cumsum(axis=1) > generator.random((rows, 1))).argmax(axis=1)
    scale, bias = generator.uniform(0.3, 3, classes), generator.normal(size=classes)
    return (true - bias) / scale, labels, scale, bias - bias.mean()


def objective_of(logits, labels, scale, bias, l2=0.0, temperature=1.0):
    losses = -log_softmax(logits * scale + bias, axis=1)[np.arange(len(labels)), labels]
    return np.mean(losses) + l2 * (((temperature * scale - 1) ** 2).sum() + (bias**2).sum())


def test_it_finds_the_scales_and_biases_that_made_the_data():
    logits, labels, scale, bias = sample(100_000, 4)
    fitted = VectorScaling().fit(logits, labels)
    np.testing.assert_allclose(fitted.scale_, scale, rtol=0.05)
    np.testing.assert_allclose(fitted.bias_, bias, atol=0.06)
    assert fitted.converged_


@pytest.mark.parametrize("l2", [0.0, 0.01])
@pytest.mark.parametrize("classes", [2, 5])
def test_a_general_optimiser_on_the_formula_finds_nothing_better(classes, l2):
    logits, labels, _, _ = sample(400, classes, seed=classes)
    fitted = VectorScaling(l2=l2).fit(logits, labels)

    def objective(parameters):
        return objective_of(logits, labels, *np.split(parameters, 2), l2, fitted.temperature_)

    ours = np.concatenate([fitted.scale_, fitted.bias_])
    start = np.concatenate([np.full(classes, 1 / fitted.temperature_), np.zeros(classes)])
    theirs = minimize(objective, start, method="BFGS", options={"gtol": 1e-7})
    assert objective(ours) <= theirs.fun + 1e-12
    np.testing.assert_allclose(ours[:classes], theirs.x[:classes], atol=1e-4)


def test_gradient_and_step_follow_from_finite_differences():
    generator = np.random.default_rng(0)
    x, labels = generator.normal(size=(50, 3)), generator.integers(0, 3, 50)
    weights = generator.uniform(size=50)
    loss = VectorLoss(x, labels, weights / weights.sum(), penalty=np.full(6, 0.1))
    point = generator.normal(size=6)
    _, gradient = loss.evaluate(point)
    step = loss.newton_step(gradient)
    width = 1e-5
    hessian, slope = np.empty((6, 6)), np.empty(6)
    for k in range(6):
        move = width * np.eye(6)[k]
        (above, up), (below, down) = loss.evaluate(point + move), loss.evaluate(point - move)
        slope[k] = (above - below) / (2 * width)
        hessian[k] = (up - down) / (2 * width)
    np.testing.assert_allclose(gradient, slope, atol=1e-8)
    np.testing.assert_allclose(step, -np.linalg.solve(hessian, gradient), rtol=1e-6)


def test_a_large_penalty_gives_temperature_scaling():
    logits, labels, _, _ = sample(500, 3)
    temperature = TemperatureScaling().fit(logits, labels)
    fitted = VectorScaling(l2=1e8).fit(logits, labels)
    np.testing.assert_allclose(fitted.predict_proba(logits), temperature.predict_proba(logits), atol=1e-6)


def test_it_is_at_least_as_likely_as_temperature_scaling():
    for seed in range(5):
        logits, labels, _, _ = sample(300, 4, seed=seed)
        assert (
            VectorScaling().fit(logits, labels).nll_after_
            <= TemperatureScaling().fit(logits, labels).nll_after_
        )


def test_scaling_the_logits_leaves_the_probabilities():
    logits, labels, _, _ = sample(500, 3)
    expected = VectorScaling().fit(logits, labels).predict_proba(logits)
    for factor in (0.05, 30.0):
        scaled = VectorScaling().fit(factor * logits, labels).predict_proba(factor * logits)
        np.testing.assert_allclose(scaled, expected, atol=1e-8)


def test_mean_probability_of_every_class_equals_its_share():
    """The gradient of the biases is zero: that is what the optimum means."""
    logits, labels, _, _ = sample(2000, 5)
    mean = VectorScaling().fit(logits, labels).predict_proba(logits).mean(axis=0)
    np.testing.assert_allclose(mean, np.bincount(labels) / 2000, atol=1e-9)


def test_rows_without_a_finite_optimum_are_told():
    logits, _, _, _ = sample(300, 3)
    with pytest.warns(UserWarning, match="separable"):
        VectorScaling().fit(logits, logits.argmax(axis=1))
    with pytest.warns(UserWarning, match="this is temperature scaling"):
        separated = VectorScaling().fit(logits[:4], [0, 1, 2, 0])  # by scales and biases, not by the logits
    assert separated.is_separable_
    with pytest.warns(UserWarning, match="no row has class 2"):
        VectorScaling().fit(logits, np.arange(300) % 2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        penalised = VectorScaling(l2=1e-3).fit(logits, np.arange(300) % 2)
    assert penalised.converged_
    assert penalised.predict_proba(logits)[:, 2].min() > 1e-4


def test_rows_without_an_error_give_temperature_scaling_with_its_guard():
    logits, _, _, _ = sample(60, 3)
    labels = logits.argmax(axis=1)
    with pytest.warns(UserWarning):
        fitted, expected = VectorScaling().fit(logits, labels), TemperatureScaling().fit(logits, labels)
    wrong = -logits  # what the fitting rows never showed costs no more than the guard allows
    np.testing.assert_allclose(fitted.predict_proba(wrong), expected.predict_proba(wrong), rtol=1e-12)
    assert -np.log(fitted.predict_proba(wrong)).max() < 100
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # equal logits are not separable: the biases have an optimum
        fitted = VectorScaling().fit([[0.0, 0.0]] * 4, [0, 0, 0, 1])
    assert not fitted.is_separable_


@pytest.mark.parametrize("l2", [-1.0, np.inf, np.nan])
def test_a_penalty_that_makes_no_sense_is_refused(l2):
    with pytest.raises(ValueError, match="l2 must be finite and not negative"):
        VectorScaling(l2=l2).fit([[0.0, 1.0]], [1])


def test_probmetrics_finds_nothing_better():
    calibrators = pytest.importorskip("probmetrics.calibrators")
    distributions = pytest.importorskip("probmetrics.distributions")
    import torch

    logits, labels, _, _ = sample(2000, 4)
    theirs = calibrators.VectorScalingCalibrator()
    predicted = distributions.CategoricalLogits(torch.as_tensor(logits))
    theirs.fit_torch(predicted, torch.as_tensor(labels))
    probabilities = theirs.predict_proba_torch(predicted).get_probs().numpy()
    fitted = VectorScaling().fit(logits, labels)
    their_nll = -np.log(probabilities[np.arange(2000), labels]).mean()
    assert fitted.nll_after_ <= their_nll + 1e-9
    np.testing.assert_allclose(fitted.predict_proba(logits), probabilities, atol=2e-3)
