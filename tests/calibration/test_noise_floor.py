"""The noise floor is what a perfectly calibrated model shows."""

from __future__ import annotations

import numpy as np
import pytest

from calmix.calibration.binning import assign_bins, equal_width_sums
from calmix.calibration.errors import expected_calibration_error
from calmix.calibration.noise_floor import noise_floor, noise_floor_of_sums


@pytest.mark.parametrize("edges", ["right", "left"])
@pytest.mark.parametrize("rows", [7, 400])
def test_it_is_the_mean_and_percentile_of_redrawn_errors(rows, edges):
    generator = np.random.default_rng(rows)
    confidence = generator.choice([0.2, 1 / 3, 0.6, 0.8, 0.93, 1.0], rows)
    slow = [
        expected_calibration_error(confidence, generator.random(rows) < confidence, edges=edges)
        for _ in range(3000)
    ]
    found = noise_floor(confidence, edges=edges, repetitions=20_000)
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
