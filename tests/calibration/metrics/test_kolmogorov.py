"""The Kolmogorov-Smirnov error against a loop, and its test's p-value against simulation."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calmix.calibration.metrics.kolmogorov import excursion_tail, ks_calibration_test

rows = st.lists(
    st.tuples(st.sampled_from([0.0, 0.2, 0.5, 0.7, 0.9, 1.0]), st.booleans()), min_size=1, max_size=40
)


@given(rows)
def test_the_error_is_the_largest_running_sum_at_the_end_of_a_tie(sample):
    confidence, correct = (np.array(column, dtype=float) for column in zip(*sample, strict=True))
    largest = max(
        abs(sum(correct[confidence <= value] - confidence[confidence <= value])) for value in set(confidence)
    )
    found = ks_calibration_test(confidence, correct)
    assert found.error == pytest.approx(largest / len(sample), abs=1e-9)
    assert 0 <= found.p_value <= 1


@given(rows, st.randoms())
def test_the_order_of_the_rows_changes_nothing(sample, random):
    shuffled = list(sample)
    random.shuffle(shuffled)
    first = ks_calibration_test(*zip(*sample, strict=True))
    second = ks_calibration_test(*zip(*shuffled, strict=True))
    assert second.error == pytest.approx(first.error, abs=1e-9)
    assert second.p_value == pytest.approx(first.p_value, abs=1e-6)


def test_probmetrics_agrees_where_there_are_no_ties():
    torch = pytest.importorskip("torch")
    metrics = pytest.importorskip("probmetrics.metrics")
    generator = np.random.default_rng(0)
    positive = generator.random(2000)
    happened = generator.random(2000) < positive**1.3
    found = metrics.KolmogorovSmirnovCalibrationMetric().compute_all_from_labels_probs(
        torch.as_tensor(happened.astype(np.int64)),
        torch.as_tensor(np.stack([1 - positive, positive], axis=1)),
    )
    expected = float(next(iter(found.values())))
    assert ks_calibration_test(positive, happened).error == pytest.approx(expected, abs=1e-5)  # float32


def test_p_values_of_true_confidences_are_uniform():
    generator = np.random.default_rng(1)
    confidence = generator.beta(3, 1.5, 2000)
    p_values = np.array(
        [ks_calibration_test(confidence, generator.random(2000) < confidence).p_value for _ in range(2000)]
    )
    for level in (0.05, 0.2, 0.5):
        # Three standard errors of 2,000 draws, and a little for the steps of a finite walk.
        assert (p_values <= level).mean() == pytest.approx(
            level, abs=3 * np.sqrt(level * (1 - level) / 2000) + 0.02
        )


def test_wrong_confidences_are_rejected():
    generator = np.random.default_rng(2)
    confidence = generator.uniform(0.5, 1, 5000)
    found = ks_calibration_test(confidence, generator.random(5000) < confidence - 0.1)
    assert found.error == pytest.approx(0.1, abs=0.03)
    assert found.p_value < 1e-6


def test_the_tail_of_the_excursion_is_that_of_brownian_motion():
    # P(max |W| >= a) to two decimals from the reflection principle, 4 (1 - Phi(a)) for large a.
    from scipy.stats import norm

    for height in (2.5, 3.0, 3.5):
        assert excursion_tail(height, 1.0) == pytest.approx(4 * norm.sf(height), rel=1e-4)
    assert excursion_tail(0.0, 1.0) == 1.0
    assert excursion_tail(1.0, 0.0) == 0.0
    assert excursion_tail(0.05, 1.0) == pytest.approx(1.0, abs=1e-9)


def test_certain_rows_that_come_true_are_perfect_and_those_that_do_not_impossible():
    assert ks_calibration_test([1.0, 0.0], [1, 0]).p_value == 1.0
    assert ks_calibration_test([1.0, 1.0], [1, 0]).p_value == 0.0


def test_weights_are_repeated_rows_in_the_error():
    generator = np.random.default_rng(3)
    confidence, times = generator.random(100), generator.integers(1, 4, 100)
    correct = generator.random(100) < 0.5
    weighted = ks_calibration_test(confidence, correct, weights=times).error
    repeated = ks_calibration_test(np.repeat(confidence, times), np.repeat(correct, times)).error
    assert weighted == pytest.approx(repeated, abs=1e-12)


def absorbed_tail(height):
    """The law of max |W| from an independent series: a sum over images, in many digits."""
    mpmath = pytest.importorskip("mpmath")
    with mpmath.mp.workdps(60):
        step = mpmath.mpf(height) / mpmath.sqrt(2)
        return float(2 * sum((-1) ** j * mpmath.erfc((2 * j + 1) * step) for j in range(400)))


@pytest.mark.parametrize("height", [0.05, 0.2, 0.5, 0.99, 0.999999, 1.0, 1.1, 2.0, 3.0, 6.0, 12.0, 30.0])
def test_the_tail_is_right_over_its_whole_range(height):
    assert excursion_tail(height * 7.0, 7.0) == pytest.approx(absorbed_tail(height), rel=1e-12, abs=1e-300)


def test_the_tail_never_rises_and_reaches_zero():
    tails = [excursion_tail(height, 1.0) for height in np.geomspace(1e-4, 1e4, 4001)]
    assert (np.diff(tails) <= 1e-15).all()
    assert tails[0] == 1.0
    assert tails[-1] == 0.0


def test_a_million_overconfident_rows_have_a_p_value_of_zero():
    confidence = np.linspace(0.55, 0.95, 1_000_000)
    correct = np.random.default_rng(4).random(1_000_000) < confidence - 0.3
    assert ks_calibration_test(confidence, correct).p_value == 0.0


def test_evaluate_reports_the_p_value_of_zero():
    from calmix.calibration.evaluation import evaluate
    from calmix.calibration.predictions import Predictions

    confidence = np.linspace(0.55, 0.95, 20_000)
    labels = np.random.default_rng(5).random(20_000) > confidence - 0.3
    rows = Predictions.from_probabilities(np.stack([confidence, 1 - confidence], 1), labels)
    assert evaluate(rows)["ks_p_value"] < 1e-300


def test_heavy_weights_do_not_overflow():
    generator = np.random.default_rng(6)
    confidence, weights = generator.random(500), generator.exponential(1.0, 500)
    correct = generator.random(500) < confidence**1.2
    expected = ks_calibration_test(confidence, correct, weights=weights)
    for scale in (1e-200, 1e160, 1e300):
        found = ks_calibration_test(confidence, correct, weights=scale * weights)
        assert found.p_value == pytest.approx(expected.p_value, rel=1e-9)
        assert found.error == pytest.approx(expected.error, rel=1e-9)
