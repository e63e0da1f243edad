"""SmoothECE against its authors' package and the kernel smoother of its definition."""

from __future__ import annotations

import numpy as np
import pytest

from calmix.calibration.metrics.smooth import grid_size, smooth_calibration_error, smooth_error, smooth_grid


def random_rows(n: int, seed: int, power: float = 1.6) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(seed)
    confidence = generator.beta(4, 1.5, n)
    return confidence, (generator.random(n) < confidence**power).astype(float)


@pytest.mark.processes  # the import of relplot starts one
@pytest.mark.parametrize("n", [1, 7, 300, 20_000])
def test_relplot_agrees(n):
    relplot = pytest.importorskip("relplot")
    confidence, correct = random_rows(n, seed=n)
    expected, width = relplot.smECE(confidence, correct, return_width=True)
    found = smooth_error(confidence, correct)
    assert found.error == pytest.approx(float(expected), abs=1e-9)
    assert found.bandwidth == pytest.approx(float(width), abs=1e-12)


@pytest.mark.processes
@pytest.mark.parametrize("bandwidth", [0.01, 0.05, 0.3])
def test_relplot_agrees_at_a_bandwidth_of_ones_own(bandwidth):
    relplot = pytest.importorskip("relplot")
    confidence, correct = random_rows(2000, seed=1)
    expected = relplot.smECE_sigma(confidence, correct, sigma=bandwidth)
    assert smooth_error(confidence, correct, bandwidth=bandwidth).error == pytest.approx(
        float(expected), abs=1e-9
    )


def test_the_value_is_the_integral_of_the_smoothed_residual():
    confidence, correct = random_rows(400, seed=2)
    found = smooth_error(confidence, correct)
    mesh = np.linspace(0, 1, 2001)
    # Reflected Gaussian kernels, one row at a time; |smoothed residual| over the smoothed mass.
    residual, mass = np.zeros_like(mesh), np.zeros_like(mesh)
    for c, y in zip(confidence, correct, strict=True):
        kernel = sum(np.exp(-((mesh - image) ** 2) / (2 * found.bandwidth**2)) for image in (c, -c, 2 - c))
        residual += (c - y) * kernel
        mass += kernel
    assert found.error == pytest.approx(np.abs(residual).sum() / mass.sum(), rel=5e-3)


def test_the_bandwidth_is_where_the_error_equals_it():
    found = smooth_error(*random_rows(5000, seed=3))
    assert found.error == pytest.approx(found.bandwidth, abs=2e-3)


@pytest.mark.processes
def test_many_rows_on_the_fine_grid_are_within_a_millionth():
    relplot = pytest.importorskip("relplot")
    confidence, correct = random_rows(200_000, seed=4)
    expected = float(relplot.smECE(confidence, correct))
    assert smooth_calibration_error(confidence, correct) == pytest.approx(expected, abs=1e-6)


def test_the_order_of_the_rows_changes_nothing():
    confidence, correct = random_rows(500, seed=5)
    order = np.random.default_rng(0).permutation(500)
    plain = smooth_calibration_error(confidence, correct)
    assert smooth_calibration_error(confidence[order], correct[order]) == pytest.approx(plain, abs=1e-12)


def test_true_confidences_have_less_error_than_wrong_ones():
    right = smooth_calibration_error(*random_rows(20_000, seed=6, power=1.0))
    wrong = smooth_calibration_error(*random_rows(20_000, seed=6, power=2.0))
    assert right < 0.01 < 0.1 < wrong


@pytest.mark.parametrize(
    ("confidence", "correct", "message"),
    [([], [], "empty"), ([np.nan], [1], "must lie in"), ([1.5], [1], "must lie in"), ([0.5], [3], "0 or 1")],
)
def test_what_makes_no_sense_is_refused(confidence, correct, message):
    with pytest.raises(ValueError, match=message):
        smooth_calibration_error(confidence, correct)


@pytest.mark.parametrize("bandwidth", [1.0, 0.1, 0.003])
def test_the_convolution_is_the_sum_over_the_reflected_grid(bandwidth):
    size = grid_size(bandwidth)
    grid = np.random.default_rng(0).normal(size=(2, size))
    found = smooth_grid(grid, bandwidth)
    offset = np.linspace(0.0, 1.0, size) - 0.5
    kernel = np.exp(-(offset**2) / (2 * bandwidth**2)) / (np.sqrt(2 * np.pi) * bandwidth)
    extended = np.concatenate([grid[:, ::-1][:, :-1], grid, grid[:, ::-1][:, 1:]], axis=1)
    for row in range(2):
        whole = np.convolve(extended[row], kernel, mode="valid")[size // 2 : size // 2 + size]
        assert found[row] == pytest.approx(whole, abs=1e-9 * np.abs(whole).max())
