"""Accumulators: however the rows come, the result is that of the one-shot functions."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calmix.calibration.evaluation import evaluate
from calmix.calibration.integrations.accumulators import (
    BinnedCalibration,
    ClasswiseCalibration,
    PredictionMetrics,
    equal_mass_borders,
)
from calmix.calibration.metrics.binning import equal_width_sums, reliability_bins
from calmix.calibration.metrics.compensated_sum import CompensatedSum
from calmix.calibration.metrics.errors import (
    adaptive_calibration_error,
    classwise_calibration_error,
    debiased_square_error,
    expected_calibration_error,
    maximum_calibration_error,
    overconfidence_error,
    root_mean_square_calibration_error,
)
from calmix.calibration.metrics.scores import brier_decomposition, brier_score, negative_log_likelihood
from calmix.calibration.predictions import Predictions

ONE_SHOT = {
    "ece": expected_calibration_error,
    "mce": maximum_calibration_error,
    "rmsce": root_mean_square_calibration_error,
    "oe": overconfidence_error,
}


@st.composite
def rows_in_shards(draw):
    """Rows, and where they are cut: into batches, and the batches into shards."""
    rows = draw(st.integers(1, 300))
    seed = draw(st.integers(0, 2**32 - 1))
    cuts = sorted(draw(st.lists(st.integers(0, rows), max_size=12)))
    batches = [np.arange(a, b) for a, b in zip([0, *cuts], [*cuts, rows], strict=True) if b > a]
    shards = draw(st.integers(1, 4))
    generator = np.random.default_rng(seed)
    return generator, rows, batches, shards


def accumulate(make, batches, shards, update):
    """Deal the batches to shards, and merge the shards from the last to the first."""
    parts = [make() for _ in range(shards)]
    for place, batch in enumerate(batches):
        update(parts[place % shards], batch)
    total = make()
    for part in reversed(parts):
        assert total.merge(part) is total
    return total.compute()


@given(
    drawn=rows_in_shards(),
    bins=st.sampled_from([1, 10, 15, 100]),
    closed=st.sampled_from(["left", "right"]),
    weighted=st.booleans(),
    on_edges=st.booleans(),
)
@settings(max_examples=60, deadline=None)
def test_binned_errors_do_not_depend_on_batches_and_shards(drawn, bins, closed, weighted, on_edges):
    generator, rows, batches, shards = drawn
    confidence = generator.integers(0, 101, rows) / 100 if on_edges else generator.random(rows)
    correct = generator.random(rows) < confidence**2
    weights = generator.uniform(0.1, 3.0, rows) if weighted else None
    found = accumulate(
        lambda: BinnedCalibration(bins=bins, closed=closed),
        batches,
        shards,
        lambda part, i: part.update(confidence[i], correct[i], None if weights is None else weights[i]),
    )
    for name, function in ONE_SHOT.items():
        expected = function(confidence, correct, bins=bins, closed=closed, weights=weights)
        assert found[name] == pytest.approx(expected, abs=1e-12), name
    square = debiased_square_error(
        equal_width_sums(confidence, correct, bins=bins, closed=closed, weights=weights)
    )
    # The square: a root would turn a rounding error of 1e-16 beside 0 into 1e-8.
    assert found["debiased_rmsce"] ** 2 == pytest.approx(max(square, 0.0), abs=1e-12)


@given(drawn=rows_in_shards(), classes=st.integers(2, 6), weighted=st.booleans(), half=st.booleans())
@settings(max_examples=60, deadline=None)
def test_classwise_error_and_scores_do_not_depend_on_batches_and_shards(drawn, classes, weighted, half):
    generator, rows, batches, shards = drawn
    logits = generator.normal(scale=3, size=(rows, classes)).astype(np.float16 if half else np.float64)
    labels = generator.integers(0, classes, rows)
    weights = generator.uniform(0.1, 3.0, rows) if weighted else None
    predictions = Predictions.from_logits(logits, labels)
    found = accumulate(
        lambda: PredictionMetrics(classes),
        batches,
        shards,
        lambda part, i: part.update(predictions.select(i), None if weights is None else weights[i]),
    )
    probabilities = predictions.probabilities()
    expected = {
        "n": rows,
        "accuracy": np.average(predictions.correct(), weights=weights),
        "nll": negative_log_likelihood(logits, labels, from_logits=True, weights=weights),
        "brier": brier_score(logits, labels, from_logits=True, weights=weights),
        "brier_calibration": brier_decomposition(
            logits, labels, from_logits=True, weights=weights
        ).calibration,
        "classwise_ece": classwise_calibration_error(probabilities, labels, weights=weights),
        "ece": expected_calibration_error(predictions.confidence(), predictions.correct(), weights=weights),
        "mce": maximum_calibration_error(predictions.confidence(), predictions.correct(), weights=weights),
    }
    for name, value in expected.items():
        assert found[name] == pytest.approx(value, abs=1e-12), name


@pytest.mark.simulates
def test_forty_million_rows_in_one_bin_keep_their_error():
    # Float32 sums stop growing at 2**24 = 16.8 million.
    confidence = np.full(1_000_000, 0.75, dtype=np.float32)
    correct = np.arange(1_000_000) < 350_000
    accumulator = BinnedCalibration(bins=15)
    for _ in range(40):
        accumulator.update(confidence, correct)
    assert accumulator.sums.rows.max() == 40_000_000
    found = accumulator.compute()
    assert found["ece"] == pytest.approx(0.4, abs=1e-12)
    assert found["mce"] == pytest.approx(0.4, abs=1e-12)
    assert found["oe"] == pytest.approx(0.75 * 0.4, abs=1e-12)


def test_many_single_rows_equal_one_batch():
    generator = np.random.default_rng(0)
    confidence = generator.random(5_000)
    correct = generator.random(5_000) < 0.5
    accumulator = BinnedCalibration(bins=3)
    for one, right in zip(confidence, correct, strict=True):
        accumulator.update([one], [right])
    assert accumulator.compute()["ece"] == pytest.approx(
        expected_calibration_error(confidence, correct, bins=3), abs=1e-14
    )


def test_a_compensated_sum_keeps_what_float64_drops():
    total = CompensatedSum((1,))
    total.add(np.array([1e16]))
    for _ in range(1000):
        total.add(np.array([1.0]))
    other = CompensatedSum((1,))
    other.add(np.array([-1e16]))
    total.merge(other)
    assert total.value[0] == 1000.0


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_narrow_inputs_are_summed_in_float64(dtype):
    confidence = np.full(20_000, 0.7, dtype=dtype)
    accumulator = BinnedCalibration()
    accumulator.update(confidence, np.ones(20_000))
    assert accumulator.compute()["ece"] == pytest.approx(1.0 - float(dtype(0.7)), abs=1e-12)


def test_the_positive_notion_looks_at_the_second_class():
    generator = np.random.default_rng(3)
    positive = generator.random(200)
    labels = (generator.random(200) < positive).astype(int)
    accumulator = PredictionMetrics(2, notion="positive", bins=10)
    accumulator.update(Predictions.from_probabilities(np.stack([1 - positive, positive], 1), labels))
    expected = expected_calibration_error(positive, labels, bins=10)
    assert accumulator.compute()["ece"] == pytest.approx(expected, abs=1e-12)


def test_the_classwise_notion_is_the_mean_over_classes():
    generator = np.random.default_rng(4)
    probabilities = generator.dirichlet(np.ones(4), 300)
    labels = generator.integers(0, 4, 300)
    accumulator = PredictionMetrics(4, notion="classwise")
    accumulator.update(Predictions.from_probabilities(probabilities, labels))
    found = accumulator.compute()
    assert found["ece"] == found["classwise_ece"]
    assert found["ece"] == pytest.approx(classwise_calibration_error(probabilities, labels), abs=1e-12)
    assert "mce" not in found


def test_rows_of_weight_zero_change_nothing():
    accumulator = PredictionMetrics(2)
    accumulator.update(Predictions.from_probabilities([[0.9, 0.1], [0.2, 0.8]], [0, 0]), weights=[1, 0])
    found = accumulator.compute()
    assert found["accuracy"] == 1.0
    assert found["ece"] == pytest.approx(0.1)


@given(drawn=rows_in_shards(), bins=st.sampled_from([1, 4, 15]))
@settings(max_examples=30, deadline=None)
def test_with_the_borders_of_all_rows_the_stream_has_bins_of_equal_mass(drawn, bins):
    generator, rows, batches, shards = drawn
    confidence = generator.integers(0, 21, rows) / 20
    correct = generator.random(rows) < confidence
    borders = equal_mass_borders(confidence, bins)
    found = accumulate(
        lambda: BinnedCalibration(borders=borders),
        batches,
        shards,
        lambda part, i: part.update(confidence[i], correct[i]),
    )
    assert found["ece"] == pytest.approx(
        adaptive_calibration_error(confidence, correct, bins=bins), abs=1e-12
    )


def test_an_empty_batch_changes_nothing():
    accumulator = BinnedCalibration().update([0.8], [1]).update([], [])
    assert accumulator.compute()["ece"] == pytest.approx(0.2)


def test_the_reliability_diagram_of_a_stream_is_that_of_all_rows():
    generator = np.random.default_rng(5)
    confidence = generator.random(400)
    correct = generator.random(400) < confidence
    accumulator = BinnedCalibration(bins=10)
    for part in np.array_split(np.arange(400), 7):
        accumulator.update(confidence[part], correct[part])
    streamed, whole = accumulator.reliability(), reliability_bins(confidence, correct, bins=10)
    for name in ("count", "mean_confidence", "accuracy", "accuracy_low", "accuracy_high"):
        assert getattr(streamed, name) == pytest.approx(getattr(whole, name), abs=1e-12, nan_ok=True)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (lambda: BinnedCalibration(bins=10).merge(BinnedCalibration(bins=15)), "same bins"),
        (lambda: BinnedCalibration().merge(BinnedCalibration(closed="left")), "same bins"),
        (lambda: ClasswiseCalibration(2).merge(ClasswiseCalibration(3)), "same classes and bins"),
        (lambda: ClasswiseCalibration(3).update([[0.5, 0.5]], [0]), "2 classes where 3 were announced"),
        (
            lambda: PredictionMetrics(3).update(Predictions.from_logits([[0.0, 1.0]], [0])),
            "2 classes where 3 were announced",
        ),
        (lambda: PredictionMetrics(3, notion="positive"), "needs two classes"),
        (lambda: PredictionMetrics(3, notion="top"), "notion must be"),
        (lambda: BinnedCalibration(bins=0), "bins must be"),
        (lambda: BinnedCalibration().compute(), "no rows"),
        (lambda: ClasswiseCalibration(2).compute(), "no rows"),
        (lambda: PredictionMetrics(2).compute(), "no rows"),
        (lambda: PredictionMetrics(2).merge(PredictionMetrics(2, notion="classwise")), "cannot be merged"),
        (lambda: BinnedCalibration(borders=[0.5, 0.4]), "borders must be rising"),
        (lambda: BinnedCalibration(borders=[0.5]).merge(BinnedCalibration(bins=2)), "same bins"),
        (lambda: BinnedCalibration().update([np.nan], [1]), "confidence"),
        (lambda: BinnedCalibration().update([1.2], [1]), "confidence must lie"),
    ],
)
def test_what_makes_no_sense_is_refused(wrong, said):
    with pytest.raises(ValueError, match=said):
        wrong()


def test_weights_and_soft_labels_of_predictions_count_in_batches():
    generator = np.random.default_rng(5)
    targets = generator.dirichlet(np.ones(3), size=200)
    given = Predictions.from_logits(generator.normal(size=(200, 3)), targets.argmax(axis=1))
    given = given.with_rows(weights=generator.exponential(size=200), targets=targets)
    metric = PredictionMetrics(3)
    for start in range(0, 200, 70):
        metric.update(given.rows(start, start + 70))
    found, expected = metric.compute(), evaluate(given, intervals=False)
    for name in ("accuracy", "nll", "brier", "ece", "mce", "classwise_ece", "mean_confidence"):
        assert found[name] == pytest.approx(expected[name], abs=1e-12)
    with pytest.raises(ValueError, match="give no others"):
        metric.update(given, np.ones(200))
