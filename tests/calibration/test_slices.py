"""Slices: each is `evaluate` of its own rows, and the worst one is named no more often than chance allows."""

import numpy as np
import pytest
from scipy.stats import fisher_exact

from calmix.calibration.calibrators.calibrated_predictions import calibrate_predictions
from calmix.calibration.calibrators.temperature import TemperatureScaling
from calmix.calibration.evaluation import evaluate
from calmix.calibration.fit_uncertainty import FitUncertainty
from calmix.calibration.metrics.scores import balanced_brier_score, brier_score
from calmix.calibration.predictions import Predictions
from calmix.calibration.slices import MISSING, evaluate_slices


def drawn(rows, *, seed=0, spoilt=()):
    """Calibrated predictions; the labels of the `spoilt` rows are drawn at random."""
    generator = np.random.default_rng(seed)
    logits = 2.0 * generator.standard_normal((rows, 3))
    labels = (logits + generator.gumbel(size=logits.shape)).argmax(axis=1)
    labels[list(spoilt)] = generator.integers(0, 3, len(spoilt))
    return Predictions.from_logits(logits, labels)


def test_every_slice_is_evaluate_of_its_rows():
    predictions = drawn(400)
    values = np.array(["a", "b", "c"])[np.random.default_rng(1).integers(0, 3, 400)]
    for one in evaluate_slices(predictions, values, bins=10).slices:
        rows = np.flatnonzero(values == one.value)
        assert one.metrics == evaluate(predictions.select(rows), bins=10)
        inside, others = (
            predictions.correct()[values == one.value],
            predictions.correct()[values != one.value],
        )
        table = [[inside.sum(), (~inside).sum()], [others.sum(), (~others).sum()]]
        assert one.accuracy_p <= min(1.0, 3 * fisher_exact(table).pvalue) + 1e-12


def test_the_worst_slice_is_found_and_named():
    values = np.repeat([f"shop {number}" for number in range(10)], 150)
    predictions = drawn(1500, spoilt=np.flatnonzero(values == "shop 7"))
    found = evaluate_slices(predictions, values, column="shop", intervals=False)
    assert found.least_accurate().value == found.least_calibrated().value == "shop 7"
    first, second = found.explain()
    assert "'shop 7' is predicted worst" in first
    assert "10 values of 'shop', Holm-corrected" in first
    assert "overconfident" in second
    assert found.as_dict()["worst"] == {"accuracy": "shop 7", "calibration": "shop 7"}


def weighted(rows, *, annotators=None, seed=0):
    """Calibrated predictions; with annotators, the soft label of a row is their share."""
    generator = np.random.default_rng(seed)
    scores = generator.dirichlet([1.0, 1.0], rows)
    weights = generator.gamma(1.0, 1.0, rows)
    shares = generator.binomial(annotators or 1, scores[:, 1]) / (annotators or 1)
    given = Predictions.from_probabilities(scores, (shares > 0.5).astype(int))
    return given.with_rows(weights=weights, targets=np.column_stack([1 - shares, shares]))


def test_the_gap_of_a_slice_counts_weights_and_soft_labels():
    predictions = weighted(300, annotators=3)
    values = np.array(["a", "b"])[np.arange(300) % 2]
    found = evaluate_slices(predictions, values, intervals=False)
    share = predictions.targets[np.arange(300), predictions.predicted()]
    for one in found.slices:
        rows = values == one.value
        gap = np.average((predictions.confidence() - share)[rows], weights=predictions.weights[rows])
        assert one.confidence_gap == pytest.approx(gap, abs=1e-12)
    assert found.accuracy == pytest.approx(np.average(share, weights=predictions.weights), abs=1e-12)


def test_scores_that_are_the_shares_of_many_annotators_are_calibrated():
    """Against the most frequent label alone every score would look underconfident."""
    found = evaluate_slices(weighted(2000, annotators=25), np.arange(2000) % 4, intervals=False)
    assert found.least_calibrated() is None


def test_an_overconfident_slice_of_soft_labels_is_found():
    predictions = weighted(2000, annotators=5)
    values = np.arange(2000) % 4
    targets = np.where((values == 3)[:, None], 0.5, predictions.targets)
    found = evaluate_slices(
        predictions.with_rows(weights=predictions.weights, targets=targets), values, intervals=False
    )
    assert found.least_calibrated().value == "3"
    assert found.least_calibrated().confidence_gap == pytest.approx(0.25, abs=0.03)


def test_rows_of_weight_0_are_no_rows_of_a_slice():
    predictions, values = weighted(90), np.array(["a", "b", "c"])[np.arange(90) % 3]
    weights = np.where(values == "c", 0.0, predictions.weights)
    weights[0] = 0.0
    all_rows = predictions.with_rows(weights=weights, targets=predictions.targets)
    kept = np.flatnonzero(weights)
    found = evaluate_slices(all_rows, values, intervals=False)
    assert found == evaluate_slices(all_rows.select(kept), values[kept], intervals=False)
    assert {one.value: one.n for one in found.slices} == {"a": 29, "b": 30}


@pytest.mark.simulates
@pytest.mark.parametrize("annotators", [1, 5])
def test_calibrated_slices_of_weighted_rows_raise_no_alarm_more_often_than_five_percent(annotators):
    alarms = 0
    for seed in range(200):
        predictions = weighted(400, annotators=annotators, seed=seed)
        found = evaluate_slices(predictions, np.arange(400) % 4, intervals=False)
        alarms += found.least_calibrated() is not None
    assert alarms <= 18  # binomial(200, 0.05) exceeds 18 in 0.6 % of cases


@pytest.mark.simulates
def test_false_alarms_are_no_more_frequent_than_five_percent():
    """Twenty slices that are all alike; a test of each at 5 % would raise an alarm nearly always."""
    alarms = 0
    for seed in range(120):
        found = evaluate_slices(
            drawn(800, seed=seed), np.random.default_rng(seed).integers(0, 20, 800), intervals=False
        )
        alarms += found.least_accurate() is not None or found.least_calibrated() is not None
    assert alarms <= 19  # 2 x 5 % expected at most; binomial(120, 0.1) exceeds 19 in 1.5 % of cases


def test_missing_values_are_a_slice_and_spaces_do_not_matter():
    predictions = drawn(7)
    found = evaluate_slices(predictions, ["a", " a", None, float("nan"), "", 1, True], intervals=False)
    assert {one.value: one.n for one in found.slices} == {MISSING: 3, "a": 2, "1": 1, "True": 1}


def test_one_slice_of_all_rows_has_nothing_to_be_compared_with():
    (only,) = evaluate_slices(drawn(50), ["x"] * 50, intervals=False).slices
    assert only.accuracy_p == 1.0


@pytest.mark.parametrize(
    ("values", "words"),
    [(["a"] * 3, "3 values of 'slice' for 200 rows"), (list(range(200)), "has 200 values")],
)
def test_what_cannot_be_a_slice_is_refused(values, words):
    with pytest.raises(ValueError, match=words):
        evaluate_slices(drawn(200), values)


def test_the_balanced_brier_score_is_the_mean_over_classes():
    predictions = drawn(300)
    own = [
        brier_score(
            predictions.values[predictions.labels == k],
            np.full((predictions.labels == k).sum(), k),
            from_logits=True,
        )
        for k in range(3)
    ]
    found = balanced_brier_score(predictions.values, predictions.labels, from_logits=True)
    assert found == pytest.approx(np.mean(own), abs=1e-12)
    assert balanced_brier_score([[0.5, 0.5, 0.0]], [0], from_logits=False) == pytest.approx(0.5)


def test_weights_and_soft_labels_count_in_everything_that_is_said_of_a_slice():
    """Whole weights are rows written several times; all but the tests, which know that no row is new."""
    predictions = drawn(200)
    values = np.array(["a", "b"])[np.random.default_rng(1).integers(0, 2, 200)]
    weights = np.random.default_rng(2).integers(0, 4, 200)
    repeated = np.repeat(np.arange(200), weights)
    found = evaluate_slices(predictions.with_rows(weights=weights), values, intervals=False)
    expected = evaluate_slices(predictions.select(repeated), values[repeated], intervals=False)
    assert found.accuracy == pytest.approx(expected.accuracy, abs=1e-12)
    for one in found.slices:
        (other,) = [slice for slice in expected.slices if slice.value == one.value]
        assert one.confidence_gap == pytest.approx(other.confidence_gap, abs=1e-12)
        assert one.as_dict()["confidence_gap"] == one.metrics["confidence_gap"] == one.confidence_gap
        assert one.n == np.count_nonzero(weights[values == one.value])
        assert one.calibration_p >= other.calibration_p
    soft = np.full((200, 3), 0.2)
    soft[np.arange(200), predictions.labels] = 0.6
    found = evaluate_slices(predictions.with_rows(targets=soft), values, intervals=False)
    shares = soft[np.arange(200), predictions.predicted()]
    assert found.accuracy == pytest.approx(shares.mean())
    for one in found.slices:
        inside = values == one.value
        gap = predictions.confidence()[inside].mean() - shares[inside].mean()
        assert one.confidence_gap == pytest.approx(gap)


def test_equal_weights_leave_the_tests_as_they_are():
    predictions = drawn(300, spoilt=range(100))
    values = np.repeat(["a", "b", "c"], 100)
    plain = evaluate_slices(predictions, values, intervals=False)
    for scale in (1.0, 0.3, 1e6):
        weighted = predictions.with_rows(weights=np.full(300, scale))
        found = evaluate_slices(weighted, values, intervals=False)
        for one, other in zip(found.slices, plain.slices, strict=True):
            assert one.accuracy_p == pytest.approx(other.accuracy_p, rel=1e-9)
            assert one.calibration_p == pytest.approx(other.calibration_p, rel=1e-9)
        assert found.explain() == plain.explain()


@pytest.mark.simulates
def test_weighted_slices_raise_no_more_false_alarms():
    """Weights that vary as the design weights of a stratified sample do."""
    alarms = 0
    for seed in range(120):
        generator = np.random.default_rng(seed)
        rows = drawn(800, seed=seed).with_rows(weights=generator.exponential(size=800) + 0.1)
        found = evaluate_slices(rows, generator.integers(0, 20, 800), intervals=False)
        alarms += found.least_accurate() is not None or found.least_calibrated() is not None
    assert alarms <= 19


def test_intervals_of_slices_include_the_fit():
    fitting, test = drawn(150, seed=3), drawn(300, seed=4)
    values = np.repeat(["a", "b"], 150)
    calibrator = TemperatureScaling().fit(fitting)
    uncertainty = FitUncertainty.of(calibrator, fitting)
    calibrated = calibrate_predictions(calibrator, test)
    alone = evaluate_slices(calibrated, values)
    both = evaluate_slices(calibrated, values, fit=(uncertainty, test))
    for one, other, rows in zip(both.slices, alone.slices, (range(150), range(150, 300)), strict=True):
        assert one.metrics == uncertainty.widened(other.metrics, test.select(list(rows)))
        assert one.metrics["ci_includes_fit"] and one.metrics["nll_ci"][1] > other.metrics["nll_ci"][1]
        assert (one.accuracy_p, one.calibration_p) == (other.accuracy_p, other.calibration_p)
    assert "ci_includes_fit" not in alone.slices[0].metrics
    none = evaluate_slices(calibrated, values, fit=(uncertainty, test), intervals=False)
    assert "nll_ci" not in none.slices[0].metrics
