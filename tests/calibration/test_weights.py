"""What weights mean: their scale means nothing, 0 is no row, whole numbers are repetitions."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calmix.calibration.integrations.accumulators import (
    BinnedCalibration,
    ClasswiseCalibration,
    PredictionMetrics,
)
from calmix.calibration.metrics.binning import equal_width_sums
from calmix.calibration.metrics.errors import (
    adaptive_calibration_error,
    classwise_calibration_error,
    debiased_calibration_error,
    expected_calibration_error,
    maximum_calibration_error,
    overconfidence_error,
    root_mean_square_calibration_error,
    total_error,
)
from calmix.calibration.metrics.kolmogorov import ks_calibration_test
from calmix.calibration.metrics.notions import calibration_error
from calmix.calibration.metrics.scores import brier_decomposition, brier_score, negative_log_likelihood
from calmix.calibration.metrics.smooth import smooth_calibration_error
from calmix.calibration.predictions import Predictions
from calmix.calibration.uncertainty.intervals import calibration_error_interval

SCALES = [1e-300, 1e-160, 1e-3, 3.0, 1e20, 1e160, 1e300]


def ks_error(confidence, correct, weights=None):
    return ks_calibration_test(confidence, correct, weights=weights).error


def ks_p_value(confidence, correct, weights=None):
    return ks_calibration_test(confidence, correct, weights=weights).p_value


def total_calibration_error(confidence, correct, *, bins=10, closed="left", weights=None):
    return total_error(equal_width_sums(confidence, correct, bins=bins, closed=closed, weights=weights))


POINT_VALUES = [
    expected_calibration_error,
    maximum_calibration_error,
    root_mean_square_calibration_error,
    overconfidence_error,
    total_calibration_error,
    adaptive_calibration_error,
    ks_error,
]
ONE_SHOT = [*POINT_VALUES, debiased_calibration_error, smooth_calibration_error, ks_p_value]
OF_SCORES = [
    negative_log_likelihood,
    brier_score,
    lambda *rows, **given: brier_decomposition(*rows, **given).calibration,
    lambda *rows, **given: calibration_error(*rows, notion="classwise", **given),
    calibration_error,
]


def binned(confidence, correct, weights=None):
    return BinnedCalibration(bins=10).update(confidence, correct, weights)


@pytest.fixture
def sample():
    generator = np.random.default_rng(7)
    confidence = generator.integers(0, 51, 400) / 50
    return confidence, generator.random(400) < confidence**1.3, generator.integers(0, 4, 400).astype(float)


@pytest.mark.parametrize("scale", SCALES)
def test_the_scale_of_the_weights_changes_nothing(sample, scale):
    confidence, correct, weights = sample
    for metric in ONE_SHOT:
        expected = metric(confidence, correct, weights=weights)
        assert metric(confidence, correct, weights=scale * weights) == pytest.approx(expected, rel=1e-9)
    assert binned(confidence, correct, scale * weights).compute() == pytest.approx(
        binned(confidence, correct, weights).compute(), rel=1e-9
    )
    found = calibration_error_interval(confidence, correct, weights=scale * weights)
    expected = calibration_error_interval(confidence, correct, weights=weights)
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high), rel=1e-6)


@pytest.mark.parametrize("scale", SCALES)
def test_the_scale_of_the_weights_changes_no_metric_of_scores(scale):
    generator = np.random.default_rng(8)
    scores, labels = generator.dirichlet(np.ones(3), 300), generator.integers(0, 3, 300)
    weights = generator.random(300)
    for metric in OF_SCORES:
        expected = metric(scores, labels, from_logits=False, weights=weights)
        assert metric(scores, labels, from_logits=False, weights=scale * weights) == pytest.approx(
            expected, rel=1e-9
        )
    streamed = PredictionMetrics(3).update(Predictions.from_probabilities(scores, labels), weights)
    scaled = PredictionMetrics(3).update(Predictions.from_probabilities(scores, labels), scale * weights)
    assert scaled.compute() == pytest.approx(streamed.compute(), rel=1e-9)


def test_rows_of_weight_zero_change_nothing_in_any_metric(sample):
    confidence, correct, weights = sample
    held = weights > 0
    for metric in ONE_SHOT:
        expected = metric(confidence[held], correct[held], weights=weights[held])
        assert metric(confidence, correct, weights=weights) == pytest.approx(expected, rel=1e-9, abs=1e-12)
    found, expected = (
        binned(confidence, correct, weights),
        binned(confidence[held], correct[held], weights[held]),
    )
    assert found.compute() == pytest.approx(expected.compute(), rel=1e-12)
    interval = calibration_error_interval(confidence, correct, weights=weights)
    without = calibration_error_interval(confidence[held], correct[held], weights=weights[held])
    assert (interval.low, interval.high) == pytest.approx((without.low, without.high), rel=1e-9)


def test_whole_weights_are_repeated_rows(sample):
    confidence, correct, weights = sample
    times = weights.astype(int)
    for metric in POINT_VALUES:
        expected = metric(np.repeat(confidence, times), np.repeat(correct, times))
        assert metric(confidence, correct, weights=weights) == pytest.approx(expected, rel=1e-9)


@given(
    cuts=st.lists(st.integers(0, 60), max_size=6),
    seed=st.integers(0, 1000),
    exponent=st.sampled_from([0, -200, 160, 290]),
    later=st.sampled_from([0, 150]),
)
@settings(max_examples=60, deadline=None)
def test_weighted_streams_are_the_one_shot_values(cuts, seed, exponent, later):
    """Wherever the stream is cut, also where a piece holds no weight at all or far larger ones."""
    generator = np.random.default_rng(seed)
    confidence, correct = generator.random(60), generator.random(60) < 0.6
    weights = generator.integers(0, 3, 60) * 10.0**exponent
    weights[10:20] = 0.0
    weights[40:] *= 10.0 ** (later if exponent <= 0 else 0)
    weights[0] = max(weights[0], 10.0**exponent)
    probabilities, labels = np.stack([1 - confidence, confidence], 1), correct.astype(int)
    stream, shards = BinnedCalibration(bins=10), [ClasswiseCalibration(2), ClasswiseCalibration(2)]
    edges = sorted({0, 10, 20, 60, *cuts})
    for place, (start, stop) in enumerate(pairwise(edges)):
        part = slice(start, stop)
        stream.update(confidence[part], correct[part], weights[part])
        shards[place % 2].update(probabilities[part], labels[part], weights[part])
    found = stream.compute()
    assert found["ece"] == pytest.approx(
        expected_calibration_error(confidence, correct, bins=10, weights=weights), rel=1e-9
    )
    assert found["rmsce"] == pytest.approx(
        root_mean_square_calibration_error(confidence, correct, bins=10, weights=weights), rel=1e-9
    )
    assert found["n"] == np.count_nonzero(weights)
    assert shards[0].merge(shards[1]).compute()["classwise_ece"] == pytest.approx(
        classwise_calibration_error(probabilities, labels, weights=weights), rel=1e-9
    )


def test_a_batch_of_padding_is_allowed_and_a_stream_of_it_is_empty():
    rows = Predictions.from_probabilities([[0.9, 0.1], [0.4, 0.6]], [0, 0])
    metric = PredictionMetrics(2).update(rows, [0.0, 0.0])
    with pytest.raises(ValueError, match="no rows"):
        metric.compute()
    assert metric.update(rows).compute()["n"] == 2
    stream = BinnedCalibration().update([0.9], [1], [0.0])
    with pytest.raises(ValueError, match="no rows"):
        stream.compute()
    assert stream.update([0.8], [1]).compute()["ece"] == pytest.approx(0.2)
    with pytest.raises(ValueError, match="all 0"):
        expected_calibration_error([0.9], [1], weights=[0.0])


@pytest.mark.parametrize("scale", [0.1, 1.0, 37.0, 1e160])
def test_a_weighted_reliability_diagram_has_its_accuracy_within_its_limits(scale):
    generator = np.random.default_rng(9)
    confidence = generator.random(300)
    correct, weights = generator.random(300) < confidence, scale * generator.exponential(1.0, 300)
    diagram = binned(confidence, correct, weights).reliability()
    assert (diagram.accuracy_low <= diagram.accuracy).all()
    assert (diagram.accuracy <= diagram.accuracy_high).all()
    assert (diagram.accuracy_high - diagram.accuracy_low < 0.9).all()


def test_equal_weights_of_any_size_give_the_unweighted_diagram():
    from scipy.stats import beta

    confidence, correct = np.full(20, 0.75), np.arange(20) < 14
    for weight in (0.2, 1.0, 5.0):
        diagram = binned(confidence, correct, np.full(20, weight)).reliability()
        assert diagram.accuracy_low[7] == pytest.approx(beta.ppf(0.025, 14, 7))
        assert diagram.accuracy_high[7] == pytest.approx(beta.ppf(0.975, 15, 6))
    # One row counts for as much as all the others: fewer rows, as it were, and wider limits.
    uneven = binned(confidence, correct, np.where(np.arange(20) == 0, 19.0, 1.0)).reliability()
    assert uneven.accuracy_low[7] < 0.3
    assert np.isnan(uneven.accuracy[0])


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_the_log_loss_does_not_depend_on_the_type_of_the_numbers(dtype):
    """All values are exact in half precision, the probability 0 among them."""
    probabilities = np.array([[1.0, 0.0], [0.25, 0.75], [0.5, 0.5], [0.0, 1.0]], dtype=dtype)
    labels, logits = [0, 1, 0, 0], np.array([[8.0, -8.0], [0.5, -2.0], [60.0, 0.0], [0.0, 0.0]], dtype=dtype)
    floor = -np.log(np.finfo(np.float64).eps)
    expected = (floor - np.log(0.75) - np.log(0.5)) / 4
    assert negative_log_likelihood(probabilities, labels, from_logits=False) == pytest.approx(
        expected, rel=1e-14
    )
    rows = Predictions.from_probabilities(probabilities, labels)
    assert PredictionMetrics(2).update(rows).compute()["nll"] == pytest.approx(expected, rel=1e-14)
    reference = np.logaddexp(logits[:, 0].astype(float), logits[:, 1].astype(float))
    reference = reference - logits[np.arange(4), labels]
    assert negative_log_likelihood(logits, labels, from_logits=True) == pytest.approx(
        reference.mean(), rel=1e-14
    )
