"""Out-of-distribution scores and areas, against scikit-learn and loops over all pairs."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import logsumexp, softmax
from scipy.stats import entropy
from sklearn.metrics import average_precision_score, roc_auc_score

from calmix.calibration.metrics.ood import (
    SCORES,
    average_precision_in,
    average_precision_out,
    energy_score,
    entropy_score,
    false_positive_rate,
    maximum_logit_score,
    maximum_probability_score,
    ood_auroc,
    out_of_distribution_table,
)

few_values = st.lists(st.integers(-4, 4), min_size=1, max_size=30)


def logits(rows: int, classes: int, scale: float, seed: int) -> np.ndarray:
    return scale * np.random.default_rng(seed).standard_normal((rows, classes))


@given(few_values, few_values)
def test_the_areas_are_those_of_scikit_learn_with_many_ties(inside, outside):
    positive = np.repeat([1, 0], [len(inside), len(outside)])
    scores = np.array(inside + outside, dtype=float)
    assert ood_auroc(inside, outside) == pytest.approx(roc_auc_score(positive, scores), abs=1e-12)
    assert average_precision_in(inside, outside) == pytest.approx(
        average_precision_score(positive, scores), abs=1e-12
    )
    assert average_precision_out(inside, outside) == pytest.approx(
        average_precision_score(1 - positive, -scores), abs=1e-12
    )


@given(few_values, few_values)
def test_the_rank_sum_is_the_share_of_pairs_in_order(inside, outside):
    credit = [1.0 if a > b else 0.5 if a == b else 0.0 for a in inside for b in outside]
    assert ood_auroc(inside, outside) == pytest.approx(sum(credit) / len(credit), abs=1e-12)


@given(few_values, few_values, st.sampled_from([0.5, 0.75, 0.8, 0.9, 0.95]))
def test_the_false_positive_rate_is_that_of_the_highest_threshold_that_keeps_enough(inside, outside, share):
    for threshold in sorted(inside, reverse=True):
        if sum(score >= threshold for score in inside) >= share * len(inside) - 1e-9:
            break
    expected = sum(score >= threshold for score in outside) / len(outside)
    assert false_positive_rate(inside, outside, share) == pytest.approx(expected, abs=1e-12)


def test_nineteen_of_twenty_rows_are_95_per_cent():
    # 0.95 * 20 rounds to more than 19 in some orders of evaluation; a row must not be lost by it.
    assert false_positive_rate(range(20), [0.5]) == 0.0
    assert false_positive_rate(range(20), [1.0]) == 1.0


def test_the_scores_are_their_formulas():
    values = logits(200, 5, 3.0, seed=1)
    probabilities = softmax(values, axis=1)
    largest = probabilities.max(axis=1)
    np.testing.assert_allclose(
        maximum_probability_score(values), np.log(largest) - np.log1p(-largest), rtol=1e-9, atol=1e-9
    )
    np.testing.assert_allclose(maximum_logit_score(values), values.max(axis=1))
    np.testing.assert_allclose(energy_score(values), logsumexp(values, axis=1), rtol=1e-12)
    np.testing.assert_allclose(entropy_score(values), -entropy(probabilities, axis=1), rtol=1e-9)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("name", list(SCORES))
def test_sure_rows_do_not_tie(name, dtype):
    # softmax gives exactly 1.0 for both, in float32 and in float64.
    sure = np.array([[60.0, 0.0, 0.0], [80.0, 0.0, 0.0]], dtype=dtype)
    less, more = SCORES[name](sure)
    assert less < more
    assert ood_auroc([more], [less]) == 1.0


def test_the_odds_of_the_largest_probability_never_underflow():
    assert maximum_probability_score([[800.0, 0.0], [900.0, 0.0]]).tolist() == [800.0, 900.0]


def test_strictly_increasing_maps_of_the_scores_change_nothing():
    generator = np.random.default_rng(2)
    inside, outside = generator.normal(1, 1, 300).round(1), generator.normal(0, 1, 200).round(1)
    for metric in (ood_auroc, average_precision_in, average_precision_out, false_positive_rate):
        assert metric(np.exp(inside), np.exp(outside)) == metric(inside, outside)
        assert metric(inside**3 - 7, outside**3 - 7) == metric(inside, outside)


@pytest.mark.parametrize("temperature", [0.05, 3.0, 40.0])
def test_with_two_classes_the_temperature_changes_no_probability_score(temperature):
    inside, outside = logits(300, 2, 6.0, seed=3), logits(200, 2, 3.0, seed=4)
    plain = out_of_distribution_table(inside, outside)
    scaled = out_of_distribution_table(inside / temperature, outside / temperature)
    assert scaled["msp"] == plain["msp"]
    assert scaled["max_logit"] == plain["max_logit"]


def test_a_shift_of_the_logits_leaves_the_probability_scores():
    values = logits(50, 4, 2.0, seed=5)
    for score in (maximum_probability_score, entropy_score):
        np.testing.assert_allclose(score(values + 1000.0), score(values), rtol=1e-9)
    np.testing.assert_allclose(energy_score(values + 1000.0), energy_score(values) + 1000.0)


def test_the_table_holds_every_score_and_measure():
    inside, outside = logits(400, 10, 3.0, seed=6), logits(300, 10, 1.0, seed=7)
    table = out_of_distribution_table(inside, outside)
    assert set(table) == {"msp", "max_logit", "energy", "entropy"}
    for name, row in table.items():
        scores = np.concatenate([SCORES[name](inside), SCORES[name](outside)])
        positive = np.repeat([1, 0], [400, 300])
        assert row["auroc"] == pytest.approx(roc_auc_score(positive, scores), abs=1e-12)
        assert row["auroc"] > 0.8
        assert set(row) == {"auroc", "aupr_in", "aupr_out", "fpr95"}


@pytest.mark.parametrize(
    ("inside", "outside", "message"),
    [
        ([], [1.0], "non-empty"),
        ([1.0], [], "non-empty"),
        ([np.nan], [1.0], "finite"),
        ([1.0], [np.inf], "finite"),
        ([[1.0]], [1.0], "shape"),
        (["a"], [1.0], "numbers"),
    ],
)
def test_scores_that_make_no_sense_are_refused(inside, outside, message):
    for metric in (ood_auroc, average_precision_in, average_precision_out, false_positive_rate):
        with pytest.raises(ValueError, match=message):
            metric(inside, outside)


def test_logits_of_two_models_are_refused():
    with pytest.raises(ValueError, match="3 classes, the others 4"):
        out_of_distribution_table(np.zeros((2, 3)), np.zeros((2, 4)))
    with pytest.raises(ValueError, match="finite"):
        out_of_distribution_table([[np.nan, 0.0]], [[0.0, 0.0]])
