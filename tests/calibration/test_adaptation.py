"""Recalibration from a few labelled rows: what it gains, when it keeps the source fit, and what it doubts."""

import numpy as np
import pytest
from scipy.special import softmax

from calmix.calibration.adaptation import LabelledLogits, adapt_predictions, gain_of
from calmix.calibration.predictions import Predictions


def drawn(count, temperature=1.0, bias=(0.0, 0.0, 0.0), seed=0):
    generator = np.random.default_rng(seed)
    logits = 2 * generator.normal(size=(count, 3))
    chances = softmax(logits / temperature + np.array(bias), axis=1)
    labels = (chances.cumsum(axis=1) < generator.random((count, 1))).sum(axis=1)
    return Predictions.from_logits(logits, labels, class_names=("a", "b", "c"))


def true_gain(found, temperature, bias):
    test = LabelledLogits.of(drawn(20_000, temperature, bias, seed=99), biases=True)
    parameters = np.concatenate([[1 / found.calibrator.temperature_], found.calibrator.bias_])
    return test.losses(parameters).mean() - test.losses().mean()


def test_a_shift_is_found_and_the_interval_holds_the_true_gain():
    shift = (2.5, (1.0, -0.5, -0.5))
    found = adapt_predictions(drawn(200, *shift))
    assert not found.kept_source and found.gain.high < 0
    assert found.gain.low <= true_gain(found, *shift) <= found.gain.high
    assert 1.7 < found.calibrator.temperature_ < 3.5
    assert "better than the source calibration" in found.sentence()


@pytest.mark.simulates
def test_without_a_shift_the_source_fit_is_kept_more_often_than_not_and_little_is_lost():
    losses, kept = [], 0
    for seed in range(20):
        found = adapt_predictions(drawn(50, seed=seed))
        kept += found.kept_source
        losses.append(true_gain(found, 1.0, (0.0, 0.0, 0.0)))
    assert kept >= 12
    assert np.mean(losses) < 0.02


@pytest.mark.simulates
def test_few_rows_of_a_shifted_domain_gain_on_average():
    """The rule keeps the source fit only where the mean is no gain: a stricter one forgoes this."""
    gains, significant = [], []
    for seed in range(20):
        found = adapt_predictions(drawn(25, 2.0, seed=seed))
        gains.append(true_gain(found, 2.0, (0.0, 0.0, 0.0)))
        significant.append(gains[-1] if found.gain.high < 0 else 0.0)
    assert np.mean(gains) < -0.02
    assert np.mean(significant) > np.mean(gains)


def test_every_row_is_measured_by_a_fit_that_it_had_no_part_in():
    predictions = drawn(60, 3.0)
    found = adapt_predictions(predictions)
    assert not found.kept_source
    in_sample = found.calibrator.transform(predictions)
    assert not np.allclose(found.held_out.values, in_sample)
    np.testing.assert_array_equal(found.held_out.labels, predictions.labels)


def test_equal_weights_are_no_weights_and_doubled_rows_are_weight_two():
    predictions = drawn(80, 2.5)
    one, other = (adapt_predictions(predictions, weights=weights) for weights in (None, np.full(80, 7.0)))
    assert one.calibrator.temperature_ == pytest.approx(other.calibrator.temperature_, abs=1e-9)
    assert one.gain.nll == pytest.approx(other.gain.nll, abs=1e-12)
    differences, weights = np.array([-1.0, 0.5, 2.0]), np.array([2.0, 1.0, 1.0])
    assert gain_of(differences, weights).nll == pytest.approx(np.mean([-1.0, -1.0, 0.5, 2.0]))


def test_one_class_only_fits_no_bias_and_says_so():
    predictions = drawn(400, 2.0)
    only = predictions.select(np.flatnonzero(predictions.labels == 1)[:30])
    found = adapt_predictions(only)
    assert not found.calibrator.bias_.any()
    assert any("all rows have the class 'b'" in note for note in found.notes)


def test_missing_classes_and_contradicting_labels_are_named():
    predictions = drawn(400, 0.5)
    some = predictions.select(np.flatnonzero(predictions.labels != 2)[:30])
    assert any("no row has the class 'c'" in note for note in adapt_predictions(some).notes)
    wrong = Predictions.from_logits(some.values, some.values.argmin(axis=1), class_names=some.class_names)
    notes = adapt_predictions(wrong).notes
    assert any("the labels are wrong" in note for note in notes)


def test_too_few_rows_are_refused():
    with pytest.raises(ValueError, match="4 rows are too few"):
        adapt_predictions(drawn(4))


def test_what_is_printed_of_the_rows_agrees_with_the_gain():
    """The rows by one of the repeats: that whose gain is closest to the mean of all of them."""
    for seed in range(6):
        predictions = drawn(40, 1.3, seed=seed)
        found = adapt_predictions(predictions, seed=seed)
        if not found.kept_source:
            after = -found.held_out.gold_log_probability().mean()
            before = -predictions.gold_log_probability().mean()
            assert abs(after - before - found.gain.nll) < 0.5 * found.gain.standard_error


def test_weights_and_soft_labels_of_the_rows_count():
    predictions = drawn(90, 2.5)
    weights = np.random.default_rng(0).uniform(0.2, 3, 90)
    own, given = predictions.with_rows(weights=weights), adapt_predictions(predictions, weights=weights)
    found = adapt_predictions(own)
    assert found.penalty == given.penalty
    assert found.gain == given.gain
    assert found.calibrator.temperature_ == pytest.approx(given.calibrator.temperature_, abs=1e-9)
    np.testing.assert_array_equal(found.held_out.weights, weights)
    both = adapt_predictions(own, weights=np.full(90, 5.0))
    assert both.gain.nll == pytest.approx(given.gain.nll, abs=1e-12)
    # Soft labels that are hard ones; and those of a temperature of 2.5, which leave nothing to chance.
    hard = adapt_predictions(predictions.with_rows(targets=np.eye(3)[predictions.labels]))
    assert hard.gain.nll == pytest.approx(adapt_predictions(predictions).gain.nll, abs=1e-9)
    soft = predictions.with_rows(targets=softmax(predictions.values / 2.5, axis=1))
    found = adapt_predictions(soft)
    assert found.penalty == 0.3 and found.gain.high < 0
    assert found.calibrator.temperature_ == pytest.approx(2.5, abs=0.05)
