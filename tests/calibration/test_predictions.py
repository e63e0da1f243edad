"""Predictions know what they are, stay exact where float32 and softmax do not, and refuse nonsense."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import log_softmax, softmax

from calmix.calibration.predictions import Predictions


def made(rows: int = 40, classes: int = 3, scale: float = 4.0, seed: int = 0) -> Predictions:
    generator = np.random.default_rng(seed)
    logits = scale * generator.standard_normal((rows, classes))
    return Predictions.from_logits(logits, generator.integers(0, classes, rows))


@given(st.floats(0.01, 300.0), st.floats(-1e4, 1e4))
def test_logits_are_read_as_scipy_reads_them_and_a_shift_changes_nothing(scale, shift):
    predictions = made(scale=scale)
    shifted = Predictions.from_logits(predictions.values + shift, predictions.labels)
    assert predictions.log_probabilities() == pytest.approx(log_softmax(predictions.values, axis=1), abs=1e-9)
    assert predictions.probabilities() == pytest.approx(softmax(predictions.values, axis=1), abs=1e-12)
    assert shifted.log_probabilities() == pytest.approx(predictions.log_probabilities(), abs=1e-8)
    rows = np.arange(len(predictions))
    gold = predictions.log_probabilities()[rows, predictions.labels]
    assert predictions.gold_log_probability() == pytest.approx(gold, abs=1e-9)
    assert predictions.confidence() == pytest.approx(predictions.probabilities().max(axis=1), abs=1e-12)
    assert np.exp(predictions.log_confidence()) == pytest.approx(predictions.confidence(), abs=1e-12)


def test_ties_go_to_the_lowest_class():
    assert Predictions.from_logits([[1.0, 1.0, 0.0]], [0]).predicted().tolist() == [0]


def test_half_precision_is_widened_before_anything_is_computed():
    logits = np.array([[10.0, -10.0], [0.1, 0.2]], dtype=np.float16)
    predictions = Predictions.from_logits(logits, [0, 1])
    assert predictions.values.dtype == np.float32
    assert predictions.probabilities().dtype == np.float64
    assert predictions.probabilities() == pytest.approx(softmax(logits.astype(np.float64), axis=1), abs=1e-15)


def test_log_confidence_still_ranks_rows_whose_confidence_is_exactly_one():
    logits = np.zeros((3, 2))
    logits[:, 1] = [50.0, 100.0, 300.0]
    predictions = Predictions.from_logits(logits, [1, 1, 1])
    assert predictions.confidence().tolist() == [1.0, 1.0, 1.0]
    assert (np.diff(predictions.log_confidence()) > 0).all()
    probabilities = np.array([[1e-20, 1.0], [1e-30, 1.0]])
    assert np.diff(Predictions.from_probabilities(probabilities, [1, 1]).log_confidence()) > 0


def test_temperature_divides_logits_and_takes_probabilities_as_log_odds():
    predictions = made()
    by_hand = softmax(predictions.values / 2.5, axis=1)
    assert predictions.with_temperature(2.5).probabilities() == pytest.approx(by_hand, abs=1e-12)
    same = Predictions.from_probabilities(predictions.probabilities(), predictions.labels)
    assert same.with_temperature(2.5).probabilities() == pytest.approx(by_hand, abs=1e-9)
    assert (predictions.with_temperature(7.0).predicted() == predictions.predicted()).all()
    for temperature in (0.0, -1.0, np.nan, np.inf):
        with pytest.raises(ValueError, match="temperature"):
            predictions.with_temperature(temperature)


def test_a_probability_of_zero_for_the_label_stays_finite():
    predictions = Predictions.from_probabilities([[1.0, 0.0]], [1])
    assert predictions.gold_log_probability()[0] == pytest.approx(np.log(np.finfo(np.float64).eps))


def test_select_and_rows_keep_ids_and_labels_together():
    predictions = Predictions.from_logits([[0, 1], [2, 3], [4, 5]], [0, 1, 0], ids=["a", "b", "c"])
    chosen = predictions.select([2, 0])
    assert (chosen.ids.tolist(), chosen.labels.tolist(), chosen.values[0].tolist()) == (
        ["c", "a"],
        [0, 0],
        [4, 5],
    )
    assert predictions.rows(1, 3).ids.tolist() == ["b", "c"]


@pytest.mark.parametrize(
    ("scores", "labels", "problem"),
    [
        ([[0.5, np.nan]], [0], "finite"),
        ([[0.5, np.inf]], [0], "finite"),
        ([[1.2, -0.2]], [0], "negative"),
        ([[0.5, 0.4]], [0], "sum to 1"),
        ([[0.5, 0.5]], [2], "outside 0..1"),
        ([[0.5, 0.5]], [-1], "outside 0..1"),
        ([[0.5, 0.5]], [0.5], "class indices"),
        ([[0.5, 0.5]], [np.nan], "class indices"),
        ([[0.5, 0.5]], [0, 1], "1 rows of scores but 2 labels"),
        ([[0.5, 0.5]], [[0]], "shape"),
        ([[[0.5, 0.5]]], [0], "shape"),
        ([0.5, 1.5], [0, 1], r"must lie in \[0, 1\], not 1.5 \(row 1\)"),
        ([[0.5, 0.5]], ["b"], "label 'b' is none of the classes 0, 1"),
        ([[1.0]], [0], "two classes"),
        (np.zeros((0, 2)), [], "empty"),
        ([["a", "b"]], [0], "numbers"),
    ],
)
def test_probabilities_that_make_no_sense_are_refused(scores, labels, problem):
    with pytest.raises(ValueError, match=problem):
        Predictions.from_probabilities(scores, labels)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_logits_must_be_finite_and_the_row_is_named(bad):
    with pytest.raises(ValueError, match=r"finite \(row 1\)"):
        Predictions.from_logits([[0.0, 1.0], [0.0, bad]], [0, 0])


def test_very_large_finite_logits_are_no_error():
    predictions = Predictions.from_logits(np.full((4, 2), 1e308), [0, 0, 0, 0])
    assert predictions.confidence().tolist() == [0.5] * 4


def test_ids_and_class_names_must_fit():
    with pytest.raises(ValueError, match="row ids"):
        Predictions.from_logits([[0, 1]], [0], ids=["a", "b"])
    with pytest.raises(ValueError, match="class names"):
        Predictions.from_logits([[0, 1]], [0], class_names=["a"])


def test_labels_are_names_where_classes_have_names():
    probabilities = [[0.7, 0.3], [0.4, 0.6], [0.2, 0.8]]
    by_name = Predictions.from_probabilities(probabilities, ["dog", "cat", "cat"], class_names=["dog", "cat"])
    assert by_name.labels.tolist() == [0, 1, 1]
    # The classes of a scikit-learn estimator: matched by value, whatever they are.
    for classes, labels in (
        (np.array([1, 2]), [1, 2, 2]),
        (np.array([-1, 1]), [-1, 1, 1]),
        (np.array([False, True]), [False, True, True]),
        ([True, False], [True, False, False]),
        (np.array([1.0, 2.0]), [1, 2, 2]),
        (np.array(["a", "b"], dtype=object), np.array(["a", "b", "b"], dtype=object)),
    ):
        found = Predictions.from_probabilities(probabilities, labels, class_names=classes)
        assert found.labels.tolist() == [0, 1, 1]
    truth = np.array([True, False, False])
    assert Predictions.from_logits(probabilities, truth, class_names=["True", "False"]).labels.tolist() == [
        0,
        1,
        1,
    ]
    with pytest.raises(ValueError, match=r"label 'cow' is none of the classes dog, cat \(row 1\)"):
        Predictions.from_logits(probabilities, ["dog", "cow", "cat"], class_names=["dog", "cat"])
    with pytest.raises(ValueError, match="two classes of one name: a, a"):
        Predictions.from_logits(probabilities, [0, 0, 0], class_names=["a", "a"])


def test_one_score_per_row_is_that_of_the_second_class():
    found = Predictions.from_probabilities(np.array([0.2, 1.0, 1e-300]), [0, 1, 0])
    assert found.probabilities()[:, 1].tolist() == [0.2, 1.0, 1e-300]
    assert found.gold_log_probability()[2] == 0.0
    odds = Predictions.from_logits([0.0, np.log(3.0)], [0, 1])
    assert odds.probabilities()[:, 1] == pytest.approx([0.5, 0.75])


def test_tensors_of_any_kind():
    torch = pytest.importorskip("torch")
    logits = torch.tensor([[0.5, 1.5], [2.0, -1.0]], requires_grad=True)
    labels = torch.tensor([1, 0])
    assert np.array_equal(Predictions.from_logits(logits, labels).values, logits.detach().numpy())
    half = Predictions.from_logits(logits.detach().bfloat16(), labels)
    assert half.values.tolist() == logits.tolist()
    assert Predictions.from_probabilities(torch.sigmoid(logits[:, 0]), labels).classes == 2


def test_nullable_columns_of_pandas():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"a": [0.25, 0.5], "b": [0.75, 0.5]}).astype("Float64")
    labels = pandas.Series([1, 0], dtype="Int64")
    assert Predictions.from_probabilities(frame, labels).values.tolist() == [[0.25, 0.75], [0.5, 0.5]]
    texts = pandas.Series(["b", "a"], dtype="string")
    assert Predictions.from_probabilities(frame, texts, class_names=["a", "b"]).labels.tolist() == [1, 0]
    with pytest.raises(ValueError, match=r"probabilities must be finite \(row 0\)"):
        Predictions.from_probabilities(frame.mask(frame == 0.25), labels)
    with pytest.raises(ValueError, match=r"labels must be class indices, not nan \(row 1\)"):
        Predictions.from_probabilities(frame, labels.mask(labels == 0))


def test_minus_infinity_rules_a_class_out_and_changes_nothing_else():
    logits = np.array([[1.0, 2.0, -np.inf], [0.5, -np.inf, 0.0], [3.0, 1.0, -2.0]])
    labels = [1, 0, 2]
    found = Predictions.from_logits(logits, labels)
    two = Predictions.from_logits([[1.0, 2.0], [0.5, 0.0]], [1, 0])
    assert found.gold_log_probability()[:2] == pytest.approx(two.gold_log_probability(), abs=1e-15)
    assert found.confidence()[:2] == pytest.approx(two.confidence(), abs=1e-15)
    assert found.probabilities()[0, 2] == 0.0
    assert np.isfinite(found.log_probabilities()).all()
    assert np.isfinite(found.with_temperature(2.0).log_confidence()).all()
    # A label that was ruled out counts like any probability of exactly 0.
    assert Predictions.from_logits(logits[:1], [2]).gold_log_probability()[0] == np.log(
        np.finfo(np.float64).eps
    )
    from calmix.calibration.evaluation import evaluate

    assert all(
        np.isfinite(value) for value in evaluate(found, intervals=False).values() if isinstance(value, float)
    )
    with pytest.raises(ValueError, match=r"logits must be finite \(row 1\)"):
        Predictions.from_logits([[0.0, 1.0], [-np.inf, -np.inf]], [0, 0])


@pytest.mark.parametrize("dtype", [object, "str", "string", "category"])
def test_texts_of_a_pandas_column_are_names_whatever_they_look_like(dtype):
    column = pd.Series(["1", "0"], dtype=dtype)
    made = Predictions.from_probabilities([[0.9, 0.1], [0.2, 0.8]], column, class_names=["1", "0"])
    assert made.labels.tolist() == [0, 1]
