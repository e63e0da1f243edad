"""SmoothECE (Blasiok & Nakkiran 2024): calibration error without bins, at a bandwidth chosen by the data.

The residuals r = confidence - correct are smoothed over the confidence with a Gaussian kernel of width s,
reflected at 0 and 1, and the absolute value is integrated. The reported value is at the width s* where
the error equals the width itself, found by ten halvings. Discretised as in the authors' package
`relplot`, which this agrees with; the convolution runs through the fast Fourier transform.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from calmix.calibration.input_checks import Floats, check_confidence, check_correct, check_weights

# Beyond this many rows they are first gathered on a grid of as many points; the value moves by less than
# 1e-6.
FINE_GRID = 1 << 17
SMALLEST_WIDTH = 1e-3
HALVINGS = 10
# The authors' constant, which keeps the density off 0.
DENSITY_FLOOR = 1e-4


@dataclass(frozen=True)
class SmoothError:
    """The error and the bandwidth at which it was taken."""

    error: float
    bandwidth: float


def smooth_calibration_error(
    confidence: npt.ArrayLike, correct: npt.ArrayLike, *, weights: npt.ArrayLike | None = None
) -> float:
    """SmoothECE.

    All rows at 0.5, three of four right: the gap is 0.25 wherever the kernel carries it.

    >>> round(smooth_calibration_error([0.5] * 400, [1, 1, 1, 0] * 100), 3)
    0.25
    """
    return smooth_error(confidence, correct, weights=weights).error


def smooth_error(
    confidence: npt.ArrayLike,
    correct: npt.ArrayLike,
    *,
    bandwidth: float | None = None,
    weights: npt.ArrayLike | None = None,
) -> SmoothError:
    """SmoothECE with its bandwidth, or at a bandwidth of one's own."""
    sure = check_confidence(confidence)
    right = check_correct(correct, rows=len(sure))
    weight = check_weights(weights, rows=len(sure))
    points, residual, mass = _gathered(sure, sure - right, weight)
    return smooth_error_of_points(points, residual, mass, bandwidth=bandwidth)


def smooth_error_of_points(
    points: Floats, residual: Floats, mass: Floats, *, bandwidth: float | None = None
) -> SmoothError:
    """SmoothECE of residual sums and weights gathered at points of [0, 1]."""
    if bandwidth is None:
        high, low = 1.0, 0.0
        for _ in range(HALVINGS):
            middle = (high + low) / 2.0
            if middle < SMALLEST_WIDTH or middle < _error_at(points, residual, mass, middle):
                low = middle
            else:
                high = middle
        bandwidth = high
    return SmoothError(_error_at(points, residual, mass, bandwidth), bandwidth)


def spread_on_grid(points: Floats, values: Floats, size: int) -> Floats:
    """Share each value between the two neighbours of its point on a grid of `size` points over [0, 1];
    several rows of values at once: [rows, points]."""
    position = points * (size - 1)
    left = np.minimum(position.astype(np.int64), size - 2)
    right_share = position - left
    left_share = 1.0 - right_share
    grid = np.zeros((len(values), size))
    for spread, row in zip(grid, values, strict=True):
        spread += np.bincount(left, weights=left_share * row, minlength=size)
        spread[1:] += np.bincount(left, weights=right_share * row, minlength=size)[:-1]
    return grid


def smoothed_field(points: Floats, values: Floats, bandwidth: float) -> Floats:
    """The values smoothed with the reflected kernel, at the mesh on which the error is integrated.

    `values` may have leading axes: [..., points].
    """
    size = grid_size(bandwidth)
    flat = values.reshape(-1, values.shape[-1])
    smoothed = smooth_grid(spread_on_grid(points, flat, size), bandwidth)
    mesh = np.linspace(0.0, 1.0, mesh_size(bandwidth)) * (size - 1)
    left = np.minimum(mesh.astype(np.int64), size - 2)
    share = mesh - left
    field = smoothed[:, left] * (1.0 - share) + smoothed[:, left + 1] * share
    return field.reshape(*values.shape[:-1], len(mesh))


def smooth_grid(grid: Floats, bandwidth: float) -> Floats:
    """Convolve rows of a grid with the Gaussian kernel of support 1, the grid reflected at both ends."""
    # Not scipy.signal.fftconvolve, which does this very thing: importing it takes longer than all metrics.
    from scipy.fft import irfft, next_fast_len, rfft

    size = grid.shape[-1]
    offset = np.linspace(0.0, 1.0, size) - 0.5
    kernel = np.exp(-(offset**2) / (2.0 * bandwidth**2)) / (np.sqrt(2.0 * np.pi) * bandwidth)
    mirrored = grid[..., ::-1]
    extended = np.concatenate([mirrored[..., :-1], grid, mirrored[..., 1:]], axis=-1)
    length = next_fast_len(extended.shape[-1] + size - 1, True)
    full = irfft(rfft(extended, length) * rfft(kernel, length), length)
    # The kernel lies wholly on the extended grid from size - 1 on.
    first = size - 1 + size // 2
    return np.asarray(full[..., first : first + size])


def grid_size(bandwidth: float) -> int:
    return int(max(2000, round(20 / bandwidth)) // 2 + 1)


def mesh_size(bandwidth: float) -> int:
    return max(round(10 / bandwidth), 200)


def _error_at(points: Floats, residual: Floats, mass: Floats, bandwidth: float) -> float:
    field = smoothed_field(points, np.stack([residual, mass]), bandwidth)
    return float(np.abs(field[0]).sum() / (field[1] + DENSITY_FLOOR).sum())


def _gathered(confidence: Floats, residual: Floats, weights: Floats | None) -> tuple[Floats, Floats, Floats]:
    """Points with residual sums and weights; many rows become the fine grid."""
    if weights is not None and not weights.all():  # rows of weight 0 must not count as mass
        held = weights > 0
        confidence, residual, weights = confidence[held], residual[held], weights[held]
    weight = np.ones(len(confidence)) if weights is None else weights * (len(weights) / weights.sum())
    if len(confidence) <= FINE_GRID:
        return confidence, residual * weight, weight
    on_grid = spread_on_grid(confidence, np.stack([residual * weight, weight]), FINE_GRID)
    return np.linspace(0.0, 1.0, FINE_GRID), on_grid[0], on_grid[1]
