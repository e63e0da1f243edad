"""Intervals that know how little was seen: few errors, none, and scores that separate."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binomtest, chi2

from calmix.calibration.differences import calibration_error_difference, paired_differences
from calmix.calibration.evaluation import evaluate
from calmix.calibration.metrics.binning import assign_bins
from calmix.calibration.metrics.scores import brier_rows, log_loss_rows
from calmix.calibration.predictions import Predictions
from calmix.calibration.uncertainty.confidence_sample import ConfidenceSample
from calmix.calibration.uncertainty.error_costs import costs_of_errors, square_costs
from calmix.calibration.uncertainty.gamma_limits import gamma_limits, mean_covariance, mean_variance
from calmix.calibration.uncertainty.intervals import calibration_error_interval
from calmix.calibration.uncertainty.mean_gap import MeanGap
from calmix.calibration.uncertainty.paired_accuracy import accuracy_difference_limits
from calmix.calibration.uncertainty.views.binary import BinaryView


def binary(confidence, correct) -> Predictions:
    """The first class is predicted; it is the label where `correct`."""
    confidence = np.asarray(confidence, dtype=float)
    return Predictions.from_probabilities(
        np.stack([confidence, 1.0 - confidence], axis=1), np.where(correct, 0, 1)
    )


@pytest.mark.parametrize("count", [0, 1, 5, 40])
def test_equal_costs_have_the_exact_limits_of_a_poisson_count(count):
    low, high = gamma_limits(count / 50, count / 50**2, 1 / 50)
    exact_low = chi2.ppf(0.025, 2 * count) / 2 if count else 0.0
    assert (50 * low, 50 * high) == pytest.approx((exact_low, chi2.ppf(0.975, 2 * count + 2) / 2))


def test_many_events_have_the_limits_of_a_normal_mean():
    low, high = gamma_limits(0.3, 1e-6, 1e-6)
    assert (low, high) == pytest.approx((0.3 - 1.96e-3, 0.3 + 1.96e-3), abs=5e-6)


def test_variances_of_means_are_those_of_numpy():
    generator = np.random.default_rng(0)
    first, second = generator.normal(size=(2, 80))
    rows = np.ones(80)
    assert mean_variance(first, rows) == pytest.approx(first.var(ddof=1) / 80)
    assert mean_covariance(first, second, rows) == pytest.approx(np.cov(first, second)[0, 1] / 80)
    # Groups without rows count for nothing.
    padded = np.concatenate([first, np.zeros(20)])
    assert mean_variance(padded, np.concatenate([rows, np.zeros(20)])) == pytest.approx(
        mean_variance(first, rows)
    )


@pytest.mark.parametrize("kind", ["logits", "probabilities"])
def test_the_cost_of_an_error_is_what_it_adds_to_the_scores_of_a_right_answer(kind):
    generator = np.random.default_rng(1)
    logits, labels = 2.0 * generator.normal(size=(60, 4)), generator.integers(0, 4, 60)
    predictions = Predictions.from_logits(logits, labels)
    if kind == "probabilities":
        predictions = Predictions.from_probabilities(predictions.probabilities(), labels)
    right = Predictions(
        predictions.values, predictions.kind, logits.argmax(axis=1), None, ("a", "b", "c", "d")
    )
    likelihood, brier = costs_of_errors(
        predictions.probabilities(), labels, predictions.correct(), log_loss_rows(predictions)
    )
    assert likelihood == pytest.approx(log_loss_rows(predictions) - log_loss_rows(right), abs=1e-12)
    assert brier == pytest.approx(brier_rows(predictions) - brier_rows(right), abs=1e-12)

    rows, likelihood_squares, brier_squares = square_costs(predictions)
    slow = np.zeros((60, 2))
    for row, shares in enumerate(right.probabilities()):
        best = shares.argmax()
        for other in set(range(4)) - {best}:
            weight = shares[other] / (shares.sum() - shares[best])
            slow[row] += weight * np.array(
                [np.log(shares[best] / shares[other]), 2 * (shares[best] - shares[other])]
            )
    assert rows == 60
    assert (likelihood_squares, brier_squares) == pytest.approx(tuple((slow**2).sum(axis=0)))


def test_a_model_that_excludes_the_other_labels_would_pay_most():
    assert square_costs(Predictions.from_probabilities([[1.0, 0.0, 0.0]], [0]))[1] == pytest.approx(
        36.04**2, rel=1e-3
    )


@pytest.mark.parametrize("notion", ["top_label", "classwise", "positive"])
def test_no_error_seen_is_no_proof(notion):
    """[0, 0] would say that errors are impossible; 100 rows say that there are at most 3.7 in 100."""
    found = evaluate(binary(np.linspace(0.98, 0.9999, 100), np.ones(100, bool)), notion=notion)
    for name in ("aurc", "e_aurc", "augrc", "oe"):
        low, high = found[f"{name}_ci"]
        assert low == 0.0, name
        # Overconfidence weighs by the probability, and that of the class that never came is small.
        assert (0.0001 if (name, notion) == ("oe", "positive") else 0.01) < high < 0.06, name
    # One error in 30 would cost about five nats.
    assert 0.1 < found["nll_ci"][1] < 0.3
    assert 0.05 < found["brier_ci"][1] < 0.1


@pytest.mark.parametrize(("rows", "errors"), [(100, 0), (500, 2), (500, 9), (2000, 1)])
def test_at_constant_confidence_the_upper_limit_is_that_of_the_accuracy(rows, errors):
    correct = np.arange(rows) >= errors
    exact = binomtest(rows - errors, rows).proportion_ci(method="exact")
    for metric in ("ece", "mce", "rmsce", "adaptive_ece", "debiased_rmsce"):
        high = calibration_error_interval(np.full(rows, 0.999), correct, metric).high
        assert 0.999 - exact.low <= high + 1e-12 <= 1.35 * (0.999 - exact.low), metric
    high = calibration_error_interval(np.full(rows, 0.999), correct, "oe").high
    assert high >= 0.999 * (0.999 - exact.low) - 1e-12


@pytest.mark.parametrize("metric", ["ece", "adaptive_ece", "rmsce", "smooth_ece", "ks"])
def test_fewer_errors_than_a_calibrated_model_has_on_average_are_no_proof(metric):
    """Nine are expected; four or fewer come in 5.5 % of draws, but the errors seen spread too little."""
    found = evaluate(binary(np.full(100, 0.91), np.arange(100) >= 4))
    assert found[f"{metric}_ci"][0] == 0.0
    clear = evaluate(binary(np.full(400, 0.8), np.arange(400) >= 4))
    assert clear[f"{metric}_ci"][0] > 0.1


def test_weights_count_as_the_rows_they_are_worth():
    gap = MeanGap(0.9, 1.0, 50.0)
    confidence, correct = np.full(100, 0.9), np.ones(100, bool)
    # Half of the rows with weight 0 are not there.
    weights = np.repeat([1.0, 0.0], 50)
    assert calibration_error_interval(confidence, correct, weights=weights).high >= max(gap.reach(0.95))


def test_no_calibration_error_can_be_more_than_one():
    found = evaluate(binary([0.99, 0.9, 0.6, 0.55], [False, False, False, True]))
    for name in ("ece", "mce", "rmsce", "oe", "adaptive_ece", "debiased_rmsce", "smooth_ece", "ks"):
        assert 0.0 <= found[f"{name}_ci"][0] <= found[f"{name}_ci"][1] <= 1.0, name
    assert found["mce_ci"][1] == 1.0


@pytest.mark.parametrize("seed", range(4))
def test_what_recalibration_cannot_win_is_not_more_than_the_brier_score(seed):
    """Few rows in many bins: noise makes the calibration part, and its correction, large."""
    generator = np.random.default_rng(seed)
    shares = generator.dirichlet(np.ones(5), 40)
    labels = (shares.cumsum(axis=1) > generator.random((40, 1))).argmax(axis=1)
    found = evaluate(Predictions.from_probabilities(shares, labels))
    low, high = found["brier_refinement_ci"]
    assert low <= found["brier_refinement"] <= high <= found["brier_ci"][1]
    assert low < found["brier"]


def test_cells_of_single_rows_do_not_explain_miscalibration_away():
    """100 classes in 1,500 cells: noise taken for too large leaves nothing to calibration."""
    generator = np.random.default_rng(6)

    def draw(rows):
        logits = generator.normal(size=(rows, 100))
        logits[np.arange(rows), generator.integers(0, 100, rows)] += generator.normal(7.0, 2.0, rows)
        return tuple(Predictions.from_logits(logits / t, np.zeros(rows, int)) for t in (1.0, 1.5))

    given, true = (one.probabilities() for one in draw(20_000))
    cell = assign_bins(given.ravel(), 15) + np.tile(15 * np.arange(100), 20_000)
    gaps, held = np.bincount(cell, weights=(true - given).ravel()), np.bincount(cell)
    truth = (gaps[held > 0] ** 2 / held[held > 0]).sum() / 20_000
    for _ in range(4):
        model, reality = draw(500)
        labels = (reality.probabilities().cumsum(axis=1) > generator.random((500, 1))).argmax(axis=1)
        found = evaluate(Predictions.from_logits(model.values, labels))
        low, high = found["brier_calibration_ci"]
        assert low < truth < high


def test_the_largest_running_sum_is_no_less_than_noise_could_have_left_of_it():
    generator = np.random.default_rng(7)
    held = 0
    for _ in range(60):
        confidence = generator.uniform(0.6, 1.0, 150)
        found = BinaryView(
            ConfidenceSample.pack(confidence, generator.random(150) < confidence - 0.15),
            bins=15,
            closed="right",
        )
        low, high = found.statistic("ks").limits(0)
        held += low <= 0.15 <= high
    assert held >= 55


@pytest.mark.parametrize("rows", [1, 2, 7, 300])
@pytest.mark.parametrize("accuracy", [0.0, 0.5, 1.0])
def test_averages_and_rank_areas_lie_in_their_intervals(rows, accuracy):
    generator = np.random.default_rng(rows)
    predictions = binary(generator.uniform(0.5, 1.0, rows), generator.random(rows) < accuracy)
    found = evaluate(predictions)
    for name in ("accuracy", "nll", "brier", "brier_refinement", "aurc", "e_aurc", "augrc"):
        low, high = found[f"{name}_ci"]
        assert np.isfinite([low, high]).all()
        assert low <= found[name] <= high, name


def test_models_that_rarely_disagree_may_differ_by_what_was_not_seen():
    """Fifty rows, both always right: a bootstrap knows no row on which one of the two is wrong."""
    confidence = np.linspace(0.9, 0.99, 50)
    first, second = binary(confidence, np.ones(50, bool)), binary(confidence - 0.001, np.ones(50, bool))
    found = paired_differences(first, second)
    for name, least in (
        ("nll", 0.1),
        ("brier", 0.05),
        ("aurc", 0.05),
        ("ece", 0.05),
        ("classwise_ece", 0.05),
    ):
        low, high = found[name]["ci"]
        assert low < -least < 0 < least < high, name


def test_a_paired_calibration_error_may_hide_what_the_accuracies_may_hide():
    """With all rows in one bin and overconfident, the difference is that of confidences less accuracies."""
    rows = np.arange(200)
    first, second = (np.full(200, 0.9), rows >= 80), (np.full(200, 0.85), rows >= 82)
    found = calibration_error_difference(first, second)
    low, high = accuracy_difference_limits(2, 0, 200)
    assert found[0] <= 0.05 - high + 1e-9
    assert found[1] >= 0.05 - low - 1e-9


def test_a_model_at_another_temperature_is_not_another_model():
    """Its errors are the same whatever was not seen; the difference is then as certain as its rows say."""
    generator = np.random.default_rng(5)
    logits = generator.normal(size=(400, 6))
    logits[np.arange(400), generator.integers(0, 6, 400)] += 6.0
    labels = np.where(generator.random(400) < 0.97, logits.argmax(axis=1), logits.argmin(axis=1))
    first = Predictions.from_logits(logits, labels)
    noisy = Predictions.from_logits(logits / 1.2 + 0.1 * generator.normal(size=logits.shape), labels)
    scaled, other = (paired_differences(first, second) for second in (first.with_temperature(1.2), noisy))
    for name in ("nll", "brier"):
        width, wider = (found[name]["ci"][1] - found[name]["ci"][0] for found in (scaled, other))
        assert width < 0.8 * wider, name
    losses = log_loss_rows(first) - log_loss_rows(first.with_temperature(1.2))
    low, high = scaled["nll"]["ci"]
    assert high - low == pytest.approx(2 * 1.96 * losses.std() / 20, rel=0.35)


def coverage(intervals, truth):
    return np.mean([low <= truth <= high for low, high in intervals])


@pytest.mark.simulates
@pytest.mark.parametrize("rows", [100, 500])
def test_intervals_hold_the_truth_where_errors_are_rare(rows):
    """One error in a hundred, anywhere: the bootstrap of before held the truth in 66 % of 100 rows."""
    generator = np.random.default_rng(rows)
    sure = np.full(rows, 0.999)
    found = [evaluate(binary(sure, generator.random(rows) < 0.99)) for _ in range(60)]
    log_loss = -(0.99 * np.log(0.999) + 0.01 * np.log(0.001))
    truths = {
        "nll": log_loss,
        "aurc": 0.01,
        "ece": 0.009,
        "oe": 0.999 * 0.009,
        "brier": 2 * (0.99e-6 + 0.01 * 0.998001),
    }
    for name, truth in truths.items():
        # Fewer would be a sign that the coverage is below 93 %.
        assert coverage([one[f"{name}_ci"] for one in found], truth) >= 50 / 60, name
