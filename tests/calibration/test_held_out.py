"""Cross-validated calibration against a loop written out."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import softmax

from calmix.calibration.calibrators.calibrator import get_calibrator
from calmix.calibration.calibrators.folds import fold_of_row
from calmix.calibration.held_out import are_same_rows, cross_validated
from calmix.calibration.predictions import Predictions


def sample(rows, classes=3, seed=0):
    generator = np.random.default_rng(seed)
    logits = 2 * generator.standard_normal((rows, classes))
    labels = (softmax(logits, axis=1).cumsum(axis=1) > generator.random((rows, 1))).argmax(axis=1)
    return Predictions.from_logits(2.5 * logits, labels)


def test_no_row_is_calibrated_by_a_fit_that_saw_it():
    predictions = sample(203)
    found = cross_validated(get_calibrator("vector"), predictions)
    fold = fold_of_row(predictions.labels, 5)
    assert np.bincount(fold).tolist() == [41, 41, 41, 40, 40]
    for number in range(5):
        others, own = np.flatnonzero(fold != number), np.flatnonzero(fold == number)
        fitted = get_calibrator("vector").fit(predictions.values[others], predictions.labels[others])
        np.testing.assert_allclose(found.after.values[own], fitted.transform(predictions.values[own]))
    np.testing.assert_array_equal(found.after.labels, predictions.labels)


def test_every_class_is_spread_over_the_folds():
    labels = np.random.default_rng(0).choice(4, 500, p=[0.7, 0.2, 0.08, 0.02])
    fold = fold_of_row(labels, 5)
    for label in range(4):
        counts = np.bincount(fold[labels == label], minlength=5)
        assert counts.max() - counts.min() <= 1


def test_its_loss_estimates_that_of_new_rows():
    """Averaged over draws, where the in-sample loss is too low."""
    fresh = sample(20_000, classes=6, seed=99)
    in_sample, estimated, true = [], [], []
    for seed in range(12):
        predictions = sample(120, classes=6, seed=seed)
        calibrator = get_calibrator("vector", l2=0.001).fit(predictions)
        after = cross_validated(get_calibrator("vector", l2=0.001), predictions).after
        in_sample.append(calibrator.nll_after_)
        estimated.append(-after.gold_log_probability().mean())
        scaled = Predictions.from_logits(calibrator.transform(fresh), fresh.labels)
        true.append(-scaled.gold_log_probability().mean())
    assert abs(np.mean(estimated) - np.mean(true)) < 0.6 * abs(np.mean(in_sample) - np.mean(true))


def test_too_few_rows_are_not_split():
    assert cross_validated(get_calibrator("temperature"), sample(9)) is None


def test_weights_and_soft_labels_count_in_the_fits_and_in_the_metrics():
    """Rows of weight 0 are no rows; a weight of 2 is a row that counts twice in the metrics."""
    rows = sample(120)
    weights = np.repeat([0.0, 1.0, 2.0], 40)
    found = cross_validated(get_calibrator("temperature"), rows.with_rows(weights=weights))
    np.testing.assert_array_equal(found.after.weights, weights[40:])
    kept = rows.select(np.arange(40, 120)).with_rows(weights=weights[40:])
    fold = fold_of_row(kept.labels, 5)
    losses = np.empty(80)
    for number in range(5):
        others, own = np.flatnonzero(fold != number), np.flatnonzero(fold == number)
        fitted = get_calibrator("temperature").fit(
            kept.values[others], kept.labels[others], sample_weight=kept.weights[others]
        )
        chances = softmax(kept.values[own] / fitted.temperature_, axis=1)
        losses[own] = -np.log(chances[np.arange(len(own)), kept.labels[own]])
    measured = found.metrics()
    assert measured["after"]["nll"] == pytest.approx(np.average(losses, weights=weights[40:]), rel=1e-9)
    assert measured["after"]["n"] == measured["before"]["n"] == 80
    change = measured["nll_difference"]
    assert change["difference"] == pytest.approx(
        measured["after"]["nll"] - measured["before"]["nll"], abs=1e-12
    )
    assert change["ci"][0] < change["difference"] < change["ci"][1]
    soft = softmax(rows.values / 2, axis=1)
    found = cross_validated(get_calibrator("temperature"), rows.with_rows(targets=soft))
    np.testing.assert_allclose(found.after.targets, soft)
    measured = found.metrics()
    expected = measured["after"]["nll"] - measured["before"]["nll"]
    assert measured["nll_difference"]["difference"] == pytest.approx(expected, abs=1e-9)


def test_the_same_rows_are_found_in_another_order_and_precision():
    rows = sample(50)
    order = np.random.default_rng(0).permutation(50)
    other = Predictions.from_logits(rows.values[order].astype(np.float32), rows.labels[order])
    assert are_same_rows(rows, other)
    assert not are_same_rows(rows, sample(50, seed=1))
    assert not are_same_rows(rows, rows.select(np.arange(49)))
