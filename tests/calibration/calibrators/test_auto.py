"""Temperature with biases against scipy, and the choice between calibrators against the rule written out."""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import log_softmax, softmax
from sklearn.base import clone

from calmix.calibration.calibrators.auto import CANDIDATES, AutoScaling, cross_validated_losses
from calmix.calibration.calibrators.biased import BiasedTemperature
from calmix.calibration.calibrators.calibrator import get_calibrator, load_calibrator
from calmix.calibration.calibrators.folds import fold_of_row
from calmix.calibration.held_out import cross_validated
from calmix.calibration.predictions import Predictions


def rows(count=600, classes=4, bias=0.0, scale=2.0, seed=0):
    """Labels drawn from softmax(z / 2 + bias of class 0), logits z."""
    generator = np.random.default_rng(seed)
    logits = scale * generator.normal(size=(count, classes))
    shift = np.zeros(classes)
    shift[0] = bias
    scores = log_softmax(logits / 2 + shift, axis=1)
    labels = (np.exp(scores).cumsum(axis=1) < generator.random((count, 1))).sum(axis=1)
    return logits, labels


@pytest.mark.parametrize("weighted", [False, True])
def test_temperature_with_biases_is_the_minimum_of_its_objective(weighted):
    logits, labels = rows(bias=1.5)
    weights = np.random.default_rng(1).random(len(labels)) + 0.5 if weighted else None
    found = BiasedTemperature().fit(logits, labels, weights)
    shares = np.full(len(labels), 1 / len(labels)) if weights is None else weights / weights.sum()

    def objective(parameters):
        scores = log_softmax(parameters[0] * logits + parameters[1:], axis=1)
        gold = scores[np.arange(len(labels)), labels]
        return -shares @ gold + 0.5e-4 * (parameters[1:] ** 2).sum()

    best = minimize(objective, np.r_[1.0, np.zeros(4)], method="BFGS", options={"gtol": 1e-9})
    assert 1 / found.temperature_ == pytest.approx(best.x[0], rel=1e-3)
    np.testing.assert_allclose(found.bias_, best.x[1:] - best.x[1:].mean(), atol=1e-3)


def test_biases_are_those_that_the_labels_were_drawn_with():
    logits, labels = rows(count=40_000, bias=1.5)
    found = BiasedTemperature().fit(logits, labels)
    assert found.temperature_ == pytest.approx(2.0, abs=0.05)
    assert found.bias_[0] - found.bias_[1:].mean() == pytest.approx(1.5, abs=0.05)


def test_rows_without_an_error_and_classes_without_rows_stay_finite():
    logits, labels = np.eye(3)[[0, 1, 0, 1] * 10] * 3.0, np.array([0, 1, 0, 1] * 10)
    found = BiasedTemperature().fit(logits, labels)
    assert np.isfinite(found.bias_).all() and 0 < found.temperature_ < np.inf
    assert found.predict_proba(logits).min() > 0


def test_the_losses_are_those_of_rows_that_were_not_fitted_on():
    logits, labels = rows(200)
    losses, fold = cross_validated_losses("vector", logits, labels), fold_of_row(labels, 5)
    for number in range(5):
        fitted = get_calibrator("vector").fit(logits[fold != number], labels[fold != number])
        own = fitted.transform(logits[fold == number])
        expected = -log_softmax(own, axis=1)[np.arange(len(own)), labels[fold == number]]
        np.testing.assert_allclose(losses[fold == number], expected, atol=1e-10)


@pytest.mark.parametrize(
    ("bias", "scale", "chosen"), [(0.0, 2.0, "temperature"), (1.5, 2.0, "temperature-bias")]
)
def test_the_simplest_that_is_within_a_standard_error_is_chosen(bias, scale, chosen):
    logits, labels = rows(1500, bias=bias, scale=scale)
    found = AutoScaling().fit(logits, labels)
    losses = {name: cross_validated_losses(name, logits, labels) for name in CANDIDATES}
    best = min(losses, key=lambda name: losses[name].mean())
    for place, name in enumerate(CANDIDATES):  # the rule, written out
        excess = losses[name] - losses[best]
        simpler = [losses[other].mean() for other in CANDIDATES[:place]]
        if losses[name].mean() <= min(simpler, default=np.inf) and excess.mean() <= excess.std() / np.sqrt(
            1500
        ):
            break
    assert found.chosen_ == name == chosen
    assert found.best_ == best
    alone = get_calibrator(chosen).fit(logits, labels)
    np.testing.assert_allclose(found.predict_proba(logits), alone.predict_proba(logits), atol=1e-10)


def test_a_class_whose_logit_has_a_scale_of_its_own_needs_vector_scaling():
    logits, labels = rows(3000, scale=3.0)
    stretched = logits * np.array([5.0, 1.0, 1.0, 1.0])
    assert AutoScaling().fit(stretched, labels).chosen_ in ("vector", "structured")


def test_few_rows_of_many_classes_get_a_temperature():
    logits, labels = rows(39)
    assert AutoScaling().fit(logits, labels).chosen_ == "temperature"


def soft_rows(count=300, classes=4, annotators=5, bias=0.0, seed=0):
    """Shares of annotators who each draw from the distribution that `rows` draws labels from."""
    drawn = [rows(count, classes, bias, seed=seed)[0]]
    generator = np.random.default_rng(seed + 1)
    chances = softmax(drawn[0] / 2 + bias * np.eye(classes)[0], axis=1)
    shares = np.stack([generator.multinomial(annotators, p) / annotators for p in chances])
    return Predictions.from_logits(drawn[0], shares.argmax(axis=1)).with_rows(targets=shares)


@pytest.mark.parametrize("weighted", [False, True])
def test_all_copies_of_a_row_with_a_soft_label_are_left_out_together(weighted):
    """The losses are those of whole rows, and so is the standard error."""
    given = soft_rows()
    weights = np.random.default_rng(4).integers(0, 4, len(given)).astype(float) if weighted else None
    given = given.with_rows(weights=weights, targets=given.targets)
    found = AutoScaling().fit(given)
    losses = {}
    for name in CANDIDATES:
        options = {"coordinates": "centred"} if name == "structured" else {}
        held_out = cross_validated(get_calibrator(name, **options), given)
        assert held_out is not None
        chances = log_softmax(held_out.after.values, axis=1)
        losses[name] = -(held_out.after.targets * chances).sum(axis=1)
    kept = np.ones(len(given)) if weights is None else weights[weights > 0]
    share = kept / kept.sum()
    best = min(losses, key=lambda name: share @ losses[name])
    assert found.best_ == best
    for name, scores in found.scores_.items():
        excess = losses[name] - losses[best]
        error = np.sqrt(share**2 @ (excess - share @ excess) ** 2)
        assert scores["nll"] == pytest.approx(share @ losses[name], rel=1e-9)
        assert scores["error"] == pytest.approx(error, rel=1e-6, abs=1e-12)


def test_soft_labels_that_are_hard_choose_as_hard_ones_do():
    logits, labels = rows(400, bias=1.0)
    hard = Predictions.from_logits(logits, labels)
    found, expected = AutoScaling().fit(hard.with_rows(targets=np.eye(4)[labels])), AutoScaling().fit(hard)
    assert found.chosen_ == expected.chosen_
    for name, scores in expected.scores_.items():
        assert found.scores_[name] == pytest.approx(scores, rel=1e-6, abs=1e-9)


def test_copies_are_not_counted_as_rows():
    assert AutoScaling().fit(soft_rows(39)).scores_ == {}, "39 rows of 4 classes are too few to choose"


def test_it_is_saved_loaded_cloned_and_folded(tmp_path):
    logits, labels = rows(1500, bias=1.5)
    found = AutoScaling().fit(logits, labels)
    found.save(tmp_path)
    again = load_calibrator(tmp_path)
    assert again.chosen_ == "temperature-bias" and again.scores_ == found.scores_
    np.testing.assert_array_equal(again.transform(logits), found.transform(logits))
    matrix, bias = found.affine()
    np.testing.assert_allclose(logits @ matrix.T + bias, found.transform(logits))
    assert clone(found).candidates == found.candidates
    plain = AutoScaling().fit(*rows(1500))
    assert plain.folding() == (1 / plain.temperature_, 0.0)  # a head of choices can hold it
