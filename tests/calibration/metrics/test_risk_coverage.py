"""Risk-coverage areas against loops over ranks and over all orders of the ties."""

from __future__ import annotations

from itertools import pairwise, permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score

from calmix.calibration.metrics.risk_coverage import (
    area_under_generalised_risk_coverage,
    area_under_risk_coverage,
    excess_area_under_risk_coverage,
    risk_coverage_curve,
)

tied_rows = st.lists(st.tuples(st.sampled_from([0.3, 0.6, 0.9]), st.booleans()), min_size=1, max_size=6)
AREAS = (area_under_risk_coverage, excess_area_under_risk_coverage, area_under_generalised_risk_coverage)


def areas_of_order(correct) -> tuple[float, float]:
    """AURC, and AUGRC by trapezoids, of rows in one order, the surest first."""
    n, errors, risk, joint = len(correct), 0, 0.0, 0.0
    for k, y in enumerate(correct, start=1):
        joint += (errors + (errors + (1 - y))) / 2 / n / n
        errors += 1 - y
        risk += errors / k / n
    return risk, joint


@settings(max_examples=60)
@given(tied_rows)
def test_the_areas_are_the_mean_over_all_orders_of_the_ties(sample):
    orders = [
        [y for _, y in order]
        for order in permutations(sample)
        if all(first[0] >= second[0] for first, second in pairwise(order))
    ]
    aurc, augrc = np.mean([areas_of_order(order) for order in orders], axis=0)
    best, _ = areas_of_order(sorted((y for _, y in sample), reverse=True))
    found = [area(*zip(*sample, strict=True)) for area in AREAS]
    assert found == pytest.approx([aurc, aurc - best, augrc], abs=1e-9)


def test_the_areas_without_ties_are_their_sums():
    generator = np.random.default_rng(0)
    confidence = generator.random(2000)
    correct = generator.random(2000) < confidence
    aurc, augrc = areas_of_order(correct[np.argsort(-confidence)].astype(int))
    assert area_under_risk_coverage(confidence, correct) == pytest.approx(aurc, abs=1e-9)
    assert area_under_generalised_risk_coverage(confidence, correct) == pytest.approx(augrc, abs=1e-9)


@given(st.lists(st.tuples(st.integers(0, 9), st.booleans()), min_size=2, max_size=80))
def test_augrc_is_the_formula_with_the_auroc_of_correctness(sample):
    score, correct = (np.array(column) for column in zip(*sample, strict=True))
    accuracy = correct.mean()
    auroc = roc_auc_score(correct, score) if 0 < accuracy < 1 else 0.5
    expected = accuracy * (1 - accuracy) * (1 - auroc) + (1 - accuracy) ** 2 / 2
    assert area_under_generalised_risk_coverage(score, correct) == pytest.approx(expected, abs=1e-9)


@given(tied_rows, st.randoms())
def test_order_and_increasing_maps_change_nothing(sample, random):
    shuffled = list(sample)
    random.shuffle(shuffled)
    confidence, correct = (np.array(column, dtype=float) for column in zip(*shuffled, strict=True))
    for area in AREAS:
        plain = area(*zip(*sample, strict=True))
        assert area(confidence, correct) == pytest.approx(plain, abs=1e-12)
        assert area(np.exp(5 * confidence) - 3, correct) == pytest.approx(plain, abs=1e-12)


def test_the_curve_is_accuracy_above_each_threshold():
    generator = np.random.default_rng(1)
    confidence = generator.random(300).round(2)
    correct = generator.random(300) < confidence
    curve = risk_coverage_curve(confidence, correct)
    assert curve.threshold.tolist() == sorted(set(confidence), reverse=True)
    for threshold, coverage, risk in zip(curve.threshold, curve.coverage, curve.risk, strict=True):
        accepted = confidence >= threshold
        assert coverage == pytest.approx(accepted.mean(), abs=1e-12)
        assert risk == pytest.approx(1 - correct[accepted].mean(), abs=1e-12)


def test_a_useless_confidence_has_the_error_rate_as_its_area():
    correct = np.repeat([1, 0], [70, 30])
    assert area_under_risk_coverage(np.full(100, 0.7), correct) == pytest.approx(0.3, abs=1e-12)
    assert area_under_generalised_risk_coverage(np.full(100, 0.7), correct) == pytest.approx(0.15, abs=1e-12)


@pytest.mark.parametrize(
    ("confidence", "correct", "message"),
    [
        ([], [], "non-empty"),
        ([np.nan, 0.5], [1, 0], "finite"),
        ([np.inf], [1], "finite"),
        ([[0.5]], [1], "shape"),
        ([0.5], [1, 0], "shape"),
        ([0.5], [2], "0 or 1"),
    ],
)
def test_what_makes_no_sense_is_refused(confidence, correct, message):
    for area in (*AREAS, risk_coverage_curve):
        with pytest.raises(ValueError, match=message):
            area(confidence, correct)
