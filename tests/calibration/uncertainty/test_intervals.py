"""Intervals of calibration errors hold the truth; the usual percentile bootstrap does not."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom

from calmix.calibration.metrics.binning import assign_bins
from calmix.calibration.uncertainty.intervals import bootstrap_calibration_error, calibration_error_interval

METRICS = ("ece", "mce", "rmsce", "oe", "adaptive_ece", "debiased_rmsce")


def sample(rows, gap, generator):
    """Confidence in [0.5, 1], too high by the same gap everywhere: a true ECE of `gap`."""
    confidence = 1.0 - 0.5 * generator.beta(1.0, 2.5, rows)
    return confidence, generator.random(rows) < confidence - gap


@pytest.mark.parametrize("gap", [0.0, 0.01, 0.05])
@pytest.mark.parametrize("rows", [500, 2000])
def test_the_interval_of_the_ece_holds_the_truth(rows, gap):
    generator = np.random.default_rng([rows, round(100 * gap)])
    runs = 150
    held = 0
    for run in range(runs):
        found = calibration_error_interval(*sample(rows, gap, generator), seed=run)
        held += found.low <= gap <= found.high
    # Fewer than this would be a sign that the coverage is below 93 %.
    assert held >= binom.ppf(0.005, runs, 0.93)


def test_the_percentile_bootstrap_misses_a_true_error_of_zero():
    generator = np.random.default_rng(0)
    lows = []
    for run in range(20):
        repeated = bootstrap_calibration_error(*sample(500, 0.0, generator), repetitions=200, seed=run)
        lows.append(np.quantile(repeated, 0.025))
    assert min(lows) > 0.0


def test_the_corrected_value_is_closer_to_the_truth_than_the_plug_in():
    generator = np.random.default_rng(1)
    plug_in, corrected = [], []
    for run in range(60):
        confidence, correct = sample(500, 0.02, generator)
        residual = np.bincount(assign_bins(confidence, 15), weights=correct - confidence)
        plug_in.append(np.abs(residual).sum() / 500)
        corrected.append(calibration_error_interval(confidence, correct, seed=run).corrected)
    assert abs(np.mean(corrected) - 0.02) < 0.5 * abs(np.mean(plug_in) - 0.02)


# Not the MCE: the bins at the ends of the range hold few rows at any size.
@pytest.mark.parametrize("metric", [metric for metric in METRICS if metric != "mce"])
def test_intervals_shrink_like_one_over_root_n_around_a_clear_error(metric):
    widths = []
    for rows in (4_000, 64_000):
        found = calibration_error_interval(*sample(rows, 0.1, np.random.default_rng(3)), metric)
        assert 0.0 < found.low <= found.corrected <= found.high < 1.0
        widths.append(found.high - found.low)
    assert widths[0] / widths[1] == pytest.approx(4.0, rel=0.3)


def test_in_one_bin_the_interval_is_that_of_a_mean():
    generator = np.random.default_rng(4)
    correct = generator.random(2000) < 0.6
    found = calibration_error_interval(np.full(2000, 0.8), correct)
    gap, error = 0.8 - correct.mean(), np.sqrt(0.6 * 0.4 / 2000)
    assert found.low == pytest.approx(gap - 1.96 * error, abs=0.25 * error)
    assert found.high == pytest.approx(gap + 1.96 * error, abs=0.25 * error)
    assert found.corrected == pytest.approx(gap, abs=0.1 * error)


@pytest.mark.parametrize("metric", METRICS)
def test_a_higher_level_gives_a_wider_interval_and_equal_weights_change_nothing(metric):
    confidence, correct = sample(800, 0.05, np.random.default_rng(5))
    narrow = calibration_error_interval(confidence, correct, metric, level=0.8)
    wide = calibration_error_interval(confidence, correct, metric, level=0.99)
    assert wide.low <= narrow.low <= narrow.high <= wide.high
    weighted = calibration_error_interval(confidence, correct, metric, level=0.8, weights=np.full(800, 3.0))
    assert weighted.low == pytest.approx(narrow.low, abs=1e-9)
    assert weighted.high == pytest.approx(narrow.high, abs=1e-9)


def test_rows_that_are_all_sure_and_all_right_do_not_prove_perfection():
    found = calibration_error_interval(np.ones(100), np.ones(100))
    assert found.low == 0.0
    assert 0.01 < found.high < 0.08  # about three in a hundred


def test_unknown_metrics_are_refused():
    with pytest.raises(ValueError, match="metric must be one of"):
        calibration_error_interval([0.5], [1], "accuracy")


def test_the_seed_decides_and_other_seeds_differ_little():
    confidence, correct = sample(1000, 0.05, np.random.default_rng(6))
    first = calibration_error_interval(confidence, correct, seed=1)
    assert first == calibration_error_interval(confidence, correct, seed=1)
    other = calibration_error_interval(confidence, correct, seed=2)
    assert other.low == pytest.approx(first.low, abs=0.005)
    assert other.high == pytest.approx(first.high, abs=0.005)


def test_the_bootstrap_is_that_of_a_loop_over_resamples():
    generator = np.random.default_rng(7)
    confidence, correct = sample(300, 0.05, generator)
    slow = []
    for _ in range(2000):
        drawn = generator.integers(0, 300, 300)
        placed = assign_bins(confidence[drawn], 15)
        residual = [np.sum((correct[drawn] - confidence[drawn])[placed == k]) for k in range(15)]
        slow.append(np.abs(residual).sum() / 300)
    fast = bootstrap_calibration_error(confidence, correct, repetitions=20_000)
    assert fast.mean() == pytest.approx(np.mean(slow), abs=4 * np.std(slow) / np.sqrt(2000))
    assert fast.std() == pytest.approx(np.std(slow), rel=0.08)
