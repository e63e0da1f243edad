"""A run that has not learned is recognised, one that has is left alone, and the remedy fits."""

from __future__ import annotations

import dataclasses
import math
import warnings

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import binomtest, chi2

from calmix.calibration.calibrators.temperature import TemperatureScaling
from calmix.calibration.predictions import Predictions
from calmix.training import learning
from calmix.training.learning import Settings, ValidationFacts, above_majority, judge_learning

USUAL = Settings(learning_rate=2e-4, epochs=6, usual_rate=2e-4, usual_epochs=6)
GENTLE = Settings(learning_rate=2e-5, epochs=2, usual_rate=2e-4, usual_epochs=6)
HEALTHY = ValidationFacts(500, 400, 0.4, 1.2, nll=0.5, temperature=1.3, nll_at_lowest=0.9)


def epochs(nlls, losses=None):
    losses = losses or [0.9 * nll for nll in nlls]
    return [
        {"validation_nll_calibrated": nll, "train_loss": loss} for nll, loss in zip(nlls, losses, strict=True)
    ]


def facts_of(logits, labels, lowest=0.5):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a bound, which some tests are about
        scaling = TemperatureScaling().fit(logits, labels)
    validation = Predictions.from_logits(logits, labels)
    return ValidationFacts.of(validation, scaling.temperature_, scaling.at_bound_, lowest)


def draw(rows, classes, scale, temperature, seed=0):
    """Labels drawn at softmax(logits / temperature)."""
    generator = np.random.default_rng(seed)
    logits = generator.normal(scale=scale, size=(rows, classes))
    labels = (logits / temperature + generator.gumbel(size=logits.shape)).argmax(axis=1)
    return logits, labels


def test_a_healthy_run_has_no_sign():
    verdict = judge_learning(HEALTHY, epochs([0.9, 0.55, 0.5]), USUAL)
    assert verdict.as_dict() == {"learned": True, "reasons": [], "messages": [], "notes": [], "advice": ""}


@pytest.mark.parametrize(("right", "rows", "share"), [(21, 98, 0.276), (60, 100, 0.5), (5, 5, 0.9)])
def test_the_p_value_is_that_of_the_binomial_test(right, rows, share):
    expected = binomtest(right, rows, share, alternative="greater").pvalue
    assert above_majority(right, rows, share) == pytest.approx(expected)


def test_accuracy_at_the_majority_share_is_a_sign_unless_the_nll_is_better_than_the_class_shares():
    useless = ValidationFacts(300, 64, 0.276, 1.64, nll=1.66, temperature=1.0)
    assert judge_learning(useless, [], GENTLE).reasons == ("accuracy_at_majority",)
    # One row in a hundred is fraud: no accuracy is above 99 %, and yet the scores may tell.
    shares = np.array([0.99, 0.01])
    entropy = float(-(shares * np.log(shares)).sum())
    rare = ValidationFacts(2000, 1981, 0.99, entropy, nll=0.6 * entropy, temperature=1.1)
    assert judge_learning(rare, [], USUAL).learned


def test_facts_are_those_of_the_predictions():
    logits, labels = draw(400, 3, scale=2.0, temperature=1.0)
    facts = facts_of(logits, labels)
    shares = np.bincount(labels) / 400
    probabilities = np.exp(logits / facts.temperature)
    probabilities /= probabilities.sum(axis=1, keepdims=True)
    assert facts.entropy == pytest.approx(-(shares * np.log(shares)).sum())
    assert facts.majority_share == shares.max()
    assert facts.right == (logits.argmax(axis=1) == labels).sum()
    assert facts.nll == pytest.approx(-np.log(probabilities[np.arange(400), labels]).mean())


def test_an_accuracy_that_is_not_the_one_of_the_table_says_so():
    generator = np.random.default_rng(0)
    given = Predictions.from_logits(generator.normal(size=(100, 2)), generator.integers(0, 2, 100))
    soft = given.with_rows(targets=generator.dirichlet([1.0, 1.0], 100))
    for predictions, says_so in ((given, False), (soft, True)):
        facts = ValidationFacts.of(predictions, 1.0, None, 0.5)
        verdict = judge_learning(facts, [], USUAL)
        assert verdict.reasons[0] == "accuracy_at_majority"
        assert ("by the most frequent label" in verdict.messages[0]) is says_so


def test_equal_weights_change_no_fact_and_zeros_leave_rows_out():
    logits, labels = draw(300, 3, scale=2.0, temperature=1.0)
    rows = Predictions.from_logits(logits, labels)
    plain = dataclasses.replace(ValidationFacts.of(rows, 0.8, None, 0.5), is_weighted=True)
    kept = np.arange(300) % 3 > 0
    part = ValidationFacts.of(rows.select(kept), 0.8, None, 0.5)
    for weights, expected in ((np.full(300, 0.1), plain), (7.0 * kept, part)):
        found = ValidationFacts.of(rows.with_rows(weights=weights), 0.8, None, 0.5)
        for name in ("rows", "right", "majority_share", "entropy", "nll", "nll_at_lowest"):
            assert getattr(found, name) == pytest.approx(getattr(expected, name), rel=1e-12), name


def test_weights_decide_whether_the_rows_that_count_were_learned():
    """Right on 150 rows that hardly count, by chance on the 100 that do."""
    generator = np.random.default_rng(3)
    labels = np.arange(250) % 2
    guessed = np.where(np.arange(250) < 150, labels, (labels + np.arange(250) // 2) % 2)
    rows = Predictions.from_logits(np.eye(2)[guessed] * generator.uniform(1, 2, (250, 1)), labels)
    weights = np.where(np.arange(250) < 150, 0.001, 1.0)
    facts = []
    for given in (rows, rows.with_rows(weights=weights)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            scaling = TemperatureScaling().fit(given)
        facts.append(ValidationFacts.of(given, scaling.temperature_, None, 0.5))
    assert judge_learning(facts[0], [], USUAL).learned
    verdict = judge_learning(facts[1], [], USUAL)
    assert verdict.reasons == ("accuracy_at_majority",)
    assert "validation accuracy 50.1%" in verdict.messages[0]
    assert "effective n = 100.3" in verdict.messages[0]


def test_the_facts_are_those_that_the_temperature_was_fitted_by():
    logits, labels = draw(400, 3, scale=2.0, temperature=1.0)
    weights = np.random.default_rng(1).exponential(size=400) ** 3
    soft = 0.7 * np.eye(3)[labels] + 0.3 * np.random.default_rng(2).dirichlet([0.3] * 3, 400)
    rows = Predictions.from_logits(logits, labels)
    for given in (rows.with_rows(weights=weights), rows.with_rows(targets=soft, weights=weights)):
        scaling = TemperatureScaling().fit(given)
        facts = ValidationFacts.of(given, scaling.temperature_, None, 0.5)
        assert facts.nll == pytest.approx(scaling.nll_after_, rel=1e-9)
        assert facts.nll_at_lowest > facts.nll, "the fitted temperature is the best one"
        shares = np.average(given.soft_targets(), axis=0, weights=weights)
        assert facts.entropy == pytest.approx(-(shares * np.log(shares)).sum())


def test_a_model_that_finds_what_most_annotators_say_has_learned_however_they_disagree():
    labels = np.arange(200) % 2
    targets = np.where(np.eye(2)[labels] == 1, 0.55, 0.45)
    rows = Predictions.from_logits(np.log(targets), labels).with_rows(targets=targets)
    assert judge_learning(ValidationFacts.of(rows, 1.0, None, 0.5), [], USUAL).learned


def test_small_logits_are_a_sign_where_chance_does_not_explain_them():
    logits, labels = draw(500, 3, scale=0.6, temperature=0.2)
    facts = facts_of(logits, labels)
    assert facts.temperature < 0.3
    assert judge_learning(facts, [], USUAL).reasons == ("low_temperature",)
    few = dataclasses.replace(facts, rows=6, right=5, temperature=0.4, nll_at_lowest=facts.nll + 0.1)
    assert judge_learning(few, [], USUAL).learned, "six rows cannot show that the temperature is below 0.5"


def test_the_bound_of_the_temperature_is_the_end_of_a_likelihood_interval():
    assert (
        pytest.approx(chi2.ppf(1 - 2 * learning.SIGNIFICANCE, 1) / 2, abs=1e-4) == learning._LIKELIHOOD_DROP
    )
    logits, labels = draw(80, 2, scale=1.0, temperature=0.35)
    facts = facts_of(logits, labels)

    def excess(temperature):
        at = facts_of(logits, labels, lowest=temperature).nll_at_lowest
        return 80 * (at - facts.nll) - learning._LIKELIHOOD_DROP

    upper = brentq(excess, facts.temperature, 5.0)
    assert judge_learning(facts, [], USUAL).learned == (upper >= 0.5)


def test_every_row_right_is_no_sign_though_the_temperature_is_low():
    logits = np.eye(4)[np.arange(40) % 4] * 3.0
    facts = facts_of(logits, np.arange(40) % 4)
    assert facts.temperature < 0.5
    assert judge_learning(facts, [], USUAL).learned


def test_logits_that_say_nothing_are_a_sign():
    logits, _ = draw(400, 3, scale=1.0, temperature=1.0)
    wrong = logits.argmin(axis=1)
    facts = facts_of(logits, wrong)
    assert facts.at_bound == "upper"
    assert "temperature_at_bound" in judge_learning(facts, [], USUAL).reasons


def test_methods_that_hold_logits_down_may_end_with_a_lower_temperature():
    soft = Settings(2e-4, 6, 2e-4, 6, soft_targets=True)
    facts = ValidationFacts(500, 400, 0.4, 1.2, nll=0.5, temperature=0.4, nll_at_lowest=0.7)
    assert judge_learning(facts, [], USUAL).reasons == ("low_temperature",)
    assert judge_learning(facts, [], soft).learned


def test_the_fall_between_evaluations_is_shared_by_the_epochs_between_them():
    margin = learning.LARGEST_LAST_GAIN * HEALTHY.entropy
    history = epochs([1.0, 0.7, 0.7 - 4.4 * margin])
    for entry, epoch in zip(history, (4, 8, 12), strict=True):
        entry["epoch"] = epoch
    (note,) = judge_learning(HEALTHY, history, USUAL).notes
    assert note.startswith("the validation NLL still fell over the last 4 epochs, from 0.700 to ")
    assert "an epoch)" in note
    assert not judge_learning(HEALTHY, [*history[:2], history[2] | {"epoch": 13}], USUAL).notes


def test_an_nll_that_still_falls_is_a_note_that_asks_for_epochs_where_all_else_is_well():
    margin = learning.LARGEST_LAST_GAIN * HEALTHY.entropy
    falling = judge_learning(HEALTHY, epochs([1.0, 0.7, 0.7 - 1.1 * margin]), USUAL)
    assert falling.learned and not falling.messages
    assert falling.notes[0].startswith("the validation NLL still fell in the last epoch, from 0.700 to 0.634")
    assert falling.notes[0].endswith("more epochs may help")
    assert falling.advice == "Train again with --epochs 12."
    for well in ([1.0, 0.7, 0.7 - 0.9 * margin], [0.5, 1.0, 0.7], [0.5]):
        verdict = judge_learning(HEALTHY, epochs(well), USUAL)
        assert verdict.learned and not verdict.notes and not verdict.advice, well


def test_an_nll_in_free_fall_is_a_sign_by_itself():
    gain = 1.01 * learning.CUT_OFF_GAIN * HEALTHY.entropy
    verdict = judge_learning(HEALTHY, epochs([1.0, 0.8, 0.8 - gain]), USUAL)
    assert verdict.reasons == ("still_improving",)
    assert not verdict.notes
    assert verdict.advice == "Train again with --epochs 12."


def test_an_nll_that_still_falls_beside_another_sign_is_a_sign():
    useless = ValidationFacts(300, 64, 0.276, 1.64, nll=1.6, temperature=1.0)
    verdict = judge_learning(useless, epochs([1.8, 1.75, 1.6], [1.8, 1.7, 1.5]), GENTLE)
    assert verdict.reasons == ("accuracy_at_majority", "still_improving")
    assert not verdict.notes
    assert verdict.advice == "Train again with --learning-rate 2e-4 --epochs 6."


def test_a_flat_training_loss_is_a_sign_unless_it_was_low_from_the_start():
    flat = judge_learning(HEALTHY, epochs([0.5, 0.5, 0.5], [1.21, 1.20, 1.19]), GENTLE)
    assert flat.reasons == ("training_loss_flat",)
    assert judge_learning(HEALTHY, epochs([0.5, 0.5, 0.5], [0.21, 0.20, 0.21]), USUAL).learned


@pytest.mark.parametrize(
    ("rate", "trained", "advice"),
    [
        (2e-5, 2, "Train again with --learning-rate 2e-4 --epochs 6."),
        (2e-5, 6, "Train again with --learning-rate 2e-4."),
        (5e-3, 6, "Training may have diverged: train again with --learning-rate 2e-4."),
        (
            2e-4,
            6,
            "Train again with --epochs 12 and more rows; if that does not help, check that the labels "
            "belong to the texts.",
        ),
    ],
)
def test_the_remedy_is_the_setting_that_departs_from_the_usual(rate, trained, advice):
    facts = ValidationFacts(300, 64, 0.276, 1.64, nll=1.66, temperature=1.0)
    assert judge_learning(facts, [], Settings(rate, trained, 2e-4, 6)).advice == advice


def test_a_single_class_among_the_validation_rows_does_not_break_the_verdict():
    facts = ValidationFacts(3, 3, 1.0, 0.0, nll=0.1, temperature=1.0)
    verdict = judge_learning(facts, epochs([0.2, 0.1]), USUAL)
    assert math.isfinite(len(verdict.reasons))
