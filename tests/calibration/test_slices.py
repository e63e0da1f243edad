"""Slices: each is `evaluate` of its own rows, and the worst one is named no more often than chance allows."""

import numpy as np
import pytest
from scipy.stats import fisher_exact

from calmix.calibration.evaluation import evaluate
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
