"""Isotonic calibration against scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import logsumexp, softmax
from sklearn.isotonic import IsotonicRegression

from calmix.calibration.calibrators.isotonic import (
    IsotonicCalibration,
    curve_odds,
    fold_of_rows,
    log_odds,
)
from calmix.calibration.calibrators.temperature import TemperatureScaling
from calmix.calibration.metrics.errors import expected_calibration_error
from calmix.calibration.predictions import Predictions


def sample(rows, classes, seed=0):
    generator = np.random.default_rng(seed)
    true = 1.5 * generator.standard_normal((rows, classes))
    labels = (softmax(true, axis=1).cumsum(axis=1) > generator.random((rows, 1))).argmax(axis=1)
    return 3 * true, labels


@pytest.mark.parametrize("weighted", [False, True])
def test_two_classes_are_scikit_learns_regression_on_the_difference(weighted):
    logits, labels = sample(800, 2)
    weights = np.random.default_rng(1).uniform(0.1, 2, 800) if weighted else None
    fitted = IsotonicCalibration(temperature_share=0).fit(logits, labels, sample_weight=weights)
    theirs = IsotonicRegression(y_min=0, y_max=1, out_of_bounds="clip")
    theirs.fit(logits[:, 1] - logits[:, 0], labels, sample_weight=weights)
    fresh, _ = sample(500, 2, seed=5)
    np.testing.assert_allclose(
        fitted.predict_proba(fresh)[:, 1], theirs.predict(fresh[:, 1] - fresh[:, 0]), atol=1e-12
    )


def test_more_classes_are_one_against_the_rest_renormalised_as_in_scikit_learn():
    logits, labels = sample(900, 4)
    fitted = IsotonicCalibration(temperature_share=0).fit(logits, labels)
    fresh, _ = sample(300, 4, seed=5)
    raw = np.empty((300, 4))
    for k in range(4):
        curve = IsotonicRegression(y_min=0, y_max=1, out_of_bounds="clip")
        others = [j for j in range(4) if j != k]
        curve.fit(logits[:, k] - logsumexp(logits[:, others], axis=1), labels == k)
        raw[:, k] = curve.predict(fresh[:, k] - logsumexp(fresh[:, others], axis=1))
    total = raw.sum(axis=1, keepdims=True)
    expected = np.divide(raw, total, out=np.full_like(raw, 0.25), where=total > 0)
    np.testing.assert_allclose(fitted.predict_proba(fresh), expected, atol=1e-9)


def test_two_classes_agree_with_scikit_learns_calibrated_classifier():
    from sklearn.calibration import CalibratedClassifierCV
    from sklearn.frozen import FrozenEstimator
    from sklearn.linear_model import LogisticRegression

    generator = np.random.default_rng(0)
    x = generator.normal(size=(600, 3))
    labels = (x[:, 0] + generator.normal(size=600) > 0).astype(np.int64)
    model = LogisticRegression().fit(x, labels)
    theirs = CalibratedClassifierCV(FrozenEstimator(model), method="isotonic").fit(x, labels)
    margin = model.decision_function(x)
    logits = np.stack([np.zeros(600), margin], axis=1)
    fitted = IsotonicCalibration(temperature_share=0).fit(logits, labels)
    np.testing.assert_allclose(fitted.predict_proba(logits), theirs.predict_proba(x), atol=1e-12)


def test_probability_never_falls_with_the_score():
    logits, labels = sample(400, 2)
    scores = np.linspace(-30, 30, 2001)
    curve = IsotonicCalibration().fit(logits, labels).predict_proba(np.stack([0 * scores, scores], axis=1))
    assert (np.diff(curve[:, 1]) >= 0).all()


def test_a_share_of_the_temperature_scaled_probabilities_keeps_every_later_loss_finite():
    logits, labels = sample(500, 3)
    extreme = 1e6 * np.eye(3)
    fitted = IsotonicCalibration().fit(logits, labels)
    assert 500 ** (-1 / 3) <= fitted.share_ < 1
    assert np.isfinite(fitted.transform(extreme)).all()
    bare = IsotonicCalibration(temperature_share=0).fit(logits, labels)
    assert bare.predict_proba(extreme).min() == 0
    assert np.isneginf(bare.transform(extreme)).any()
    fresh, _ = sample(200, 3, seed=4)
    scaled = TemperatureScaling().fit(logits, labels).predict_proba(fresh)
    expected = (1 - fitted.share_) * bare.predict_proba(fresh) + fitted.share_ * scaled
    np.testing.assert_allclose(fitted.predict_proba(fresh), expected, atol=1e-12)
    np.testing.assert_allclose(np.exp(fitted.transform(fresh)), expected, atol=1e-12)


def noisy(rows, classes, seed=0):
    """Calibrated logits, one of which stands out."""
    generator = np.random.default_rng(seed)
    logits = generator.normal(size=(rows, classes))
    logits[np.arange(rows), generator.integers(0, classes, rows)] += generator.normal(5, 2, rows)
    return logits, (logits + generator.gumbel(size=logits.shape)).argmax(axis=1)


def losses_of(calibrator, logits, labels):
    probabilities = calibrator.predict_proba(logits)
    correct = probabilities.argmax(axis=1) == labels
    gold = probabilities[np.arange(len(labels)), labels]
    return -np.log(gold).mean(), expected_calibration_error(probabilities.max(axis=1), correct)


def test_many_noisy_classes_are_left_to_the_temperature():
    """A tenth of the temperature (the rule of the row count alone) gave an NLL of 2.87 and an ECE of 6 %."""
    logits, labels = noisy(5000, 100)
    known, fresh = slice(1000), slice(1000, None)
    with pytest.warns(UserWarning, match="1000 rows say little about the isotonic curves"):
        fitted = IsotonicCalibration().fit(logits[known], labels[known])
    by_count = IsotonicCalibration(temperature_share=0.1).fit(logits[known], labels[known])
    scaled = TemperatureScaling().fit(logits[known], labels[known])
    nll, ece = losses_of(fitted, logits[fresh], labels[fresh])
    nll_scaled, ece_scaled = losses_of(scaled, logits[fresh], labels[fresh])
    nll_by_count, ece_by_count = losses_of(by_count, logits[fresh], labels[fresh])
    assert nll < nll_scaled + 0.01 < nll_by_count - 0.1
    assert ece < ece_scaled + 0.01 < ece_by_count


def test_curves_that_a_temperature_cannot_follow_are_kept():
    generator = np.random.default_rng(0)
    scores = generator.uniform(-6, 6, 8000)
    labels = (generator.random(8000) < np.where(scores > 0, 0.7, 0.1)).astype(np.int64)
    logits = np.stack([np.zeros(8000), scores], axis=1)
    fitted = IsotonicCalibration().fit(logits[:4000], labels[:4000])
    scaled = TemperatureScaling().fit(logits[:4000], labels[:4000])
    assert fitted.share_ == pytest.approx(4000 ** (-1 / 3))
    assert losses_of(fitted, logits[4000:], labels[4000:])[0] < (
        losses_of(scaled, logits[4000:], labels[4000:])[0] - 0.02
    )


def test_the_share_maximises_the_likelihood_of_rows_left_out_whatever_their_order():
    logits, labels = sample(600, 3)
    odds, folds = curve_odds(logits), fold_of_rows(curve_odds(logits), labels)
    scaled = TemperatureScaling().fit(logits, labels).predict_proba(logits)[np.arange(600), labels]
    left_out = np.empty(600)
    for fold in range(5):
        out = folds == fold
        bare = IsotonicCalibration(temperature_share=0).fit(logits[~out], labels[~out])
        left_out[out] = bare.predict_proba(logits[out])[np.arange(out.sum()), labels[out]]
    grid = np.linspace(600 ** (-1 / 3), 1, 2001)
    best = grid[np.argmax([np.log((1 - u) * left_out + u * scaled).sum() for u in grid])]
    order = np.random.default_rng(1).permutation(600)
    fitted = [IsotonicCalibration().fit(logits[rows], labels[rows]) for rows in (np.arange(600), order)]
    assert fitted[0].share_ == pytest.approx(best, abs=1e-3)
    assert fitted[1].share_ == pytest.approx(fitted[0].share_, abs=1e-9)
    assert odds.shape == (600, 3)


def test_all_copies_of_a_row_with_a_soft_label_are_left_out_of_the_curves_together():
    logits, labels = sample(300, 3)
    shares = np.random.default_rng(2).multinomial(3, softmax(logits / 3)[0], 300) / 3
    shares = 0.5 * shares + 0.5 * np.eye(3)[labels]
    given = Predictions.from_logits(logits, labels).with_rows(targets=shares)
    main = given.labels
    folds = fold_of_rows(curve_odds(logits), main)
    scaled = TemperatureScaling().fit(given).predict_proba(logits)
    left_out = np.empty((300, 3))
    for fold in range(5):
        out = folds == fold
        bare = IsotonicCalibration(temperature_share=0).fit(given.select(~out))
        left_out[out] = bare.predict_proba(logits[out])
    grid = np.linspace(300 ** (-1 / 3), 1, 2001)

    def likelihood(u):
        mixed = np.maximum((1 - u) * left_out + u * scaled, np.finfo(np.float64).tiny)
        return (shares * np.log(mixed)).sum()

    best = grid[np.argmax([likelihood(u) for u in grid])]
    assert IsotonicCalibration().fit(given).share_ == pytest.approx(best, abs=1e-3)


def test_many_classes_do_not_cap_the_confidence():
    """A floor of 1/n below each of 100 curves gave a perfect model an ECE of 9.8 % after 1,000 rows."""
    generator = np.random.default_rng(0)
    labels = generator.integers(0, 100, 6000)
    logits = generator.normal(size=(6000, 100))
    logits[np.arange(6000), labels] += 12
    with pytest.warns(UserWarning, match="none of the 1000 rows"):
        fitted = IsotonicCalibration().fit(logits[:1000], labels[:1000])
    calibrated = fitted.predict_proba(logits[1000:])
    correct = calibrated.argmax(axis=1) == labels[1000:]
    assert correct.mean() > 0.995
    assert expected_calibration_error(calibrated.max(axis=1), correct) < 0.008
    assert -np.log(calibrated[np.arange(5000), labels[1000:]]).mean() < 0.02


def test_log_odds_match_the_formula_and_stay_finite_where_probabilities_round():
    generator = np.random.default_rng(0)
    logits = generator.normal(size=(200, 5)) * generator.uniform(0.1, 200, size=(200, 1))
    logits[:20] = logits[:20].round()  # ties
    expected = np.stack(
        [logits[:, k] - logsumexp(np.delete(logits, k, axis=1), axis=1) for k in range(5)], axis=1
    )
    np.testing.assert_allclose(log_odds(logits), expected, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("share", [-0.1, 1.5, np.nan])
def test_a_share_that_makes_no_sense_is_refused(share):
    with pytest.raises(ValueError, match="temperature_share must be"):
        IsotonicCalibration(temperature_share=share).fit([[0.0, 1.0]], [1])
