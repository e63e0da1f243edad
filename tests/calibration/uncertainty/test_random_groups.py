"""Random groups of rows: sums by group and noise that is shared."""

from __future__ import annotations

import numpy as np
import pytest

from calmix.calibration.uncertainty import random_groups as row_groups
from calmix.calibration.uncertainty.random_groups import add_rows, joint_noise


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("rows", "columns"), [(1, 2), (700, 3), (700, 50)])
def test_rows_are_added_by_group_in_their_order_on_either_path(monkeypatch, rows, columns, dtype):
    generator = np.random.default_rng(rows)
    values = generator.random((rows, columns)).astype(dtype)
    dealt = generator.integers(0, 20, rows)
    slow = np.zeros((20, columns))
    for group, row in zip(dealt, values, strict=True):
        slow[group] += row
    assert np.array_equal(add_rows(dealt, values, 20), slow)
    monkeypatch.setattr(row_groups, "FEW_VALUES", 0)
    monkeypatch.setattr(row_groups, "FEW_COLUMNS", 0)
    assert np.array_equal(add_rows(dealt, values, 20), slow)


def test_noise_has_the_size_and_the_correlations_that_are_asked_for():
    generator = np.random.default_rng(0)
    rows = np.full(200, 5.0)
    first = generator.normal(size=200)
    grouped = np.stack([first, first, -first, generator.normal(size=200), np.zeros(200)], axis=1)
    scale = np.array([0.1, 0.2, 0.1, 0.3, 0.05])
    noise = joint_noise(grouped, rows, scale, seed=3)
    assert noise.std(axis=0) == pytest.approx(scale, rel=0.1)
    correlation = np.corrcoef(noise.T)
    assert correlation[0, 1] == pytest.approx(1.0)
    assert correlation[0, 2] == pytest.approx(-1.0)
    # A cell that did not vary among the groups varies on its own.
    assert np.abs(correlation[4, :4]).max() < 0.2
    assert np.array_equal(noise, joint_noise(grouped, rows, scale, seed=3))
    assert not np.array_equal(noise, joint_noise(grouped, rows, scale, seed=4))
