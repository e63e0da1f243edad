"""Coverage at a target accuracy, against a loop over thresholds."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calmix.calibration.metrics.selective import coverage_at_accuracy

rows = st.lists(st.tuples(st.integers(0, 9), st.booleans()), min_size=1, max_size=40)
targets = st.sampled_from([0.5, 0.6, 0.75, 0.9, 0.95])


@given(rows, targets)
def test_it_is_the_largest_share_above_any_threshold_that_reaches_the_target(sample, target):
    confidence, correct = (np.array(column, dtype=float) for column in zip(*sample, strict=True))
    best = 0.0
    for threshold in set(confidence):
        accepted = confidence >= threshold
        if correct[accepted].mean() >= target - 1e-12:
            best = max(best, accepted.mean())
    assert coverage_at_accuracy(confidence, correct, target) == pytest.approx(best, abs=1e-12)


@given(rows, targets, targets)
def test_a_higher_target_never_covers_more(sample, first, second):
    covered = [coverage_at_accuracy(*zip(*sample, strict=True), max(first, second))]
    covered.append(coverage_at_accuracy(*zip(*sample, strict=True), min(first, second)))
    assert covered[0] <= covered[1]


def test_an_accuracy_of_exactly_the_target_is_enough():
    # 1 - 0.9 is a little less than 0.1 in floating point; nine of ten are still 0.9.
    assert coverage_at_accuracy(np.linspace(1, 0.5, 10), [1] * 9 + [0], 0.9) == 1.0


def test_tied_rows_are_accepted_together():
    assert coverage_at_accuracy([0.9, 0.9], [1, 0], 0.75) == 0.0


@pytest.mark.parametrize("target", [0.0, 1.0, -0.5, np.nan])
def test_a_target_outside_the_open_interval_is_refused(target):
    with pytest.raises(ValueError, match="target_accuracy"):
        coverage_at_accuracy([0.9], [1], target)
