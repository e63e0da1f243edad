"""Intervals that include the fit: their coverage, and what they are made of."""

import numpy as np
import pytest
from scipy.special import softmax

from calmix.calibration.calibrators.calibrated_predictions import calibrate_predictions
from calmix.calibration.calibrators.calibrator import get_calibrator
from calmix.calibration.calibrators.temperature import TemperatureScaling
from calmix.calibration.evaluation import evaluate
from calmix.calibration.fit_uncertainty import REACH, FitUncertainty, widened_limits
from calmix.calibration.predictions import Predictions


def rows_at(temperature, count, generator, classes=3):
    """Rows whose labels are drawn from softmax(logits / temperature)."""
    logits = 4 * generator.normal(size=(count, classes))
    chances = softmax(logits / temperature, axis=1)
    labels = (chances.cumsum(axis=1) < generator.random((count, 1))).sum(axis=1)
    return Predictions.from_logits(logits, labels)


@pytest.mark.simulates
@pytest.mark.parametrize("target", [2.0, 3.5], ids=["in domain", "out of domain"])
def test_coverage_with_two_hundred_validation_rows(target):
    """What calibration with 200 rows of temperature 2 gives on average, on rows of a target temperature."""
    metrics, repeats = ("nll", "brier", "ece", "confidence_gap"), 150
    generator = np.random.default_rng(5)
    population = rows_at(target, 100_000, generator)
    # Over the temperatures of many fits, by the metrics at some of them.
    fits = [TemperatureScaling().fit(rows_at(2.0, 200, generator)).temperature_ for _ in range(500)]
    grid = np.geomspace(min(fits), max(fits), 25)
    known = [evaluate(population.with_temperature(t), intervals=False) for t in grid]
    truth = {metric: np.interp(fits, grid, [one[metric] for one in known]).mean() for metric in metrics}
    covered = {stage: dict.fromkeys(metrics, 0) for stage in ("rows alone", "with the fit")}
    for _ in range(repeats):
        fitting, test = rows_at(2.0, 200, generator), rows_at(target, 1000, generator)
        calibrator = TemperatureScaling().fit(fitting)
        alone = evaluate(calibrate_predictions(calibrator, test))
        both = FitUncertainty.of(calibrator, fitting).widened(alone, test)
        for stage, found in zip(covered, (alone, both), strict=True):
            for metric in metrics:
                low, high = found[f"{metric}_ci"]
                covered[stage][metric] += low <= truth[metric] <= high
    shares = {stage: {metric: n / repeats for metric, n in found.items()} for stage, found in covered.items()}
    assert min(shares["with the fit"].values()) >= 0.93, shares
    assert min(shares["rows alone"].values()) < 0.85, shares


def test_the_reach_is_the_spread_of_the_refits():
    """By a loop over the refits; accuracy, which no temperature changes, keeps its interval."""
    generator = np.random.default_rng(0)
    fitting, test = rows_at(2.0, 100, generator), rows_at(2.0, 300, generator)
    calibrator = TemperatureScaling().fit(fitting)
    fit = FitUncertainty.of(calibrator, fitting)
    alone = evaluate(calibrate_predictions(calibrator, test))
    both = fit.widened(alone, test)
    confidence = [softmax(test.values / one.temperature_, axis=1).max(axis=1).mean() for one in fit.refits]
    now = softmax(test.values / calibrator.temperature_, axis=1).max(axis=1).mean()
    apart = np.array(confidence) - now
    sides = apart[apart < 0], apart[apart > 0]
    down, up = (REACH * np.sqrt(max(np.mean(apart**2), np.mean(side**2))) for side in sides)
    expected = widened_limits(alone["confidence_gap"], alone["confidence_gap_ci"], down, up)
    np.testing.assert_allclose(both["confidence_gap_ci"], expected)
    assert both["accuracy_ci"] == alone["accuracy_ci"] and both["ci_includes_fit"] is True
    values = {name: value for name, value in alone.items() if not name.endswith("_ci")}
    assert values.items() <= both.items()
    low, high = both["ece_ci"]
    assert 0 <= low <= alone["ece_ci"][0] and alone["ece_ci"][1] < high <= 1
    spread = np.std(np.log([one.temperature_ for one in fit.refits]))
    assert spread == pytest.approx(standard_error(fitting, calibrator.temperature_), rel=0.4)


@pytest.mark.parametrize("kind", ["temperature-bias", "vector", "structured", "auto", "isotonic"])
def test_every_calibrator_is_fitted_again_as_what_it_is(kind):
    generator = np.random.default_rng(1)
    fitting, test = rows_at(2.0, 300, generator), rows_at(2.0, 200, generator)
    shifted = Predictions.from_logits(fitting.values + np.array([0.0, 0.0, 3.0]), fitting.labels)
    calibrator = get_calibrator(kind).fit(shifted)
    fit = FitUncertainty.of(calibrator, shifted)
    if kind == "auto":
        assert {refit.chosen_ for refit in fit.refits} == {calibrator.chosen_} != {"temperature"}
    alone = evaluate(calibrate_predictions(calibrator, test))
    both = fit.widened(alone, test)
    assert both["nll_ci"][0] < alone["nll_ci"][0] and both["nll_ci"][1] > alone["nll_ci"][1]


def test_weights_and_soft_labels_of_the_fitting_rows_count():
    """A row of weight 0 has no part in any refit; a soft label is fitted as one."""
    generator = np.random.default_rng(2)
    fitting = rows_at(2.0, 200, generator)
    weights = np.repeat([1.0, 0.0], 100)
    weighted = fitting.with_rows(weights=weights)
    calibrator = TemperatureScaling().fit(weighted)
    changed = Predictions.from_logits(
        np.concatenate([fitting.values[:100], 9 * fitting.values[100:]]), fitting.labels
    ).with_rows(weights=weights)
    for one, other in zip(
        FitUncertainty.of(calibrator, weighted).refits,
        FitUncertainty.of(calibrator, changed).refits,
        strict=True,
    ):
        assert one.temperature_ == pytest.approx(other.temperature_, rel=1e-9)
    # Soft labels that are the probabilities of T = 1.5 leave nothing to chance.
    soft = fitting.with_rows(targets=softmax(fitting.values / 1.5, axis=1))
    fit = FitUncertainty.of(TemperatureScaling(guard=False).fit(soft), soft)
    assert [one.temperature_ for one in fit.refits] == pytest.approx([1.5] * len(fit.refits), rel=1e-6)


def test_the_spread_of_many_fitting_rows_is_that_of_a_part_scaled():
    """The standard error of log T by the curvature of the likelihood of all rows."""
    fitting = rows_at(2.0, 20_000, np.random.default_rng(3))
    calibrator = TemperatureScaling().fit(fitting)
    fit = FitUncertainty.of(calibrator, fitting)
    spread = fit.scale * np.std(np.log([one.temperature_ for one in fit.refits]))
    assert fit.scale == pytest.approx(0.5)
    assert spread == pytest.approx(standard_error(fitting, calibrator.temperature_), rel=0.4)


def standard_error(fitting, temperature):
    scaled = fitting.values / temperature
    chances = softmax(scaled, axis=1)
    variance = (chances * scaled**2).sum(axis=1) - (chances * scaled).sum(axis=1) ** 2
    return 1 / np.sqrt(variance.sum())


def test_copies_of_rows_are_no_new_rows():
    """Rows written four times have the spread of the rows themselves, not half of it."""
    fitting = rows_at(2.0, 300, np.random.default_rng(6))
    four = fitting.select(np.tile(np.arange(300), 4))
    once = FitUncertainty.of(TemperatureScaling().fit(fitting), fitting)
    copied = FitUncertainty.of(TemperatureScaling().fit(four), four, copies=4)
    for one, other in zip(once.refits, copied.refits, strict=True):
        assert one.temperature_ == pytest.approx(other.temperature_, rel=1e-6)
    assert copied.scale == 1.0
