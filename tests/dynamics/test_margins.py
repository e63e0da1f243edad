import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from calmix.dynamics.margins import observe

ORACLE_LOGITS = np.array([[2.0, 1.0, 0.0], [0.0, 3.0, 1.0], [1.0, 1.0, 4.0], [0.5, 0.0, -0.5]])
ORACLE_LABELS = np.array([0, 2, 2, 1])


def slow_margin(logits, label):
    return logits[label] - max(value for k, value in enumerate(logits) if k != label)


def slow_probability(logits, label):
    top = max(logits)
    return math.exp(logits[label] - top) / math.fsum(math.exp(value - top) for value in logits)


MODERATE = st.floats(-50, 50, width=32)


@st.composite
def batches(draw, value=MODERATE):
    rows, classes = draw(st.integers(1, 8)), draw(st.integers(2, 7))
    logits = draw(arrays(np.float64, (rows, classes), elements=value))
    labels = draw(arrays(np.int64, rows, elements=st.integers(0, classes - 1)))
    return logits, labels


def test_the_margins_of_the_hand_computed_rows():
    assert observe(ORACLE_LOGITS, ORACLE_LABELS).margin.tolist() == [1, -2, 3, -0.5]


def test_the_gold_probabilities_of_the_hand_computed_rows():
    # 1 - p_y of these rows, from the closed form of the saliency |p - e_y|.
    expected = 1 - np.array([0.33475904, 0.8858048, 0.090557, 0.69280411])
    np.testing.assert_allclose(observe(ORACLE_LOGITS, ORACLE_LABELS).gold_probability, expected, atol=5e-9)


@given(batches())
def test_agrees_with_a_loop_over_the_formula(batch):
    logits, labels = batch
    seen = observe(logits, labels)
    for row, label in enumerate(labels):
        assert seen.margin[row] == slow_margin(logits[row], label)
        assert seen.gold_probability[row] == pytest.approx(slow_probability(logits[row], label), rel=1e-12)
        assert seen.predicted[row] == int(np.argmax(logits[row]))


@given(batches(value=st.integers(-1000, 1000).map(float)), st.integers(-(10**6), 10**6))
def test_a_constant_added_to_all_logits_changes_nothing(batch, shift):
    logits, labels = batch  # integers, so that the shift itself is exact
    here, there = observe(logits, labels), observe(logits + shift, labels)
    for before, after in zip(here, there, strict=True):
        np.testing.assert_array_equal(before, after)


@given(batches(), st.randoms(use_true_random=False))
def test_the_order_of_the_rows_does_not_matter(batch, random):
    logits, labels = batch
    order = list(range(len(labels)))
    random.shuffle(order)
    for one, other in zip(observe(logits, labels), observe(logits[order], labels[order]), strict=True):
        np.testing.assert_array_equal(one[order], other)


@given(batches())
@settings(max_examples=25)
def test_a_positive_margin_means_predicted_right(batch):
    logits, labels = batch
    seen = observe(logits, labels)
    assert (seen.predicted[seen.margin > 0] == labels[seen.margin > 0]).all()
    assert (seen.predicted[seen.margin < 0] != labels[seen.margin < 0]).all()


def test_a_tie_for_the_largest_logit_has_margin_zero_and_the_lowest_index_predicted():
    seen = observe([[1.0, 1.0, 0.0], [1.0, 1.0, 0.0]], [0, 1])
    assert seen.margin.tolist() == [0, 0]
    assert seen.predicted.tolist() == [0, 0]


def test_half_precision_logits_near_the_limits_stay_finite():
    logits = np.array([[65504.0, -65504.0], [-65504.0, 65504.0]], dtype=np.float16)
    seen = observe(logits, [0, 0])
    assert seen.margin.tolist() == [131008.0, -131008.0]
    assert seen.gold_probability.tolist() == [1.0, 0.0]


def test_the_probability_keeps_what_float32_would_round_to_one():
    logits = np.array([[20.0, 0.0], [21.0, 0.0]], dtype=np.float32)
    low, high = observe(logits, [0, 0]).gold_probability
    assert low < high < 1


@pytest.mark.parametrize(
    ("logits", "labels", "message"),
    [
        ([[1.0, float("nan")]], [0], "row 0 of the batch is"),
        ([[1.0, 0.0], [float("inf"), 0.0]], [0, 0], "row 1 of the batch is"),
        ([1.0, 2.0], [0], "at least two classes, got shape \\(2,\\)"),
        ([[1.0]], [0], "at least two classes"),
        ([[1.0, 2.0]], [2], "must lie in 0..1, got 2..2"),
        ([[1.0, 2.0]], [-1], "must lie in 0..1, got -1..-1"),
        ([[1.0, 2.0]], [0.0], "labels must be 1 integers"),
        ([[1.0, 2.0]], [0, 1], "labels must be 1 integers"),
    ],
)
def test_bad_input_is_refused_with_the_reason(logits, labels, message):
    with pytest.raises(ValueError, match=message):
        observe(logits, labels)


def test_large_finite_logits_whose_sum_overflows_are_accepted():
    assert observe([[1.5e308, 1.4e308]], [0]).margin[0] == pytest.approx(1e307)
