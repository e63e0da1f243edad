"""`evaluate` says what the single functions say, in one pass, in any batches."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binomtest
from sklearn.metrics import matthews_corrcoef, top_k_accuracy_score

from calmix.calibration.evaluation import RunningEvaluation, evaluate
from calmix.calibration.metrics.binning import equal_mass_sums
from calmix.calibration.metrics.errors import (
    adaptive_calibration_error,
    classwise_calibration_error,
    debiased_calibration_error,
    expected_calibration_error,
    maximum_calibration_error,
    overconfidence_error,
    root_mean_square_calibration_error,
)
from calmix.calibration.metrics.kolmogorov import ks_calibration_test
from calmix.calibration.metrics.risk_coverage import (
    area_under_generalised_risk_coverage,
    area_under_risk_coverage,
    excess_area_under_risk_coverage,
)
from calmix.calibration.metrics.scores import brier_decomposition, brier_score, negative_log_likelihood
from calmix.calibration.metrics.smooth import smooth_calibration_error
from calmix.calibration.predictions import Predictions
from calmix.calibration.uncertainty.confidence_sample import ConfidenceSample
from calmix.calibration.uncertainty.noise_floor import noise_floor
from calmix.calibration.uncertainty.rank_influence import rank_influence
from calmix.calibration.uncertainty.views.binary import BinaryView

PROMISED = {
    *(
        "n",
        "accuracy",
        "nll",
        "brier",
        "ece",
        "ece_ci",
        "ece_noise_floor",
        "ece_noise_floor_p95",
        "adaptive_ece",
    ),
    *("classwise_ece", "oe", "mce", "aurc", "augrc"),
}


def made(rows, classes, seed=0, sharpness=1.3) -> Predictions:
    """Rows drawn from their own probabilities, then made too sharp."""
    generator = np.random.default_rng(seed)
    logits = 2.0 * generator.standard_normal((rows, classes))
    probabilities = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    labels = (probabilities.cumsum(axis=1) > generator.random((rows, 1))).argmax(axis=1)
    return Predictions.from_logits(sharpness * logits, labels)


def by_hand(predictions, notion, bins, closed):
    """Each value by the function of its own."""
    probabilities, labels = predictions.probabilities(), predictions.labels
    confidence, correct = predictions.confidence(), predictions.correct()
    top = (confidence, correct)
    split = brier_decomposition(probabilities, labels, from_logits=False, bins=bins, closed=closed)
    values = {
        "n": len(labels),
        "accuracy": correct.mean(),
        "mean_confidence": confidence.mean(),
        "confidence_gap": confidence.mean() - correct.mean(),
        "mcc": matthews_corrcoef(labels, predictions.values.argmax(axis=1)),
        "nll": negative_log_likelihood(predictions.values, labels, from_logits=True),
        "brier": brier_score(predictions.values, labels, from_logits=True),
        "brier_calibration": split.calibration,
        "brier_refinement": split.refinement,
        "classwise_ece": classwise_calibration_error(probabilities, labels, bins=bins, closed=closed),
        "aurc": area_under_risk_coverage(*top),
        "e_aurc": excess_area_under_risk_coverage(*top),
        "augrc": area_under_generalised_risk_coverage(*top),
    }
    if predictions.classes > 5:
        every = np.arange(predictions.classes)
        values["top5_accuracy"] = top_k_accuracy_score(labels, predictions.values, k=5, labels=every)
    binned = {
        "ece": expected_calibration_error,
        "mce": maximum_calibration_error,
        "rmsce": root_mean_square_calibration_error,
        "oe": overconfidence_error,
    }
    if notion == "classwise":
        each = [(probabilities[:, k], labels == k) for k in range(predictions.classes)]
        for name, function in binned.items():
            own = np.array([function(*one, bins=bins, closed=closed) for one in each])
            values[name] = {"mce": own.max(), "rmsce": np.sqrt((own**2).mean())}.get(name, own.mean())
        values["adaptive_ece"] = np.mean([adaptive_calibration_error(*one, bins=bins) for one in each])
        squares = [debiased_calibration_error(*one, bins=bins) ** 2 for one in each]
        values["debiased_rmsce"] = np.sqrt(np.mean(squares))
        return values
    notion = top if notion == "top_label" else (probabilities[:, 1], labels == 1)
    for name, function in binned.items():
        values[name] = function(*notion, bins=bins, closed=closed)
    values["adaptive_ece"] = adaptive_calibration_error(*notion, bins=bins)
    values["debiased_rmsce"] = debiased_calibration_error(*notion, bins=bins)
    values["smooth_ece"] = smooth_calibration_error(*notion)
    test = ks_calibration_test(*notion)
    return values | {"ks": test.error, "ks_p_value": test.p_value}


@pytest.mark.parametrize(
    ("notion", "classes"), [("top_label", 2), ("top_label", 7), ("classwise", 5), ("positive", 2)]
)
@pytest.mark.parametrize(("bins", "closed"), [(15, "right"), (10, "left")])
def test_every_value_is_that_of_its_own_function(notion, classes, bins, closed):
    predictions = made(700, classes)
    found = evaluate(predictions, bins=bins, closed=closed, notion=notion)
    expected = by_hand(predictions, notion, bins, closed)
    for name, value in expected.items():
        assert found[name] == pytest.approx(value, abs=1e-9), name
    assert {"notion": notion, "bins": bins, "closed": closed}.items() <= found.items()
    for name in set(expected) - {"n", "mean_confidence", "ks_p_value"}:
        low, high = found[f"{name}_ci"]
        assert low <= high, name
    assert set(found) >= PROMISED
    json.dumps(found, allow_nan=False)
    assert all(type(value) in (int, float, list, str) for value in found.values())


@pytest.mark.parametrize(("notion", "classes"), [("top_label", 7), ("classwise", 5), ("positive", 2)])
def test_every_further_number_of_bins_has_the_ece_that_it_has_alone(notion, classes):
    predictions = made(700, classes)
    together = evaluate(predictions, bins=[10, 15, 100], notion=notion)
    main = evaluate(predictions, bins=10, notion=notion)
    assert {name: together[name] for name in main} == main
    for bins in (15, 100):
        alone = evaluate(predictions, bins=bins, notion=notion)
        for part in ("", "_ci", "_noise_floor", "_noise_floor_p95"):
            assert together[f"ece_{bins}_bins{part}"] == alone[f"ece{part}"]


@given(
    st.lists(st.integers(1, 60), min_size=1, max_size=8),
    st.sampled_from(["top_label", "classwise", "positive"]),
)
@settings(max_examples=15, deadline=None)
def test_batches_never_change_a_result(sizes, notion):
    predictions = made(sum(sizes), 2, seed=len(sizes))
    whole = evaluate(predictions, notion=notion, intervals=False)
    pieces = RunningEvaluation(notion=notion, intervals=False)
    start = 0
    for size in sizes:
        pieces.update(predictions.rows(start, start + size))
        start += size
    for name, value in pieces.result().items():
        assert value == (
            pytest.approx(whole[name], abs=1e-12) if isinstance(value, float) else whole[name]
        ), name


def test_intervals_do_not_depend_on_batches_either():
    predictions = made(3000, 3)
    whole = evaluate(predictions)
    pieces = RunningEvaluation()
    for start in range(0, 3000, 700):
        pieces.update(predictions.rows(start, min(start + 700, 3000)))
    for name, value in pieces.result().items():
        if name.endswith("_ci"):
            assert value == pytest.approx(whole[name], abs=1e-9), name


def test_logits_and_their_probabilities_are_measured_alike():
    predictions = made(500, 4)
    same = Predictions.from_probabilities(predictions.probabilities(), predictions.labels)
    first, second = evaluate(predictions, intervals=False), evaluate(same, intervals=False)
    for name in first:
        if isinstance(first[name], float):
            assert second[name] == pytest.approx(first[name], abs=1e-9), name


def test_without_intervals_there_are_none():
    found = evaluate(made(100, 3), intervals=False)
    assert not [name for name in found if name.endswith("_ci") or "floor" in name]


def test_the_same_seed_gives_the_same_bits():
    predictions = made(400, 3)
    assert evaluate(predictions, seed=3) == evaluate(predictions, seed=3)
    assert evaluate(predictions, seed=3) != evaluate(predictions, seed=4)


def test_the_noise_floor_is_that_of_the_confidences():
    predictions = made(400, 3)
    found, floor = evaluate(predictions, seed=5), noise_floor(predictions.confidence(), seed=5)
    assert (found["ece_noise_floor"], found["ece_noise_floor_p95"]) == (floor.mean, floor.p95)


def test_the_interval_of_the_accuracy_is_exact():
    predictions = made(300, 3)
    exact = binomtest(int(predictions.correct().sum()), 300).proportion_ci(method="exact")
    assert evaluate(predictions)["accuracy_ci"] == pytest.approx([exact.low, exact.high])


@pytest.mark.parametrize("rows", [400, 5000])
def test_intervals_of_averages_are_those_of_a_mean(rows):
    predictions = made(rows, 3)
    found = evaluate(predictions)
    losses = -predictions.gold_log_probability()
    error = losses.std() / np.sqrt(rows)
    assert found["nll_ci"] == pytest.approx(
        [losses.mean() - 1.96 * error, losses.mean() + 1.96 * error], abs=0.5 * error
    )


def test_two_classes_have_one_error_whether_seen_from_one_or_from_both():
    """p_0 = 1 - p_1: the classwise error is the positive one, and both classes share their noise."""
    predictions = made(2000, 2)
    both, one = evaluate(predictions, notion="classwise"), evaluate(predictions, notion="positive")
    assert both["ece"] == pytest.approx(one["ece"], abs=1e-9)
    assert both["ece_ci"] == pytest.approx(one["ece_ci"], abs=0.006)
    assert both["ece_noise_floor"] == pytest.approx(one["ece_noise_floor"], rel=0.08)


@pytest.mark.parametrize(
    ("scores", "labels"),
    [
        ([[1.0, 0.0]], [0]),
        ([[1.0, 0.0]], [1]),
        ([[0.5, 0.5]], [1]),
        ([[1.0, 0.0]] * 50, [0] * 50),
        ([[0.5, 0.5]] * 50, [0, 1] * 25),
        ([[0.7, 0.2, 0.1]] * 2 + [[0.0, 0.0, 1.0]], [2, 2, 0]),
    ],
)
@pytest.mark.parametrize("notion", ["top_label", "classwise"])
def test_the_smallest_and_the_surest_data_give_finite_numbers(scores, labels, notion):
    found = evaluate(Predictions.from_probabilities(scores, labels), notion=notion)
    json.dumps(found, allow_nan=False)
    assert found["aurc_ci"][0] <= found["aurc_ci"][1]


def test_unknown_settings_are_refused():
    predictions = made(20, 3)
    with pytest.raises(ValueError, match="two classes"):
        evaluate(predictions, notion="positive")
    with pytest.raises(ValueError, match="notion"):
        evaluate(predictions, notion="binary")
    with pytest.raises(ValueError, match="closed"):
        evaluate(predictions, closed="both")
    with pytest.raises(ValueError, match="bins"):
        evaluate(predictions, bins=0)
    with pytest.raises(ValueError, match="no rows"):
        RunningEvaluation().result()
    evaluation = RunningEvaluation()
    evaluation.update(predictions)
    with pytest.raises(ValueError, match="2 classes after 3"):
        evaluation.update(made(20, 2))


@given(st.lists(st.tuples(st.integers(0, 12), st.booleans()), min_size=1, max_size=60), st.integers(1, 20))
def test_equal_mass_bins_of_sorted_rows_are_those_of_the_ranks(rows, bins):
    confidence = np.array([value for value, _ in rows]) / 12
    correct = np.array([right for _, right in rows])
    view = BinaryView(ConfidenceSample.pack(confidence, correct), bins=bins, closed="right")
    expected = equal_mass_sums(confidence, correct, bins=bins)
    filled = expected.weight > 0
    assert view.mass_sums.weight[view.mass_sums.weight > 0].tolist() == expected.weight[filled].tolist()
    assert view.mass_sums.residual[view.mass_sums.weight > 0] == pytest.approx(
        expected.residual[filled], abs=1e-12
    )


def test_influences_are_what_leaving_a_row_out_changes():
    generator = np.random.default_rng(0)
    rows = 300
    confidence = np.round(generator.uniform(0.5, 1.0, rows), 2)
    correct = generator.random(rows) < confidence
    sample = ConfidenceSample.pack(confidence, correct)
    influence = rank_influence(sample.sorted())
    found = influence.table[influence.cell(sample)]
    functions = (
        area_under_risk_coverage,
        excess_area_under_risk_coverage,
        area_under_generalised_risk_coverage,
    )
    for column, function in enumerate(functions):
        without = np.array(
            [function(np.delete(confidence, row), np.delete(correct, row)) for row in range(rows)]
        )
        jackknife = (rows - 1) * (without.mean() - without)
        assert np.corrcoef(jackknife, found[:, column])[0, 1] > 0.9999
        assert found[:, column].std() == pytest.approx(jackknife.std(), rel=0.01)
        assert found[:, column].mean() == pytest.approx(0.0, abs=1e-12)
