"""Two models on the same rows."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom

from calmix.calibration.differences import (
    DifferentRows,
    calibration_error_difference,
    match_rows,
    paired_differences,
)
from calmix.calibration.evaluation import evaluate
from calmix.calibration.predictions import Predictions
from calmix.calibration.uncertainty.random_groups import deal_rows, joint_noise


def pair(rows, seed, sharpness=2.0, classes=3) -> tuple[Predictions, Predictions]:
    """A calibrated model, and the same one made too sharp with a little noise of its own."""
    generator = np.random.default_rng(seed)
    logits = 1.5 * generator.standard_normal((rows, classes))
    probabilities = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    labels = (probabilities.cumsum(axis=1) > generator.random((rows, 1))).argmax(axis=1)
    ids = [f"test-{row + 1}" for row in range(rows)]
    sharp = sharpness * (logits + 0.2 * generator.standard_normal(logits.shape))
    return (
        Predictions.from_logits(logits, labels, ids=ids),
        Predictions.from_logits(sharp, labels, ids=ids),
    )


def test_differences_are_those_of_the_values():
    first, second = pair(600, 0)
    found = paired_differences(first, second)
    one, other = evaluate(first), evaluate(second)
    assert {"ece", "nll", "brier", "aurc", "classwise_ece", "smooth_ece", "accuracy"} <= set(found)
    for name, entry in found.items():
        assert entry["difference"] == pytest.approx(one[name] - other[name], abs=1e-12)
        assert entry["ci"][0] <= entry["ci"][1]


def test_a_model_does_not_differ_from_itself():
    first, _ = pair(400, 1)
    for name, entry in paired_differences(first, first).items():
        assert entry["difference"] == 0.0
        low, high = entry["ci"]
        assert low <= 0.0 <= high, name
    for name in ("nll", "brier", "accuracy", "aurc"):
        assert paired_differences(first, first)[name]["ci"] == [0.0, 0.0]


@pytest.mark.parametrize("rows", [200, 3000])
@pytest.mark.parametrize("notion", ["top_label", "classwise"])
def test_a_model_does_not_differ_from_itself_in_any_metric(rows, notion):
    """However uncertain its calibration error is, the difference is 0."""
    generator = np.random.default_rng(rows)
    logits = 2.0 * generator.standard_normal((rows, 3))
    labels = (logits + generator.gumbel(size=logits.shape)).argmax(axis=1)
    model = Predictions.from_logits(logits, labels)
    for name, found in paired_differences(model, model, notion=notion).items():
        assert found["difference"] == 0.0, name
        assert found.get("ci", [0.0, 0.0]) == [0.0, 0.0], name


def test_models_with_nearly_the_same_answers_differ_by_little():
    """An ECE of 200 rows is uncertain by several points; the difference of two such models is not."""
    generator = np.random.default_rng(8)
    confidence = generator.uniform(0.6, 0.95, 200)
    correct = generator.random(200) < confidence
    low, high = calibration_error_difference(
        (confidence, correct), (np.round(confidence, 4), correct), bins=1
    )
    assert -0.001 <= low <= high <= 0.001


def test_many_classes_fill_different_cells():
    """The two models have their probabilities in different bins, and different numbers of them."""
    found = paired_differences(*pair(600, 9, classes=100))
    for name, entry in found.items():
        assert entry["ci"][0] <= entry["ci"][1], name
    assert found["nll"]["ci"][1] < 0.0


def test_swapping_the_models_turns_the_signs():
    first, second = pair(500, 2)
    one, other = paired_differences(first, second), paired_differences(second, first)
    for name in one:
        low, high = one[name]["ci"]
        assert other[name]["ci"] == pytest.approx([-high, -low], abs=0.15 * (high - low) + 1e-9), name


def test_the_order_of_the_rows_does_not_matter_where_ids_tell_them_apart():
    first, second = pair(500, 3)
    shuffled = second.select(np.random.default_rng(0).permutation(500))
    assert paired_differences(first, shuffled) == paired_differences(first, second)


@pytest.mark.parametrize("rows", [300, 4000])
def test_the_difference_of_averages_is_a_paired_one(rows):
    first, second = pair(rows, 4)
    losses = -first.gold_log_probability() + second.gold_log_probability()
    low, high = paired_differences(first, second)["nll"]["ci"]
    assert high - low == pytest.approx(2 * 1.96 * losses.std() / np.sqrt(rows), rel=0.15)
    # The intervals of either model alone would be much wider apart.
    alone = [evaluate(model)["nll_ci"] for model in (first, second)]
    assert high - low < 0.8 * sum(limits[1] - limits[0] for limits in alone)


def test_a_clear_difference_is_seen():
    first, second = pair(3000, 5)
    found = paired_differences(first, second)
    for name in ("ece", "adaptive_ece", "classwise_ece", "nll", "brier", "oe", "smooth_ece", "ks", "rmsce"):
        assert found[name]["ci"][1] < 0.0, name


@pytest.mark.simulates
@pytest.mark.parametrize("gaps", [(0.0, 0.0), (0.05, 0.0), (0.05, 0.03)])
@pytest.mark.parametrize("same", [1.0, 0.7])
def test_the_interval_of_the_difference_of_two_eces_holds_the_truth(gaps, same):
    """Either model is overconfident by a known amount, on the same rows with mostly the same outcomes."""
    generator = np.random.default_rng(6)
    runs, rows = 100, 800
    held = 0
    for run in range(runs):
        true = generator.uniform(0.55, 0.9, rows)
        correct = generator.random(rows) < true
        second = np.where(generator.random(rows) < same, correct, generator.random(rows) < true)
        low, high = calibration_error_difference(
            (true + gaps[0], correct), (true + gaps[1], second), seed=run
        )
        held += low <= gaps[0] - gaps[1] <= high
    # Fewer than this would be a sign that the coverage is below 92 %.
    assert held >= binom.ppf(0.005, runs, 0.92)


def test_rows_that_cannot_be_matched_say_why():
    first, second = pair(20, 7)
    bare = Predictions.from_logits(second.values, second.labels)
    assert match_rows(first, bare)[1] == "position"
    cases = {
        "20 and 19 rows": second.rows(0, 19),
        "3 and 2 classes": pair(20, 7, classes=2)[1],
        "labels differ in 20 rows, first in row 'test-1'": Predictions.from_logits(
            second.values, (second.labels + 1) % 3
        ),
        "1 row ids of the first are not in the second, as 'test-1'": Predictions.from_logits(
            second.values, second.labels, ids=["other", *second.ids[1:].tolist()]
        ),
        "more than once": Predictions.from_logits(second.values, second.labels, ids=["same"] * 20),
    }
    for words, other in cases.items():
        with pytest.raises(DifferentRows, match=words):
            match_rows(first, other)


def test_rows_are_dealt_by_position_alone():
    whole = deal_rows(0, 5000)
    pieces = np.concatenate([deal_rows(start, min(700, 5000 - start)) for start in range(0, 5000, 700)])
    assert np.array_equal(whole, pieces)
    assert whole[:1024].tolist() == list(range(1024))
    assert np.bincount(whole[1024:], minlength=1024).max() < 20


def test_joint_noise_keeps_correlations_and_takes_the_given_sizes():
    generator = np.random.default_rng(8)
    values = generator.standard_normal((1000, 2))
    grouped = np.stack([values[:, 0], -values[:, 0], values[:, 1]], axis=1)
    noise = joint_noise(grouped, np.ones(1000), np.array([1.0, 2.0, 3.0]), seed=0)
    assert noise.std(axis=0) == pytest.approx([1.0, 2.0, 3.0], rel=0.08)
    correlation = np.corrcoef(noise.T)
    assert correlation[0, 1] == pytest.approx(-1.0, abs=1e-9)
    assert correlation[0, 2] == pytest.approx(np.corrcoef(values.T)[0, 1], abs=0.1)
