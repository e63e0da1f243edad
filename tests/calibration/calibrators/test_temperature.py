"""Temperature scaling against exact optima, an exhaustive grid and other libraries."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy.optimize import brentq
from scipy.special import log_softmax, softmax

from calmix.calibration.calibrators.temperature import (
    Derivatives,
    TemperatureLoss,
    TemperatureScaling,
    minimise,
)

OPTIMA = [0.02, 0.05, 0.494, 1.0, 3.95, 7.9, 29.6, 50.0]


def sample(rows, classes, temperature=1.0, seed=0, spread=2.0):
    """Logits whose true temperature is `temperature`: labels are drawn from softmax(logits / temperature)."""
    generator = np.random.default_rng(seed)
    logits = spread * generator.standard_normal((rows, classes))
    labels = (softmax(logits, axis=1).cumsum(axis=1) > generator.random((rows, 1))).argmax(axis=1)
    return logits * temperature, labels


def nll(logits, labels, temperature=1.0):
    scaled = log_softmax(np.asarray(logits, dtype=np.float64) / temperature, axis=1)
    return -scaled[np.arange(len(labels)), labels].mean()


def exact_temperature(logits, labels):
    """The root of the gradient in 1/T, in extended precision."""
    wide = np.asarray(logits, dtype=np.longdouble)
    gold = wide[np.arange(len(labels)), labels]

    def gradient(beta):
        powers = np.exp(beta * (wide - wide.max(axis=1, keepdims=True)))
        return float(((powers * wide).sum(axis=1) / powers.sum(axis=1) - gold).mean())

    return 1 / brentq(gradient, 1 / 99, 1 / 0.011, xtol=1e-15, rtol=1e-14)


@pytest.mark.parametrize("temperature", OPTIMA)
def test_the_optimum_is_exact_from_very_sharp_to_very_flat_logits(temperature):
    logits, labels = sample(10_000, 10, temperature)
    fitted = TemperatureScaling().fit(logits, labels)
    assert fitted.temperature_ == pytest.approx(exact_temperature(logits, labels), rel=1e-9)
    assert fitted.temperature_ == pytest.approx(temperature, rel=0.05)
    assert fitted.at_bound_ is None
    assert fitted.n_iter_ <= 6


@pytest.mark.parametrize(("rows", "classes"), [(7, 2), (300, 3), (9000, 2), (500, 200)])
def test_the_optimum_is_exact_for_other_shapes_in_both_memory_layouts(rows, classes):
    logits, labels = sample(rows, classes, 2.0, seed=rows, spread=1.0)
    fitted = TemperatureScaling(guard=False).fit(logits, labels)
    assert fitted.temperature_ == pytest.approx(exact_temperature(logits, labels), rel=1e-9)


def test_losses_are_those_at_one_and_at_the_fitted_temperature():
    logits, labels = sample(20_000, 5, 3.0)
    fitted = TemperatureScaling().fit(logits, labels)
    assert fitted.nll_before_ == pytest.approx(nll(logits, labels), rel=1e-12)
    assert fitted.nll_after_ == pytest.approx(nll(logits, labels, fitted.temperature_), rel=1e-12)
    assert fitted.nll_after_ < fitted.nll_before_


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_low_precision_logits_are_computed_in_float64(dtype):
    logits, labels = sample(50_000, 3, 2.0)
    low = logits.astype(dtype)
    same = TemperatureScaling().fit(low.astype(np.float64), labels)
    fitted = TemperatureScaling().fit(low, labels)
    assert fitted.temperature_ == pytest.approx(same.temperature_, rel=1e-12)
    assert fitted.transform(low).dtype == np.float64


def widest_gap(logits):
    return (logits.max(axis=1) - logits.min(axis=1)).max()


@pytest.mark.parametrize("factor", [1e-9, 1.0, 1e3])
def test_without_the_guard_separable_rows_end_at_the_lower_bound_and_say_so(factor):
    logits = factor * sample(500, 3)[0]
    with pytest.warns(UserWarning, match="hit its lower bound .* no row, or nearly none, is misclassified"):
        fitted = TemperatureScaling(guard=False).fit(logits, logits.argmax(axis=1))
    assert fitted.temperature_ == pytest.approx(1e-6 * widest_gap(logits))
    assert (fitted.at_bound_, fitted.nll_after_, fitted.guarded_) == ("lower", 0.0, False)


@pytest.mark.parametrize("factor", [0.01, 1.0, 1e6])
def test_logits_that_point_away_from_the_labels_end_at_the_upper_bound_and_say_so(factor):
    logits, labels = sample(500, 2)
    logits *= -factor
    with pytest.warns(UserWarning, match="hit its upper bound .* nothing about the labels"):
        fitted = TemperatureScaling().fit(logits, labels)
    assert fitted.temperature_ == pytest.approx(100 * widest_gap(logits))
    assert fitted.at_bound_ == "upper"
    assert fitted.predict_proba(logits) == pytest.approx(0.5, abs=0.003)


def test_the_paper_grid_says_when_the_optimum_lies_outside_it():
    logits, labels = sample(500, 2)
    for scores, gold, temperature, bound in (
        (-logits, labels, 5.0, "upper"),
        (logits * 20, labels, 5.0, "upper"),
        (logits, logits.argmax(axis=1), 0.01, "lower"),
    ):
        with pytest.warns(UserWarning, match=f"{bound} bound {temperature:g}"):
            snapped = TemperatureScaling(preset="paper").fit(scores, gold)
        assert (snapped.temperature_, snapped.at_bound_) == (temperature, bound)


@pytest.mark.parametrize("temperature", [1e-12, 1e-3, 130.0, 1e4, 1e12])
def test_no_scale_of_the_logits_is_out_of_reach(temperature):
    """Naive Bayes on MNIST needs T = 130; logits of scale 10^4 had an NLL of 152 where 3.0 is possible."""
    logits, labels = sample(3000, 10)
    expected = TemperatureScaling().fit(logits, labels)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fitted = TemperatureScaling().fit(logits * temperature, labels)
    assert fitted.temperature_ == pytest.approx(expected.temperature_ * temperature, rel=1e-9)
    assert fitted.nll_after_ == pytest.approx(expected.nll_after_, rel=1e-12)
    assert fitted.at_bound_ is None
    assert fitted.n_iter_ <= 10


def guarded_loss(logits, labels, temperature):
    """The loss of the module's docstring, row by row."""
    scaled = log_softmax(logits / temperature, axis=1)
    rows = np.arange(len(labels))
    errors = (scaled[rows, labels] < scaled.max(axis=1)).sum()
    assumed = 0.25 * (1 - errors / 5)
    share = assumed / (len(labels) + assumed)
    runner_up = np.sort(scaled, axis=1)[:, -2]
    return -((1 - share) * scaled[rows, labels] + share * runner_up).mean()


def with_errors(count, rows=60, classes=4, seed=3):
    """Logits, and labels that are the largest logit but for `count` rows."""
    logits = np.random.default_rng(seed).normal(size=(rows, classes)) * 3
    labels = logits.argmax(axis=1)
    labels[:count] = logits[:count].argsort(axis=1)[:, -2]
    return logits, labels


@pytest.mark.parametrize("errors", [0, 1, 2, 4])
def test_with_few_errors_the_guard_assumes_a_share_of_one_more(errors):
    logits, labels = with_errors(errors)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        fitted = TemperatureScaling().fit(logits, labels)
    assert [("none of the 60 rows" in str(one.message)) for one in said] == [True] * (errors == 0)
    grid = np.geomspace(fitted.temperature_ / 3, fitted.temperature_ * 3, 301)
    best = min(guarded_loss(logits, labels, temperature) for temperature in grid)
    assert fitted.guarded_
    assert guarded_loss(logits, labels, fitted.temperature_) <= best + 1e-12
    assert fitted.nll_after_ == pytest.approx(nll(logits, labels, fitted.temperature_), rel=1e-9)


def test_from_five_errors_on_the_guard_is_off():
    logits, labels = with_errors(5)
    fitted = TemperatureScaling().fit(logits, labels)
    assert not fitted.guarded_
    assert fitted.temperature_ == TemperatureScaling(guard=False).fit(logits, labels).temperature_
    assert fitted.temperature_ == pytest.approx(exact_temperature(logits, labels), rel=1e-9)


def test_a_small_set_without_errors_does_not_make_new_rows_certain():
    """Sharpening to T = 0.01 gave new rows a mean NLL of 2.8 where the logits as they are have 0.15."""
    logits, labels = sample(20_000, 3, spread=8.0)
    generator = np.random.default_rng(0)
    right = np.flatnonzero(logits.argmax(axis=1) == labels)
    losses = []
    for _ in range(20):
        chosen = generator.choice(right, 40, replace=False)
        with pytest.warns(UserWarning, match="none of the 40 rows is misclassified"):
            fitted = TemperatureScaling().fit(logits[chosen], labels[chosen])
        losses.append(nll(logits, labels, fitted.temperature_))
    assert nll(logits, labels) < 0.2
    assert np.mean(losses) < 1.2 * nll(logits, labels)


def test_one_wrong_row_in_many_is_found_though_the_sample_for_the_start_misses_it():
    generator = np.random.default_rng(0)
    logits = generator.normal(size=(30_000, 2)) + np.array([3.0, -3.0])
    labels = logits.argmax(axis=1)
    wrong = 30_000 // 2 + 1
    logits[wrong], labels[wrong] = (4.0, 1.0), 1
    fitted = TemperatureScaling(guard=False).fit(logits, labels)
    assert fitted.temperature_ == pytest.approx(exact_temperature(logits, labels), rel=1e-9)
    assert fitted.n_iter_ < 25


def test_constant_logits_are_left_alone():
    fitted = TemperatureScaling().fit(np.full((4, 3), 7.0), [0, 1, 2, 0])
    assert (fitted.temperature_, fitted.at_bound_) == (1.0, None)
    assert fitted.nll_after_ == pytest.approx(np.log(3), rel=1e-12)


def test_weights_count_rows():
    logits, labels = sample(400, 4, 1.7)
    counts = np.random.default_rng(1).integers(0, 4, size=400)
    repeated = TemperatureScaling().fit(np.repeat(logits, counts, axis=0), np.repeat(labels, counts))
    weighted = TemperatureScaling().fit(logits, labels, sample_weight=counts)
    assert weighted.temperature_ == pytest.approx(repeated.temperature_, rel=1e-10)
    assert weighted.nll_after_ == pytest.approx(repeated.nll_after_, rel=1e-12)
    assert weighted.nll_before_ == pytest.approx(repeated.nll_before_, rel=1e-12)


finite_logits = hnp.arrays(
    np.float64,
    st.tuples(st.integers(2, 12), st.integers(2, 5)),
    elements=st.floats(-30, 30, allow_nan=False, width=32),
)


@settings(max_examples=150, deadline=None)
@given(finite_logits, st.data())
def test_no_temperature_of_the_range_is_better(logits, data):
    labels = data.draw(hnp.arrays(np.int64, len(logits), elements=st.integers(0, logits.shape[1] - 1)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted = TemperatureScaling(guard=False).fit(logits, labels)
    widest = widest_gap(logits)
    ends = (min(1e-6 * widest, 1.0), max(100 * widest, 1.0)) if widest else (1.0, 1.0)
    assert ends[0] * (1 - 1e-12) <= fitted.temperature_ <= ends[1] * (1 + 1e-12)
    best = min(nll(logits, labels, temperature) for temperature in np.geomspace(*ends, 80))
    assert nll(logits, labels, fitted.temperature_) <= best + 1e-12 * max(1.0, best)
    assert fitted.nll_after_ <= fitted.nll_before_ + 1e-12 * max(1.0, fitted.nll_before_)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.floats(0.05, 20.0))
def test_scaling_the_logits_scales_the_temperature(seed, factor):
    for logits, labels in (sample(200, 3, 1.2, seed=seed), with_errors(seed % 5, seed=seed)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            one = TemperatureScaling().fit(logits, labels).temperature_
            scaled = TemperatureScaling().fit(logits * factor, labels).temperature_
        assert scaled == pytest.approx(one * factor, rel=1e-8)


@settings(max_examples=40, deadline=None)
@given(finite_logits, st.floats(-50, 50))
def test_a_shift_of_a_row_and_the_predicted_class_do_not_matter(logits, shift):
    logits, shift = np.round(logits, 3), round(shift, 3)  # differences of 1e-14 are lost in the sum itself
    labels = np.arange(len(logits)) % logits.shape[1]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted = TemperatureScaling().fit(logits, labels)
    calibrated = fitted.predict_proba(logits)
    np.testing.assert_allclose(fitted.predict_proba(logits + shift), calibrated, atol=1e-9)
    np.testing.assert_array_equal(fitted.predict(logits), logits.argmax(axis=1))
    np.testing.assert_allclose(calibrated, softmax(logits / fitted.temperature_, axis=1), atol=1e-14)


def exhaustive_grid(logits, labels):
    """The papers' search: every point of 0.01, 0.02, ..., 5.00, a later one only if strictly better."""
    best, best_loss = None, np.inf
    for k in range(1, 501):
        loss = TemperatureLoss(logits, labels, None).nll(1 / (k / 100))
        if loss < best_loss:
            best, best_loss = k / 100, loss
    return best, best_loss


@pytest.mark.parametrize("seed", range(40))
def test_the_paper_preset_equals_the_exhaustive_grid(seed):
    generator = np.random.default_rng(seed)
    true = float(10 ** generator.uniform(-2.3, 1.0))
    rows, classes = int(generator.integers(2, 60)), int(generator.integers(2, 6))
    logits, labels = sample(rows, classes, true, seed=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted = TemperatureScaling(preset="paper").fit(logits, labels)
    assert (fitted.temperature_, fitted.nll_after_) == exhaustive_grid(logits, labels)


@pytest.mark.parametrize(
    ("logits", "labels"),
    [
        ([[1.0, 0.0], [0.0, 2.0]], [0, 1]),  # separable: the first grid point
        ([[1.0, 0.0], [0.0, 2.0]], [1, 0]),  # all wrong: the last
        ([[3.0, 3.0], [1.0, 1.0]], [1, 0]),  # constant: all are equal, the first is kept
        ([[0.0, 1.0], [1.0, 1.0]], [1, 0]),  # separable but for a tie: equal losses over many points
    ],
)
def test_the_paper_preset_equals_the_exhaustive_grid_at_its_ends(logits, labels):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted = TemperatureScaling(preset="paper").fit(logits, labels)
    assert fitted.temperature_ == exhaustive_grid(np.array(logits), np.array(labels))[0]


def test_an_unknown_preset_is_refused():
    with pytest.raises(ValueError, match="preset must be None or 'paper'"):
        TemperatureScaling(preset="papers").fit([[0.0, 1.0]], [1])


def test_logits_too_far_apart_to_square_are_refused():
    with pytest.raises(ValueError, match="the limit is"):
        TemperatureScaling().fit([[1e200, 0.0], [0.0, 1.0]], [0, 1])


def test_it_folds_as_one_scale():
    logits, labels = sample(300, 3, 2.5)
    fitted = TemperatureScaling().fit(logits, labels)
    assert fitted.folds
    assert fitted.folding() == (1 / fitted.temperature_, 0.0)
    scale, bias = fitted.folding()
    np.testing.assert_allclose(scale * logits + bias, fitted.transform(logits), rtol=1e-14)


def test_newton_creeps_neither_on_exponential_tails_nor_on_kinks():
    """exp(-b) + 1e-9 b falls for long with a Newton step of 1; its minimum is at 9 log 10."""
    optimum = minimise(lambda b: Derivatives(np.exp(-b) + 1e-9 * b, 1e-9 - np.exp(-b), np.exp(-b)), start=0.5)
    assert optimum.beta == pytest.approx(9 * np.log(10), rel=1e-12)
    assert optimum.passes < 40


def test_it_agrees_with_scikit_learn():
    calibration = pytest.importorskip("sklearn.calibration")
    if not hasattr(calibration, "_TemperatureScaling"):
        pytest.skip("this scikit-learn has no temperature scaling")
    for temperature in (0.5, 1.0, 4.0):
        logits, labels = sample(5000, 10, temperature)
        theirs = 1 / calibration._TemperatureScaling().fit(logits, labels).beta_
        assert TemperatureScaling().fit(logits, labels).temperature_ == pytest.approx(theirs, rel=1e-6)


def test_it_agrees_with_probmetrics():
    calibrators = pytest.importorskip("probmetrics.calibrators")
    distributions = pytest.importorskip("probmetrics.distributions")
    import torch

    for temperature in (0.05, 1.0, 29.6):
        logits, labels = sample(5000, 10, temperature)
        predicted = distributions.CategoricalLogits(torch.as_tensor(logits))
        theirs = calibrators.TemperatureScalingCalibrator().fit_torch(predicted, torch.as_tensor(labels))
        fitted = TemperatureScaling().fit(logits, labels)
        assert fitted.temperature_ == pytest.approx(1 / theirs.invtemp_, rel=1e-6)
