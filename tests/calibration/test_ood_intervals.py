"""The metrics are those of `ood`, and their intervals hold the truth as often as they say."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm
from sklearn.metrics import average_precision_score, roc_auc_score

from calmix.calibration import ood
from calmix.calibration.ood_intervals import METRICS, detection_metrics

SCORES = st.lists(st.integers(-4, 4).map(float), min_size=1, max_size=30)


@given(SCORES, SCORES)
def test_metrics_are_those_of_their_functions_ties_and_all(inside, outside):
    found = detection_metrics(inside, outside, repetitions=2)
    assert found["auroc"] == pytest.approx(ood.area_under_roc(inside, outside))
    assert found["aupr_in"] == pytest.approx(ood.average_precision_in(inside, outside))
    assert found["aupr_out"] == pytest.approx(ood.average_precision_out(inside, outside))
    assert found["fpr95"] == pytest.approx(ood.false_positive_rate(inside, outside))


def test_metrics_are_those_of_scikit_learn():
    generator = np.random.default_rng(0)
    inside, outside = generator.normal(1, 1, 300).round(1), generator.normal(0, 1, 200).round(1)
    found = detection_metrics(inside, outside, repetitions=2)
    labels = np.r_[np.ones(300), np.zeros(200)]
    assert found["auroc"] == pytest.approx(roc_auc_score(labels, np.r_[inside, outside]))
    assert found["aupr_in"] == pytest.approx(average_precision_score(labels, np.r_[inside, outside]))
    assert found["aupr_out"] == pytest.approx(average_precision_score(1 - labels, -np.r_[inside, outside]))


def test_limits_are_percentiles_over_draws_of_both_sets():
    """Against a slow bootstrap with the functions themselves: the same distribution, other draws."""
    generator = np.random.default_rng(1)
    inside, outside = generator.normal(1, 1, 120), generator.normal(0, 1, 90)
    found = detection_metrics(inside, outside, repetitions=1500)
    slow = []
    for _ in range(1500):
        first = inside[generator.integers(0, 120, 120)]
        second = outside[generator.integers(0, 90, 90)]
        slow.append((ood.area_under_roc(first, second), ood.false_positive_rate(first, second)))
    expected = np.percentile(slow, [2.5, 97.5], axis=0).T
    assert np.allclose(found["auroc_ci"], expected[0], atol=0.012)
    assert np.allclose(found["fpr95_ci"], expected[1], atol=0.06)


def test_the_interval_of_the_auroc_holds_the_truth():
    truth = norm.cdf(1 / np.sqrt(2))  # two normal distributions, one standard deviation apart
    generator = np.random.default_rng(2)
    held = 0
    for _ in range(150):
        found = detection_metrics(generator.normal(1, 1, 100), generator.normal(0, 1, 100), repetitions=200)
        low, high = found["auroc_ci"]
        held += low <= truth <= high
    assert held >= 0.9 * 150


def test_the_same_seed_gives_the_same_limits():
    inside, outside = np.arange(20.0), np.arange(5.0, 25.0)
    first, again, other = (detection_metrics(inside, outside, seed=seed) for seed in (0, 0, 1))
    assert first == again
    assert any(first[f"{metric}_ci"] != other[f"{metric}_ci"] for metric in METRICS)
