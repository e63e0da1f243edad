"""The metrics are those of `ood`, and their intervals hold the truth as often as they say."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm
from sklearn.metrics import average_precision_score, roc_auc_score

from calmix.calibration.metrics import ood
from calmix.calibration.uncertainty.ood_intervals import METRICS, auroc_variance, detection_metrics

SCORES = st.lists(st.integers(-4, 4).map(float), min_size=1, max_size=30)


@given(SCORES, SCORES)
def test_metrics_are_those_of_their_functions_ties_and_all(inside, outside):
    found = detection_metrics(inside, outside, repetitions=2)
    assert found["auroc"] == pytest.approx(ood.ood_auroc(inside, outside))
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


def test_limits_are_those_of_a_slow_bootstrap_where_rows_abound():
    generator = np.random.default_rng(1)
    inside, outside = generator.normal(1, 1, 120), generator.normal(0, 1, 90)
    found = detection_metrics(inside, outside, repetitions=1500)
    slow = []
    for _ in range(1500):
        first = inside[generator.integers(0, 120, 120)]
        second = outside[generator.integers(0, 90, 90)]
        slow.append(
            [
                ood.ood_auroc(first, second),
                ood.average_precision_in(first, second),
                ood.average_precision_out(first, second),
                ood.false_positive_rate(first, second),
            ]
        )
    expected = np.percentile(slow, [2.5, 97.5], axis=0).T
    for place, metric in enumerate(METRICS):
        assert np.allclose(found[f"{metric}_ci"], expected[place], atol=0.06 if metric == "fpr95" else 0.035)


def test_the_variance_of_the_auroc_is_that_of_its_definition():
    generator = np.random.default_rng(3)
    inside, outside = generator.normal(1, 1, 40).round(1), generator.normal(0, 1, 30).round(1)
    pairs = (inside[:, None] > outside) + 0.5 * (inside[:, None] == outside)
    expected = pairs.mean(axis=1).var(ddof=1) / 40 + pairs.mean(axis=0).var(ddof=1) / 30
    in_group, out_group, groups = ood.group_scores(inside, outside)
    counts = (np.bincount(group, minlength=groups) for group in (in_group, out_group))
    assert auroc_variance(*counts) == pytest.approx(expected)


@pytest.mark.parametrize(("in_rows", "out_rows"), [(100, 100), (1000, 100), (1, 1)])
def test_sets_that_a_score_separates_are_not_proven_to_be_separable(in_rows, out_rows):
    found = detection_metrics(np.ones(in_rows), np.zeros(out_rows), repetitions=10)
    assert found["auroc"] == 1.0
    low, high = found["auroc_ci"]
    # One of the smaller set in 27 may be out of place, and is then on the wrong side of half of the others.
    assert low == pytest.approx(max(1.0 - 3.689 / np.sqrt(3) / min(in_rows, out_rows), 0.0), abs=1e-3)
    assert high == 1.0
    assert found["fpr95_ci"][0] == 0.0
    assert found["fpr95_ci"][1] == pytest.approx(1.0 if in_rows == 1 else 1.0 - 0.025 ** (1 / out_rows))
    turned = detection_metrics(np.zeros(in_rows), np.ones(out_rows), repetitions=10)
    assert turned["auroc_ci"] == pytest.approx([0.0, 1.0 - low])


@pytest.mark.parametrize(("in_rows", "out_rows"), [(1, 40), (40, 1), (1, 1)])
def test_a_set_of_one_row_excludes_no_auroc(in_rows, out_rows):
    """A tie, and a row that happens to be above, or below, most of the others."""
    for place in (0.0, 1.5):
        inside, outside = (
            np.full(1, place) if rows == 1 else np.linspace(-2, 2, rows) for rows in (in_rows, out_rows)
        )
        found = detection_metrics(inside, outside, repetitions=20)
        for metric in ("auroc", "aupr_in", "aupr_out"):
            assert found[f"{metric}_ci"] == [0.0, 1.0]
        if in_rows == 1:
            assert found["fpr95_ci"] == [0.0, 1.0], "its threshold is that of one row"


def test_a_set_against_itself_has_an_auroc_of_a_half():
    scores = np.random.default_rng(5).normal(size=60).round(1)
    found = detection_metrics(scores, np.random.default_rng(6).permutation(scores), repetitions=20)
    assert found["auroc"] == pytest.approx(0.5, abs=1e-12)
    assert found["auroc_ci"][0] < 0.5 < found["auroc_ci"][1]


def test_the_interval_of_an_auroc_near_one_holds_the_truth():
    truth = norm.cdf(4.07 / np.sqrt(2))  # 0.998
    generator = np.random.default_rng(4)
    held = 0
    for _ in range(100):
        found = detection_metrics(generator.normal(4.07, 1, 100), generator.normal(0, 1, 100), repetitions=2)
        low, high = found["auroc_ci"]
        held += low <= truth <= high
    assert held >= 90


@pytest.mark.simulates
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
