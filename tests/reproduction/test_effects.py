"""The effects of claims against outside references and slow loops."""

import numpy as np
import pytest
from sklearn.metrics import matthews_corrcoef, roc_auc_score

from calmix.calibration.predictions import Predictions
from calmix.reproduction.effects import auroc_effect, mcc_effect, mean_effect, placements


def drawn(seed, rows=300, classes=3, skill=1.0):
    generator = np.random.default_rng(seed)
    labels = generator.integers(0, classes, rows)
    logits = generator.normal(size=(rows, classes))
    logits[np.arange(rows), labels] += skill
    return Predictions.from_logits(logits, labels, ids=[str(row) for row in range(rows)])


@pytest.mark.simulates
def test_the_mcc_effect_is_that_of_resampled_rows():
    ours, theirs = drawn(1, skill=2.0), drawn(1, skill=1.0)
    found = mcc_effect([ours], [theirs])

    def difference(rows):
        return matthews_corrcoef(ours.labels[rows], ours.values[rows].argmax(1)) - matthews_corrcoef(
            theirs.labels[rows], theirs.values[rows].argmax(1)
        )

    assert found.difference == pytest.approx(difference(np.arange(300)))
    generator = np.random.default_rng(5)
    values = [difference(generator.integers(0, 300, 300)) for _ in range(400)]
    assert np.sqrt(found.rows_variance) == pytest.approx(np.std(values), rel=0.15)


def test_placements_average_to_the_auroc_of_scikit_learn():
    generator = np.random.default_rng(0)
    inside, outside = generator.normal(0.5, 1, 200).round(1), generator.normal(0, 1, 150).round(1)
    a, b = placements(inside, outside)
    expected = roc_auc_score([1] * 200 + [0] * 150, np.concatenate([inside, outside]))
    assert a.mean() == pytest.approx(expected)
    assert b.mean() == pytest.approx(expected)


def test_the_variance_of_an_auroc_difference_is_that_of_repeated_draws():
    generator = np.random.default_rng(1)

    def draw():
        base_in, base_out = generator.normal(1, 1, 120), generator.normal(0, 1, 100)
        noise_in, noise_out = generator.normal(0, 1, 120), generator.normal(0, 1, 100)
        return (base_in, base_out), (base_in + noise_in, base_out + noise_out)

    effects = [auroc_effect([ours], [theirs]) for ours, theirs in (draw() for _ in range(400))]
    spread = np.std([effect.difference for effect in effects])
    assert np.sqrt(np.mean([effect.rows_variance for effect in effects])) == pytest.approx(spread, rel=0.12)


def test_equal_scores_have_no_effect_and_no_variance():
    scores = (np.array([1.0, 2.0]), np.array([0.0, 1.5]))
    found = auroc_effect([scores, scores], [scores, scores])
    assert (found.difference, found.rows_variance, found.seeds_variance) == (0.0, 0.0, 0.0)


def test_the_mean_effect_has_the_parts_of_rows_and_seeds():
    ours = [np.array([0.9, 0.7, 0.8]), np.array([0.6, 0.8, 0.7])]
    theirs = [np.full(3, 0.5), np.full(3, 0.5)]
    found = mean_effect(ours, theirs)
    assert found.difference == pytest.approx(0.25)
    assert found.seeds_variance == pytest.approx(np.var([0.3, 0.2], ddof=1) / 2)
    assert found.rows_variance == pytest.approx(np.var([0.25, 0.25, 0.25], ddof=1) / 3)
