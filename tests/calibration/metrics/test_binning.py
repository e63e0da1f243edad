"""Where a confidence falls, in both conventions, and what a bin holds."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest

from calmix.calibration.metrics.binning import (
    assign_bins,
    assign_equal_mass,
    clopper_pearson,
    equal_mass_sums,
    equal_width_sums,
    reliability_bins,
)

edges_and_bins = pytest.mark.parametrize("bins", [1, 2, 10, 15, 100])


@edges_and_bins
def test_an_exact_edge_closes_the_bin_that_the_convention_says(bins):
    confidence = np.arange(bins + 1) / bins
    right = assign_bins(confidence, bins, "right")
    left = assign_bins(confidence, bins, "left")
    assert right.tolist() == [max(k - 1, 0) for k in range(bins + 1)]
    assert left.tolist() == [min(k, bins - 1) for k in range(bins + 1)]


@edges_and_bins
def test_the_neighbours_of_an_edge_are_on_their_own_side(bins):
    inner = np.arange(1, bins) / bins
    for closed in ("right", "left"):
        below, above = np.nextafter(inner, 0), np.nextafter(inner, 1)
        assert assign_bins(below, bins, closed).tolist() == list(range(bins - 1))
        assert assign_bins(above, bins, closed).tolist() == list(range(1, bins))


@pytest.mark.parametrize("k", [29, 57, 58])
def test_edges_that_floor_misplaces_are_right(k):
    assert int(k / 100 * 100) == k - 1  # the trap
    assert assign_bins(np.array([k / 100]), 100, "left").tolist() == [k]


@pytest.mark.parametrize("k", [7, 14, 28, 55, 56])
def test_edges_that_ceil_misplaces_are_right(k):
    assert int(np.ceil(k / 100 * 100)) == k + 1  # the trap
    assert assign_bins(np.array([k / 100]), 100, "right").tolist() == [k - 1]


@pytest.mark.parametrize("k", range(101))
def test_a_float32_confidence_is_compared_as_what_it_is(k):
    # float32(0.29) is a little less or more than 29/100, and belongs where that number lies.
    exact = Fraction(float(np.float32(k / 100)))
    sums = equal_width_sums(np.array([k / 100], dtype=np.float32), [1], bins=100, closed="left")
    borders = [Fraction(float(edge)) for edge in np.arange(101) / 100]
    expected = max(m for m in range(100) if borders[m] <= exact)
    assert int(np.flatnonzero(sums.rows)[0]) == expected


@given(
    st.lists(st.floats(0, 1), min_size=1, max_size=50),
    st.integers(1, 200),
    st.sampled_from(["right", "left"]),
)
def test_bins_are_those_of_a_binary_search(confidence, bins, closed):
    borders = np.arange(bins + 1) / bins
    side = "left" if closed == "right" else "right"
    expected = np.clip(np.searchsorted(borders, confidence, side=side) - 1, 0, bins - 1)
    assert assign_bins(np.array(confidence), bins, closed).tolist() == expected.tolist()


def test_the_sums_of_a_bin_are_those_of_its_rows():
    generator = np.random.default_rng(0)
    confidence, weights = generator.random(500), generator.random(500)
    correct = generator.random(500) < confidence
    sums = equal_width_sums(confidence, correct, bins=10, weights=weights)
    for m in range(10):
        rows = [i for i in range(500) if m / 10 < confidence[i] <= (m + 1) / 10]
        residual = correct[rows] - confidence[rows]
        assert sums.rows[m] == len(rows)
        assert sums.weight[m] == pytest.approx(sum(weights[rows]), abs=1e-12)
        assert sums.confidence[m] == pytest.approx(sum(weights[rows] * confidence[rows]), abs=1e-12)
        assert sums.correct[m] == pytest.approx(sum(weights[rows] * correct[rows]), abs=1e-12)
        assert sums.square[m] == pytest.approx(sum((weights[rows] * residual) ** 2), abs=1e-12)


def test_bins_of_equal_mass_hold_equal_shares():
    confidence = np.random.default_rng(1).permutation(np.linspace(0.01, 0.99, 150))
    sums = equal_mass_sums(confidence, np.ones(150), bins=15)
    assert sums.rows.tolist() == [10.0] * 15


@given(st.lists(st.integers(0, 5), min_size=1, max_size=40), st.integers(1, 20), st.randoms())
def test_equal_confidences_share_a_bin_of_equal_mass_in_any_order(tenths, bins, random):
    confidence = np.array(tenths) / 5
    order = list(range(len(tenths)))
    random.shuffle(order)
    assigned = assign_equal_mass(confidence, bins)
    assert assign_equal_mass(confidence[order], bins).tolist() == assigned[order].tolist()
    for value in set(tenths):
        assert len(set(assigned[np.array(tenths) == value])) == 1
    ranked = assigned[np.argsort(confidence, kind="stable")]
    assert (np.diff(ranked) >= 0).all()


def test_weights_are_repeated_rows_in_bins_of_equal_mass():
    generator = np.random.default_rng(2)
    confidence, times = generator.random(200), generator.integers(1, 5, 200)
    correct = generator.random(200) < 0.5
    weighted = equal_mass_sums(confidence, correct, bins=7, weights=times)
    repeated = equal_mass_sums(np.repeat(confidence, times), np.repeat(correct, times), bins=7)
    np.testing.assert_allclose(weighted.weight, repeated.weight)
    np.testing.assert_allclose(weighted.residual, repeated.residual, atol=1e-12)


def test_a_reliability_diagram_has_the_exact_binomial_interval():
    diagram = reliability_bins([0.95] * 20 + [0.15] * 5, [1] * 18 + [0] * 2 + [0] * 5, bins=10)
    assert diagram.count.tolist() == [0, 5, 0, 0, 0, 0, 0, 0, 0, 20]
    assert np.isnan(diagram.accuracy[0])
    assert np.isnan(diagram.accuracy_low[0])
    for place, hits, n in ((1, 0, 5), (9, 18, 20)):
        interval = binomtest(hits, n).proportion_ci(method="exact")
        assert diagram.accuracy_low[place] == pytest.approx(interval.low, abs=1e-9)
        assert diagram.accuracy_high[place] == pytest.approx(interval.high, abs=1e-9)


@given(st.integers(1, 60), st.integers(0, 60))
def test_clopper_pearson_is_scipys(trials, hits):
    hits = min(hits, trials)
    low, high = clopper_pearson(hits, trials)
    expected = binomtest(hits, trials).proportion_ci(method="exact")
    assert (float(low), float(high)) == pytest.approx((expected.low, expected.high), abs=1e-9)


@pytest.mark.parametrize("bins", [0, -1, 1.5, True, "10"])
def test_bins_that_are_no_number_of_bins_are_refused(bins):
    with pytest.raises(ValueError, match="bins must be"):
        reliability_bins([0.5], [1], bins=bins)


def test_unknown_edges_are_refused():
    with pytest.raises(ValueError, match="closed must be"):
        reliability_bins([0.5], [1], closed="both")


@pytest.mark.parametrize("level", [2.0, 1.0, 0.0, -0.5, float("nan")])
def test_a_level_that_is_no_probability_is_refused_everywhere(level):
    from calmix.calibration.differences import calibration_error_difference
    from calmix.calibration.uncertainty.intervals import calibration_error_interval
    from calmix.calibration.uncertainty.measured_value import SmoothStatistic
    from calmix.calibration.uncertainty.ood_intervals import detection_metrics

    rows = ([0.9, 0.6, 0.7], [1, 0, 1])
    mean = SmoothStatistic(0.5, np.array([0.0, 1.0]), np.ones(2))
    for asked in (
        lambda: clopper_pearson(3, 10, level),
        lambda: calibration_error_interval(*rows, level=level),
        lambda: calibration_error_difference(rows, rows, level=level),
        lambda: mean.limits(0, level),
        lambda: mean.difference_limits(mean, 0, level),
        lambda: detection_metrics(np.arange(5.0), np.arange(5.0), level=level),
    ):
        with pytest.raises(ValueError, match="level must lie strictly between 0 and 1"):
            asked()
