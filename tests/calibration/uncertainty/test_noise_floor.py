"""The noise floor is what a perfectly calibrated model shows."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from calmix.calibration.evaluation import evaluate
from calmix.calibration.metrics.binning import assign_bins, equal_width_sums
from calmix.calibration.metrics.errors import classwise_calibration_error, expected_calibration_error
from calmix.calibration.predictions import Predictions
from calmix.calibration.uncertainty.confidence_sample import ConfidenceSample
from calmix.calibration.uncertainty.noise_floor import (
    binomial_deviations,
    classwise_noise_floor,
    matched_binomial,
    noise_floor,
    noise_floor_of_sums,
)
from calmix.calibration.uncertainty.random_groups import deal_rows
from calmix.calibration.uncertainty.views.classes import ClassView


@pytest.mark.parametrize("closed", ["right", "left"])
@pytest.mark.parametrize("rows", [7, 400])
def test_it_is_the_mean_and_percentile_of_redrawn_errors(rows, closed):
    generator = np.random.default_rng(rows)
    confidence = generator.choice([0.2, 1 / 3, 0.6, 0.8, 0.93, 1.0], rows)
    slow = [
        expected_calibration_error(confidence, generator.random(rows) < confidence, closed=closed)
        for _ in range(3000)
    ]
    found = noise_floor(confidence, closed=closed, repetitions=20_000)
    assert found.mean == pytest.approx(np.mean(slow), abs=4 * np.std(slow) / np.sqrt(3000))
    assert found.p95 == pytest.approx(np.quantile(slow, 0.95), rel=0.06)


def test_one_bin_is_a_folded_normal_number():
    found = noise_floor(np.full(10_000, 0.7), repetitions=5000)
    spread = np.sqrt(0.7 * 0.3 / 10_000)
    assert found.mean == pytest.approx(spread * np.sqrt(2 / np.pi), rel=0.05)
    assert found.p95 == pytest.approx(1.96 * spread, rel=0.05)


def test_the_moments_of_the_bins_say_the_same_as_the_rows():
    confidence = np.random.default_rng(1).uniform(0.5, 1.0, 15_000)
    by_rows = noise_floor(confidence)
    by_sums = noise_floor_of_sums(equal_width_sums(confidence, np.zeros(15_000)))
    assert by_sums.mean == pytest.approx(by_rows.mean, rel=0.04)
    assert by_sums.p95 == pytest.approx(by_rows.p95, rel=0.04)


def test_many_rows_need_no_redrawing_of_each():
    generator = np.random.default_rng(2)
    confidence = generator.uniform(0.5, 1.0, 300_000)
    found = noise_floor(confidence)
    placed = assign_bins(confidence, 15)
    shown = []
    for _ in range(40):
        residual = np.bincount(placed, weights=(generator.random(300_000) < confidence) - confidence)
        shown.append(np.abs(residual).sum() / 300_000)
    assert found.mean == pytest.approx(np.mean(shown), rel=0.15)


def test_certain_rows_make_no_noise():
    assert noise_floor([1.0, 1.0, 0.0]).p95 == 0.0


def rows_of_true_probabilities(generator, rows, classes):
    """Probabilities of which a few are large, and labels drawn from them."""
    scores = 2.0 * generator.standard_normal((rows, classes))
    scores[np.arange(rows), generator.integers(0, classes, rows)] += 4.0 + np.log(classes)
    probabilities = np.exp(scores - scores.max(axis=1, keepdims=True))
    probabilities /= probabilities.sum(axis=1, keepdims=True)
    labels = (probabilities.cumsum(axis=1) < generator.random(rows)[:, None]).sum(axis=1)
    return probabilities, np.minimum(labels, classes - 1)


@pytest.mark.parametrize(("rows", "classes"), [(30, 2), (60, 3), (80, 40)])
def test_the_classwise_floor_is_that_of_labels_redrawn_one_by_one(rows, classes):
    generator = np.random.default_rng(rows)
    probabilities, _ = rows_of_true_probabilities(generator, rows, classes)
    slow = []
    for _ in range(500):
        labels = [generator.choice(classes, p=row) for row in probabilities]
        slow.append(classwise_calibration_error(probabilities, labels))
    found = classwise_noise_floor(probabilities, repetitions=6000)
    assert found.mean == pytest.approx(np.mean(slow), abs=4 * np.std(slow) / np.sqrt(500))
    # Few rows give few different values: the percentile is a step that 5 % lie beyond.
    margin = 4 * np.sqrt(0.05 * 0.95 / 500)
    assert np.mean(np.array(slow) > found.p95 + 1e-9) <= 0.05 + margin
    assert np.mean(np.array(slow) >= found.p95 - 1e-9) >= 0.05 - margin


@pytest.mark.simulates
@pytest.mark.parametrize("redraws_rows", [True, False])
def test_a_calibrated_model_with_many_classes_is_rarely_alarming(monkeypatch, redraws_rows):
    """A normal law in cells of one or two rows alarmed in half of all samples."""
    if not redraws_rows:
        monkeypatch.setattr("calmix.calibration.uncertainty.views.classes.MOST_ROWS", 0)
    generator = np.random.default_rng(5)
    alarms = 0
    for seed in range(30):
        probabilities, labels = rows_of_true_probabilities(generator, 500, 100)
        view = ClassView(100, bins=15, closed="right", grouped=True)
        view.update(probabilities, labels, deal_rows(0, 500))
        columns = [
            ConfidenceSample.pack(column.copy(), labels == k) for k, column in enumerate(probabilities.T)
        ]
        alarms += view.values()["ece"] > view.noise_floor(columns, seed).p95
    assert alarms <= 6  # 30 draws at 5 % exceed it once in 1,500 times


def test_evaluate_reports_the_floor_of_redrawn_labels():
    probabilities, labels = rows_of_true_probabilities(np.random.default_rng(6), 300, 20)
    found = evaluate(Predictions.from_probabilities(probabilities, labels), notion="classwise")
    floor = classwise_noise_floor(probabilities)
    assert (found["ece_noise_floor"], found["ece_noise_floor_p95"]) == pytest.approx((floor.mean, floor.p95))


@given(st.lists(st.floats(0.0, 1.0, width=16), min_size=1, max_size=40))
def test_the_matched_binomial_number_has_the_moments_of_unequal_coins(shares):
    shares = np.array(shares)
    mean, variance = shares.sum(), (shares * (1 - shares)).sum()
    trials, share = matched_binomial(np.array([mean]), np.array([variance]))
    assert (trials * share)[0] == pytest.approx(mean, abs=1e-9)
    # Trials are rounded up to a whole number: never too little noise, and at most that of one trial more.
    spare = mean**2 / wanted / (wanted + 1) if (wanted := mean**2 / max(mean - variance, 1e-9)) > 0 else 0.0
    found = (trials * share * (1 - share))[0]
    assert variance - 1e-4 <= found <= variance + spare + 1e-4


@pytest.mark.parametrize("share", [0.02, 0.3, 0.97])
@pytest.mark.parametrize("trials", [1, 2, 12])
def test_small_counts_are_drawn_from_their_own_law(trials, share):
    normal = np.random.default_rng(7).standard_normal((20_000, 1))
    mean, variance = np.array([trials * share]), np.array([trials * share * (1 - share)])
    counts = binomial_deviations(normal, mean, variance)[:, 0] + mean
    assert counts == pytest.approx(np.round(counts), abs=1e-6)
    for value in range(trials + 1):
        chance = binom.pmf(value, trials, share)
        assert np.mean(np.round(counts) == value) == pytest.approx(
            chance, abs=4 * np.sqrt(chance * (1 - chance) / 20_000) + 1e-4
        )


def test_bins_of_few_rows_are_drawn_from_their_own_law():
    """Twenty sure rows in each of many bins: a normal law would show several times the error."""
    confidence = np.tile(np.linspace(0.9801, 0.9999, 100), 3)
    by_rows = noise_floor(confidence, bins=5000, repetitions=4000)
    by_sums = noise_floor_of_sums(equal_width_sums(confidence, np.zeros(300), bins=5000), repetitions=4000)
    assert by_sums.mean == pytest.approx(by_rows.mean, rel=0.05)
    assert by_sums.p95 == pytest.approx(by_rows.p95, rel=0.05)
