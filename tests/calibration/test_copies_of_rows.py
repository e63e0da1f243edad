"""A row with a soft label is fitted as one copy for every class: the copies are one row, not several."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from scipy.optimize import minimize

from calmix.calibration.calibrators.calibrator import CALIBRATORS, get_calibrator
from calmix.calibration.predictions import Predictions


def soft_rows(rows: int, classes: int, seed: int = 0) -> Predictions:
    generator = np.random.default_rng(seed)
    logits = generator.normal(size=(rows, classes)) * 2
    targets = np.exp(logits + generator.normal(size=logits.shape))
    hard = targets.argmax(axis=1)
    return Predictions.from_logits(logits, hard).with_rows(targets=targets / targets.sum(axis=1)[:, None])


def test_platt_smooths_by_the_number_of_rows():
    given = soft_rows(12, 2)
    fitted = get_calibrator("platt").fit(given)
    share = given.targets[:, 1]
    ones, zeros = share.sum(), (1 - share).sum()
    target = share * (ones + 1) / (ones + 2) + (1 - share) / (zeros + 2)
    apart = given.values[:, 1] - given.values[:, 0]

    def loss(parameters):
        scores = parameters[0] * apart + parameters[1]
        return float((np.logaddexp(0, scores) - target * scores).mean())

    expected = minimize(loss, [1.0, 0.0], tol=1e-12).x
    np.testing.assert_allclose([fitted.slope_, fitted.intercept_], expected, atol=1e-5)


def test_structured_scaling_needs_its_rows_whatever_their_classes():
    with pytest.warns(UserWarning, match="150 rows are too few"):
        few = get_calibrator("structured").fit(soft_rows(150, 10))
    assert few.is_temperature_
    assert get_calibrator("structured").fit(soft_rows(250, 10)).rows_ == 250


@pytest.mark.parametrize("structure", ["matrix", "vector"])
def test_the_penalty_of_structured_scaling_is_that_of_the_rows(structure):
    given = soft_rows(250, 4)
    fitted = get_calibrator("structured", structure=structure, coordinates="centred").fit(given)
    # The copies as rows of their own, whose number the penalties make up for.
    copies, weights = given.weighted_rows()
    factor = len(copies) / 250
    penalties = dict.fromkeys(("intercept_penalty", "diagonal_penalty", "off_diagonal_penalty"), factor)
    again = get_calibrator("structured", structure=structure, coordinates="centred", **penalties)
    again.fit(copies.values, copies.labels, weights)
    np.testing.assert_allclose(fitted.matrix_, again.matrix_, atol=1e-7)


def test_errors_are_counted_in_rows_by_the_guard_of_the_temperature():
    logits = np.tile([[4.0, 0.0, 0.0]], (100, 1))
    given = Predictions.from_logits(logits, np.zeros(100)).with_rows(
        targets=np.tile([[0.98, 0.01, 0.01]], (100, 1))
    )
    assert get_calibrator("temperature").fit(given).guarded_  # two errors, not six


@pytest.mark.parametrize("name", sorted(CALIBRATORS))
def test_soft_labels_of_one_class_are_hard_ones(name):
    generator = np.random.default_rng(3)
    logits = generator.normal(size=(260, 2)) * 2
    labels = (generator.random(260) < 0.5).astype(int)
    hard = Predictions.from_logits(logits, labels)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        plain = get_calibrator(name).fit(hard)
        soft = get_calibrator(name).fit(hard.with_rows(targets=np.eye(2)[labels]))
    np.testing.assert_allclose(plain.predict_proba(logits), soft.predict_proba(logits), atol=1e-7)


@pytest.mark.parametrize("name", ["temperature", "structured", "vector", "isotonic"])
def test_a_warning_of_a_fit_points_to_the_line_that_fits(name):
    with pytest.warns(UserWarning) as caught:
        get_calibrator(name).fit([[3.0, -3.0], [-3.0, 3.0]] * 10, [0, 1] * 10)
    assert {warning.filename for warning in caught} == {__file__}
