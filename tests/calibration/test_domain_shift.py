"""Methods for unlabelled rows, each on a case that its assumption describes, and against a slow reference."""

import itertools
import json

import numpy as np
import pytest
from scipy.special import softmax

from calmix.calibration.domain_shift.catalogue import METHODS, get_shift_method, verdicts
from calmix.calibration.domain_shift.density import (
    DistanceTemperature,
    density_temperature,
    neighbour_distances,
)
from calmix.calibration.domain_shift.label_shift import label_shift, target_shares
from calmix.calibration.domain_shift.lascal import BINS, lascal, share_ratios, shifted_error
from calmix.calibration.domain_shift.pseudo_target import different_pairs, pseudo_target
from calmix.calibration.domain_shift.transferable import domain_weights, target_risk, transferable
from calmix.user_error import UserError


def gaussian_rows(shares, rows, seed):
    """Two classes at -1 and 1 with unit variance; the log-odds for equal shares are 2 x."""
    generator = np.random.default_rng(seed)
    labels = (generator.random(rows) < shares[1]).astype(int)
    x = generator.normal(2 * labels - 1, 1)
    return np.stack([-x, x], axis=1), labels


def test_label_shift_finds_the_shares_and_calibrates():
    _, source_labels = gaussian_rows((0.5, 0.5), 4000, 0)
    logits, labels = gaussian_rows((0.85, 0.15), 6000, 1)
    found = label_shift(source_labels, logits)
    shares = found.predict_proba(logits).mean(axis=0)
    assert shares[1] == pytest.approx(0.15, abs=0.02)
    losses = [
        -np.log(chances[np.arange(len(labels)), labels]).mean()
        for chances in (softmax(logits, axis=1), found.predict_proba(logits))
    ]
    assert losses[1] < losses[0] - 0.05


def test_the_shares_have_no_more_likely_neighbour():
    """A slow search over a grid of shares for the largest likelihood sum_i log sum_k p_ik π_k / s_k."""
    logits, _ = gaussian_rows((0.7, 0.3), 500, 2)
    probabilities, source = softmax(logits, axis=1), np.array([0.5, 0.5])
    grid = np.linspace(0.001, 0.999, 999)
    likelihood = [
        np.log((probabilities * np.array([1 - share, share]) / source).sum(axis=1)).sum() for share in grid
    ]
    best = grid[int(np.argmax(likelihood))]
    assert target_shares(probabilities, source)[1] == pytest.approx(best, abs=2e-3)


def test_pseudo_target_temperature_of_a_constructed_case():
    """Three mixed rows in four keep the class of their larger part at a margin of 2: T = 2 / log 3."""
    logits = np.array([[2.0, 0.0]] * 40)
    found = pseudo_target(logits, np.repeat([0, 1], [30, 10]))
    assert found.temperature_ == pytest.approx(2 / np.log(3), abs=1e-6)
    assert not found.bias_.any()


def test_pairs_differ_in_their_class_and_every_row_is_first_at_most_once():
    predicted = np.random.default_rng(0).integers(0, 3, 200)
    first, second = different_pairs(predicted)
    assert (predicted[first] != predicted[second]).all()
    assert len(set(first.tolist())) == len(first) > 100
    assert not len(different_pairs(np.zeros(5, dtype=int))[0])


def slow_risk(weights, errors, confidence, power):
    """The formulas of the module, row by row."""
    tempered = [weight**power for weight in weights]
    weighted = [a * b for a, b in zip(tempered, errors, strict=True)]

    def mean(values):
        return sum(values) / len(values)

    def covariance(one, other):
        pairs = zip(one, other, strict=True)
        return sum((x - mean(one)) * (y - mean(other)) for x, y in pairs) / (len(one) - 1)

    first = -covariance(weighted, tempered) / covariance(tempered, tempered)
    controlled = [x + first * (y - 1) for x, y in zip(weighted, tempered, strict=True)]
    right = [1 - error for error in errors]
    second = -covariance(controlled, right) / covariance(right, right)
    return mean(weighted) + first * (mean(tempered) - 1) + second * (mean(right) - confidence)


def test_the_risk_is_that_of_a_slow_loop():
    generator = np.random.default_rng(3)
    weights, errors = generator.lognormal(size=60), (generator.random(60) < 0.3).astype(float)
    assert target_risk(weights, errors, 0.8, 0.5) == pytest.approx(slow_risk(weights, errors, 0.8, 0.5))


def test_transferable_temperature_meets_the_estimated_accuracy():
    generator = np.random.default_rng(4)
    source = 2 * generator.normal(size=(800, 3))
    chances = softmax(source, axis=1)
    labels = (chances.cumsum(axis=1) < generator.random((800, 1))).sum(axis=1)
    # Where the target has more of the unsure rows, its accuracy is lower and so must be its confidence.
    weights = np.where(chances.max(axis=1) < 0.7, 2.0, 0.5)
    weights /= weights.mean()
    target = 3 * generator.normal(size=(600, 3))
    found = transferable(source, labels, target, weights)
    errors = (source.argmax(axis=1) != labels).astype(float)
    confidence = softmax(target / found.temperature_, axis=1).max(axis=1).mean()
    risks = [target_risk(weights, errors, chances.max(axis=1).mean(), power) for power in (0.0, 0.5, 1.0)]
    assert 1 - max(risks) - 0.01 <= confidence <= 1 - min(risks) + 0.01


def test_domain_weights_are_density_ratios():
    generator = np.random.default_rng(5)
    source, target = generator.normal(0, 1, (1500, 1)), generator.normal(0.5, 1, (1000, 1))
    expected = np.exp(0.5 * source[:, 0] - 0.125)
    assert np.corrcoef(np.log(domain_weights(source, target)), np.log(expected))[0, 1] > 0.99
    assert domain_weights(source, target).mean() == pytest.approx(1.0, abs=0.15)


def slow_shifted_error(source, labels, target, ratios):
    """The formula of the module, row by row."""
    total = 0.0
    for place in range(target.shape[1]):
        borders = [-1.0, *np.unique(np.quantile(target[:, place], np.arange(1, BINS) / BINS)), 2.0]
        for low, high in itertools.pairwise(borders):
            inside = [row for row in target[:, place] if low < row <= high]
            if len(inside) < 2:
                continue
            true = sum(
                label == place and low < row[place] <= high for row, label in zip(source, labels, strict=True)
            )
            expected = ratios[place] * (len(target) - 1) / len(source) * true / (len(inside) - 1)
            total += sum((row - expected) ** 2 for row in inside)
    return total / target.size


def test_the_error_without_labels_is_that_of_a_slow_loop():
    generator = np.random.default_rng(6)
    source, target = (softmax(2 * generator.normal(size=(rows, 3)), axis=1) for rows in (80, 130))
    labels, ratios = generator.integers(0, 3, 80), np.array([0.5, 1.0, 2.0])
    found = shifted_error(source, labels, target, ratios)
    assert found == pytest.approx(slow_shifted_error(source, labels, target, ratios))


def test_share_ratios_undo_the_errors_of_the_predictions():
    """Predictions that are wrong in a fifth of either class: their shares alone would say 1.36 and 0.64."""
    source, source_labels = gaussian_rows((0.5, 0.5), 20_000, 7)
    target, _ = gaussian_rows((0.8, 0.2), 20_000, 8)
    found = share_ratios(source.argmax(axis=1), source_labels, target.argmax(axis=1), 2)
    np.testing.assert_allclose(found, [1.6, 0.4], atol=0.04)
    assert (share_ratios(source_labels, source_labels, np.zeros(9, dtype=int), 3) >= 0).all()


def test_lascal_finds_the_temperature_of_least_error_under_label_shift():
    """By target labels, which the method does not see: the same classwise squared error."""
    source, source_labels = gaussian_rows((0.5, 0.5), 8000, 9)
    target, labels = gaussian_rows((0.8, 0.2), 8000, 10)
    found = lascal(3 * source, source_labels, 3 * target)

    def true_error(temperature):
        chances = softmax(3 * target / temperature, axis=1)
        return shifted_error(chances, labels, chances, np.ones(2))

    best = min(np.geomspace(0.1, 20, 100), key=true_error)
    assert not found.bias_.any() and found.temperature_ > 2
    assert true_error(found.temperature_) <= 1.05 * true_error(best) < 0.8 * true_error(1.0)


def test_distances_are_those_of_a_slow_loop():
    generator = np.random.default_rng(11)
    training, rows = generator.normal(size=(70, 4)), generator.normal(size=(9, 4))
    unit = training / np.linalg.norm(training, axis=1, keepdims=True)
    expected = [np.sort(((unit - row / np.linalg.norm(row)) ** 2).sum(axis=1))[:50].mean() for row in rows]
    np.testing.assert_allclose(neighbour_distances(training, rows), expected)
    assert np.isfinite(neighbour_distances(np.zeros((3, 2)), np.zeros((2, 2)))).all()


def test_the_temperature_rises_with_distance_as_it_did_when_the_labels_were_drawn():
    generator = np.random.default_rng(12)
    logits, distances = 3 * generator.normal(size=(20_000, 3)), generator.uniform(0.2, 1.0, 20_000)
    chances = softmax(logits / (0.7 + 2 * distances)[:, None], axis=1)
    labels = (chances.cumsum(axis=1) < generator.random((len(logits), 1))).sum(axis=1)
    found = DistanceTemperature.fit(logits, labels, distances)
    asked = np.array([0.3, 0.6, 0.9])
    np.testing.assert_allclose(found.at(asked), 0.7 + 2 * asked, rtol=0.05)
    # One temperature for a target at one distance is that of the distance.
    target = 2 * generator.normal(size=(300, 3))
    one = density_temperature(found, target, np.full(300, 0.8))
    assert one.temperature_ == pytest.approx(found.at(np.array([0.8]))[0], rel=1e-4)
    # A target at several distances: between them.
    several = density_temperature(found, target, np.repeat([0.4, 0.8], 150)).temperature_
    assert found.at(np.array([0.4]))[0] < several < one.temperature_


def test_distance_that_says_nothing_leaves_one_temperature():
    generator = np.random.default_rng(13)
    logits = 3 * generator.normal(size=(4000, 3))
    chances = softmax(logits / 1.5, axis=1)
    labels = (chances.cumsum(axis=1) < generator.random((len(logits), 1))).sum(axis=1)
    found = DistanceTemperature.fit(logits, labels, np.zeros(4000))
    assert found.at(np.zeros(1))[0] == pytest.approx(1.5, rel=0.05)
    # Fewer errors far away: the slope stays 0, the temperature does not fall.
    falling = softmax(logits / np.repeat([2.0, 0.7], 2000)[:, None], axis=1)
    labels = (falling.cumsum(axis=1) < generator.random((len(logits), 1))).sum(axis=1)
    assert DistanceTemperature.fit(logits, labels, np.repeat([0.1, 0.9], 2000)).slope == 0


def test_no_method_is_chosen_for_anybody():
    with pytest.raises(UserError, match="pseudocal"):
        get_shift_method(None)
    with pytest.raises(UserError, match="choose from"):
        get_shift_method("best")
    assert set(verdicts()["methods"]) <= set(METHODS)
    json.dumps(verdicts())
