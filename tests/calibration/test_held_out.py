"""Cross-validated calibration against a loop written out."""

from __future__ import annotations

import numpy as np
from scipy.special import softmax

from calmix.calibration.calibrators.calibrator import get_calibrator
from calmix.calibration.calibrators.folds import fold_of_row
from calmix.calibration.held_out import cross_validated
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
