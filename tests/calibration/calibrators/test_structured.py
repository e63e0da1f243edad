"""Structured scaling against the formula, its limits and the authors' package."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import log_softmax, softmax

from calmix.calibration.calibrators.structured import MatrixLoss, StructuredScaling
from calmix.calibration.calibrators.temperature import TemperatureScaling


def sample(rows, classes, seed=0):
    """Logits that a matrix and a bias have moved away from calibrated ones."""
    generator = np.random.default_rng(seed)
    true = 2 * generator.standard_normal((rows, classes))
    labels = (softmax(true, axis=1).cumsum(axis=1) > generator.random((rows, 1))).argmax(axis=1)
    matrix = 2.5 * np.eye(classes) + 0.3 * generator.standard_normal((classes, classes))
    return true @ matrix.T + generator.normal(size=classes), labels


def features(logits, temperature, coordinates):
    scaled = logits / temperature
    if coordinates == "centred":
        return scaled - scaled.mean(axis=1, keepdims=True)
    uniform = 1 / (len(logits) + 1)
    return np.log((1 - uniform) * softmax(scaled, axis=1) + uniform / logits.shape[1])


def objective(x, labels, matrix, bias, penalties=(1.0, 1.0, 1.0)):
    """The module's formula, term by term."""
    rows, classes = x.shape
    intercept, diagonal, off_diagonal = penalties
    nll = -log_softmax(x @ matrix.T + bias, axis=1)[np.arange(rows), labels].mean()
    change = matrix - np.eye(classes)
    on = (np.diag(change) ** 2).sum()
    off = (change**2).sum() - on
    return nll + classes / rows * (
        intercept * (bias**2).sum() + diagonal * on + (classes - 1) * off_diagonal * off
    )


@pytest.mark.parametrize("coordinates", ["centred", "log-probabilities"])
@pytest.mark.parametrize("structure", ["matrix", "vector"])
def test_a_general_optimiser_on_the_formula_finds_nothing_better(structure, coordinates):
    logits, labels = sample(300, 3)
    penalties = (0.5, 2.0, 1.5)
    fitted = StructuredScaling(structure, coordinates, *penalties).fit(logits, labels)
    x = features(logits, TemperatureScaling().fit(logits, labels).temperature_, coordinates)

    def value(parameters):
        bias = parameters[:3]
        matrix = np.diag(parameters[3:]) if structure == "vector" else parameters[3:].reshape(3, 3)
        return objective(x, labels, matrix, bias, penalties)

    free = fitted.matrix_.ravel() if structure == "matrix" else np.diag(fitted.matrix_)
    ours = np.concatenate([fitted.bias_, free])
    start = np.concatenate([np.zeros(3), np.eye(3).ravel() if structure == "matrix" else np.ones(3)])
    theirs = minimize(value, start, method="BFGS", options={"gtol": 1e-7})
    assert value(ours) <= theirs.fun + 1e-12
    np.testing.assert_allclose(ours, theirs.x, atol=1e-4)
    np.testing.assert_allclose(fitted.transform(logits), x @ fitted.matrix_.T + fitted.bias_, atol=1e-9)


def test_conjugate_gradients_and_the_full_hessian_end_at_the_same_optimum(monkeypatch):
    logits, labels = sample(500, 4)
    dense = StructuredScaling().fit(logits, labels)
    monkeypatch.setattr("calmix.calibration.calibrators.structured._MOST_PARAMETERS_DENSE", 0)
    iterative = StructuredScaling().fit(logits, labels)
    assert dense.converged_ and iterative.converged_
    np.testing.assert_allclose(iterative.matrix_, dense.matrix_, atol=1e-7)
    np.testing.assert_allclose(iterative.bias_, dense.bias_, atol=1e-7)


def test_gradient_hessian_and_its_product_follow_from_finite_differences(monkeypatch):
    monkeypatch.setattr("calmix.calibration.calibrators.structured._BLOCK_NUMBERS", 12 * 7)  # several blocks
    generator = np.random.default_rng(0)
    x, labels, weights = (
        generator.normal(size=(40, 3)),
        generator.integers(0, 3, 40),
        generator.uniform(size=40),
    )
    loss = MatrixLoss(x, labels, weights / weights.sum(), penalty=generator.uniform(size=(3, 4)))
    point, width = generator.normal(size=12), 1e-5
    hessian, slope = np.empty((12, 12)), np.empty(12)
    for k in range(12):
        move = width * np.eye(12)[k]
        (above, up), (below, down) = loss.evaluate(point + move), loss.evaluate(point - move)
        slope[k] = (above - below) / (2 * width)
        hessian[k] = (up - down) / (2 * width)
    _, gradient = loss.evaluate(point)
    np.testing.assert_allclose(gradient, slope, atol=1e-8)
    np.testing.assert_allclose(loss.hessian(), hessian, atol=1e-7)
    np.testing.assert_allclose(loss.hessian_diagonal(), np.diag(hessian), atol=1e-7)
    direction = generator.normal(size=12)
    np.testing.assert_allclose(loss.hessian_product(direction), hessian @ direction, atol=1e-6)


def held_out_nll(calibrator, logits, labels):
    return -np.log(calibrator.predict_proba(logits)[np.arange(len(labels)), labels]).mean()


def test_on_new_rows_it_beats_free_matrix_scaling_after_few_and_temperature_scaling_after_many():
    logits, labels = sample(60_000, 10)
    fresh, fresh_labels = logits[50_000:], labels[50_000:]
    few = StructuredScaling().fit(logits[:200], labels[:200])
    free = StructuredScaling("matrix", "centred", 1e-6, 1e-6, 1e-6).fit(logits[:200], labels[:200])
    many = StructuredScaling().fit(logits[:50_000], labels[:50_000])
    temperature = TemperatureScaling().fit(logits[:50_000], labels[:50_000])
    assert held_out_nll(few, fresh, fresh_labels) < held_out_nll(free, fresh, fresh_labels) - 0.01
    assert held_out_nll(many, fresh, fresh_labels) < held_out_nll(temperature, fresh, fresh_labels) - 0.01


def test_below_two_hundred_rows_it_is_temperature_scaling_and_says_so():
    logits, labels = sample(199, 10)
    with pytest.warns(UserWarning, match="199 rows are too few .* below 200"):
        fitted = StructuredScaling().fit(logits, labels)
    expected = TemperatureScaling().fit(logits, labels).predict_proba(logits)
    assert fitted.is_temperature_ and fitted.folds
    np.testing.assert_allclose(fitted.predict_proba(logits), expected, atol=1e-12)
    matrix, bias = fitted.affine()
    np.testing.assert_allclose(softmax(logits @ matrix.T + bias, axis=1), expected, atol=1e-12)
    assert not StructuredScaling(minimum_rows=199).fit(logits, labels).is_temperature_


def test_rows_without_an_error_are_told():
    logits, _ = sample(300, 3)
    with pytest.warns(UserWarning, match="none of the 300 rows is misclassified"):
        fitted = StructuredScaling().fit(logits, logits.argmax(axis=1))
    assert fitted.predict_proba(logits).max() < 1


def test_a_large_penalty_gives_temperature_scaling():
    logits, labels = sample(500, 3)
    expected = TemperatureScaling().fit(logits, labels).predict_proba(logits)
    fitted = StructuredScaling("matrix", "centred", 1e8, 1e8, 1e8).fit(logits, labels)
    np.testing.assert_allclose(fitted.predict_proba(logits), expected, atol=1e-6)


def test_without_penalty_it_is_matrix_scaling():
    """The mean probability of every class then equals its share, as in any logistic regression."""
    logits, labels = sample(3000, 3)
    free = StructuredScaling("matrix", "centred", 0.0, 0.0, 0.0).fit(logits, labels)
    np.testing.assert_allclose(free.predict_proba(logits).mean(axis=0), np.bincount(labels) / 3000, atol=1e-8)


@pytest.mark.parametrize("structure", ["matrix", "vector"])
def test_a_shift_and_a_scale_of_the_logits_do_not_matter(structure):
    logits, labels = sample(400, 3)
    shift = np.random.default_rng(1).normal(size=(400, 1)) * 10
    expected = StructuredScaling(structure).fit(logits, labels).predict_proba(logits)
    moved = 7 * logits + shift
    np.testing.assert_allclose(
        StructuredScaling(structure).fit(moved, labels).predict_proba(moved), expected, atol=1e-7
    )


def test_a_class_without_rows_and_separable_rows_have_a_finite_optimum():
    logits, _ = sample(200, 3)
    for labels in (np.arange(200) % 2, logits.argmax(axis=1)):
        fitted = StructuredScaling().fit(logits, labels)
        assert fitted.converged_
        assert np.abs(fitted.matrix_).max() < 100


def test_log_probabilities_do_not_fold():
    logits, labels = sample(200, 3)
    fitted = StructuredScaling(coordinates="log-probabilities").fit(logits, labels)
    assert not fitted.folds
    with pytest.raises(ValueError, match="not affine in the logits"):
        fitted.affine()
    with pytest.raises(ValueError, match="no scale and bias per class"):
        StructuredScaling(coordinates="centred").fit(logits, labels).folding()


@pytest.mark.parametrize(
    ("parameters", "problem"),
    [
        ({"structure": "diagonal"}, "structure must be 'matrix' or 'vector'"),
        ({"coordinates": "raw"}, "coordinates must be"),
        ({"diagonal_penalty": -1.0}, "diagonal_penalty must be finite and not negative"),
        ({"minimum_rows": -1}, "minimum_rows must not be negative"),
    ],
)
def test_parameters_that_make_no_sense_are_refused(parameters, problem):
    with pytest.raises(ValueError, match=problem):
        StructuredScaling(**parameters).fit([[0.0, 1.0]], [1])


@pytest.mark.parametrize(("structure", "theirs"), [("vector", "SVSCalibrator"), ("matrix", "SMSCalibrator")])
def test_it_reaches_the_objective_of_the_authors_package_or_less(structure, theirs):
    calibrators = pytest.importorskip("probmetrics.calibrators")
    logits, labels = sample(3000, 4)
    probabilities = softmax(logits, axis=1)
    reference = getattr(calibrators, theirs)().fit(probabilities, labels)
    fitted = StructuredScaling(structure, "log-probabilities").fit(logits, labels)
    x = features(logits, fitted.temperature_, "log-probabilities")
    if structure == "vector":
        their_matrix, their_bias = np.diag(reference.v_), reference.b_
    else:
        their_matrix, their_bias = reference.W_[:, :-1], reference.W_[:, -1]
    ours = objective(x, labels, fitted.matrix_, fitted.bias_)
    assert ours <= objective(x, labels, their_matrix, their_bias) + 1e-9
    # Theirs works in float32 and stops at its optimiser's tolerance.
    assert ours == pytest.approx(objective(x, labels, their_matrix, their_bias), abs=1e-5)
    np.testing.assert_allclose(
        fitted.predict_proba(logits), reference.predict_proba(probabilities), atol=5e-3
    )
