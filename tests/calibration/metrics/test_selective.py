"""Thresholds: what was seen, and what can be promised."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from calmix.calibration.metrics.selective import coverage_at_accuracy, guaranteed_threshold

# Confidence in [0.5, 1] and the chance of being right at each; the last two hide errors at the very top.
MODELS = {
    "calibrated": lambda c: c,
    "overconfident": lambda c: np.clip(c - 0.05, 0, 1),
    "underconfident": lambda c: np.clip(c + 0.05, 0, 1),
    "just short everywhere": lambda c: np.full_like(c, 0.9 - 1e-4),
    "worst at the top": lambda c: np.where(c > 0.97, 0.86, np.clip(c + 0.03, 0, 1)),
    "sure errors": lambda c: np.where(c > 0.99, 0.8, np.clip(c, 0, 0.95)),
}


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("rows", [200, 800])
@pytest.mark.parametrize("ties", [False, True])
def test_the_promise_is_broken_in_at_most_five_percent_of_searches(model, rows, ties):
    accuracy, target, searches = MODELS[model], 0.9, 200
    generator = np.random.default_rng([rows, ties, list(MODELS).index(model)])

    def draw(size):
        confidence = 1.0 - 0.5 * generator.beta(1.0, 3.0, size)
        return np.round(confidence, 2) if ties else confidence

    population = np.sort(draw(100_000))[::-1]
    true_accuracy = np.cumsum(accuracy(population)) / np.arange(1, len(population) + 1)
    broken = 0
    for _ in range(searches):
        confidence = draw(rows)
        correct = generator.random(rows) < accuracy(confidence)
        found = guaranteed_threshold(confidence, correct, target)
        if found.threshold is not None:
            accepted = int(np.searchsorted(-population, -found.threshold, side="right"))
            broken += true_accuracy[accepted - 1] < target
    # At most 5 %: more than the 99.9th percentile of a true 5 % would show that it is not.
    assert broken <= binom.ppf(0.999, searches, 0.05)


def test_more_rows_certify_more_coverage_up_to_what_the_model_can_do():
    generator = np.random.default_rng(0)

    def coverage(rows):
        confidence = 1.0 - 0.5 * generator.beta(1.0, 3.0, rows)
        return guaranteed_threshold(confidence, generator.random(rows) < confidence, 0.9).coverage

    means = [np.mean([coverage(rows) for _ in range(10)]) for rows in (300, 3_000, 30_000)]
    # The surest 0.8852 of this model's rows have accuracy 0.9.
    assert means[0] < means[1] < means[2] < 0.8852
    assert means[2] > 0.84


def test_accepting_by_the_threshold_accepts_what_was_counted():
    generator = np.random.default_rng(1)
    confidence = np.round(1.0 - 0.5 * generator.beta(1.0, 3.0, 2000), 2)
    correct = generator.random(2000) < confidence
    found = guaranteed_threshold(confidence, correct, 0.9)
    accepted = confidence >= found.threshold
    assert accepted.sum() == found.accepted
    assert found.coverage == found.accepted / 2000
    assert found.accuracy == pytest.approx(correct[accepted].mean())
    assert 0.9 <= found.accuracy_lower_bound <= found.accuracy
    # Ties are accepted together: no row below the threshold has an accepted row's confidence.
    assert confidence[~accepted].max() < confidence[accepted].min()


def test_all_rows_are_accepted_where_all_may_be():
    found = guaranteed_threshold(np.linspace(0.6, 1.0, 500), np.ones(500), 0.9)
    assert (found.threshold, found.coverage) == (0.0, 1.0)


def test_the_fewest_rows_without_an_error_are_those_of_the_binomial():
    # 0.95^59 < 0.05 < 0.95^58
    assert guaranteed_threshold([0.9] * 58, [1] * 58, 0.95).threshold is None
    assert guaranteed_threshold([0.9] * 58, [1] * 58, 0.95).rows_needed == 59
    assert guaranteed_threshold([0.9] * 59, [1] * 59, 0.95).coverage == 1.0


def test_the_rows_said_to_be_needed_are_about_enough():
    generator = np.random.default_rng(5)

    def sample(rows):
        confidence = 1.0 - 0.5 * generator.beta(1.0, 3.0, rows)
        return confidence, generator.random(rows) < confidence

    short = guaranteed_threshold(*sample(120), 0.93)
    assert short.threshold is None
    assert short.rows_needed is not None
    assert str(short.rows_needed) in short.explain()
    enough = [guaranteed_threshold(*sample(4 * short.rows_needed), 0.93).threshold for _ in range(20)]
    assert sum(threshold is not None for threshold in enough) >= 15


def test_a_model_that_never_reaches_the_target_is_told_so():
    found = guaranteed_threshold(np.linspace(0.6, 1, 400), np.tile([1, 0], 200)[::-1], 0.95)
    assert found.threshold is None
    assert found.rows_needed is None
    assert "more rows would not help" in found.explain()


def test_an_accuracy_of_exactly_the_target_is_never_certified_and_says_so():
    # (1 - 0.95) * 100 is a little more than 5 in floating point.
    found = guaranteed_threshold([0.9] * 100, [1] * 95 + [0] * 5, 0.95)
    assert (found.threshold, found.rows_needed) == (None, None)
    assert "does not exceed it" in found.explain()


def test_a_target_missed_by_a_hair_needs_more_rows_than_anybody_has():
    found = guaranteed_threshold([0.9] * 100, [1] * 95 + [0] * 5, 0.95 - 1e-7)
    assert (found.threshold, found.rows_needed) == (None, None)
    assert guaranteed_threshold([0.9] * 100, [1] * 95 + [0] * 5, 0.949).rows_needed > 10_000


@given(
    st.integers(1, 400),
    st.floats(0.0, 0.3),
    st.integers(1, 30),
    st.sampled_from([0.8, 0.9, 0.95, 0.97, 0.98, 0.99]),
    st.integers(0, 2**32 - 1),
)
def test_every_sample_has_an_answer(rows, error_rate, values, target, seed):
    generator = np.random.default_rng(seed)
    confidence = generator.integers(0, values, rows) / values
    correct = generator.random(rows) >= error_rate
    found = guaranteed_threshold(confidence, correct, target)
    assert (found.threshold is None) == (found.coverage == 0.0)
    if found.rows_needed is not None:
        assert found.rows_needed > 0
        # Only a part that is better than the target can pass with more rows of its kind.
        assert coverage_at_accuracy(confidence, correct, target) > 0.0


@given(st.lists(st.tuples(st.integers(0, 6), st.booleans()), min_size=1, max_size=40), st.floats(0.05, 0.95))
def test_coverage_at_accuracy_is_the_widest_of_all_thresholds(rows, target):
    confidence = np.array([value for value, _ in rows]) / 6
    correct = np.array([right for _, right in rows])
    best = 0.0
    for threshold in np.unique(confidence):
        accepted = confidence >= threshold
        if correct[accepted].mean() >= target - 1e-12:
            best = max(best, accepted.mean())
    assert coverage_at_accuracy(confidence, correct, target) == pytest.approx(best)


@pytest.mark.parametrize("value", [0.0, 1.0, -0.1, 1.5, np.nan])
def test_targets_outside_zero_and_one_are_refused(value):
    with pytest.raises(ValueError, match="strictly between 0 and 1"):
        guaranteed_threshold([0.5], [1], value)
    with pytest.raises(ValueError, match="strictly between 0 and 1"):
        guaranteed_threshold([0.5], [1], 0.9, delta=value)
    with pytest.raises(ValueError, match="strictly between 0 and 1"):
        coverage_at_accuracy([0.5], [1], value)
