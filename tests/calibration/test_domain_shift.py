"""Methods for unlabelled rows, each on a case that its assumption describes, and against a slow reference."""

import json

import numpy as np
import pytest
from scipy.special import softmax

from calmix.calibration.domain_shift.catalogue import METHODS, get_shift_method, verdicts
from calmix.calibration.domain_shift.label_shift import label_shift, target_shares
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


def test_no_method_is_chosen_for_anybody():
    with pytest.raises(UserError, match="pseudocal"):
        get_shift_method(None)
    with pytest.raises(UserError, match="choose from"):
        get_shift_method("best")
    assert set(verdicts()["methods"]) <= set(METHODS)
    json.dumps(verdicts())
