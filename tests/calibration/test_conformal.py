"""Prediction sets: the formula row by row, MAPIE's sets, and coverage over many splits."""

import numpy as np
import pytest
from scipy.special import softmax
from scipy.stats import binom

from calmix.calibration.conformal import (
    SET_METHODS,
    ConformalSets,
    conformal_quantile,
    conformity_scores,
    evaluate_sets,
    rows_needed,
)
from calmix.calibration.predictions import Predictions


def drawn(rows, classes=4, *, seed=0, sharpness=1.5):
    """Predictions that are overconfident on purpose: the guarantee does not need calibration."""
    generator = np.random.default_rng(seed)
    logits = sharpness * generator.standard_normal((rows, classes))
    labels = (logits / 2 + generator.gumbel(size=logits.shape)).argmax(axis=1)
    return Predictions.from_logits(logits, labels)


def slow_scores(row, method, u, penalty, free):
    """From the formula, class by class."""
    found = []
    for k, p in enumerate(row):
        before = [j for j, q in enumerate(row) if q > p or (q == p and j < k)]
        score = 1 - p if method == "lac" else sum(row[j] for j in before) + u * p
        found.append(score + (penalty * max(len(before) + 1 - free, 0) if method == "raps" else 0))
    return found


@pytest.mark.parametrize("method", SET_METHODS)
def test_scores_are_their_formula(method):
    predictions = drawn(50, 5)
    probabilities = np.round(predictions.probabilities(), 2)  # ties among them
    probabilities[0] = 0.2
    draws = np.random.default_rng(1).random(50)
    found = conformity_scores(probabilities, method, draws, 0.3, 2)
    expected = [slow_scores(row, method, u, 0.3, 2) for row, u in zip(probabilities, draws, strict=True)]
    np.testing.assert_allclose(found, expected, atol=1e-12)


@pytest.mark.parametrize("coverage", [0.8, 0.9, 0.95])
def test_lac_sets_are_those_of_mapie(coverage):
    pytest.importorskip("mapie")
    from mapie.classification import SplitConformalClassifier
    from sklearn.base import BaseEstimator, ClassifierMixin

    class Given(ClassifierMixin, BaseEstimator):
        """A classifier whose features are its probabilities."""

        classes_ = np.arange(4)

        def fit(self, X, y):
            return self

        def predict(self, X):
            return X.argmax(axis=1)

        def predict_proba(self, X):
            return X

        def __sklearn_is_fitted__(self):
            return True

    held_out, new = drawn(217, seed=1), drawn(300, seed=2)
    theirs = SplitConformalClassifier(Given(), confidence_level=coverage, conformity_score="lac", prefit=True)
    theirs.conformalize(held_out.probabilities(), held_out.labels)
    _, expected = theirs.predict_set(new.probabilities())
    found = ConformalSets("lac", coverage=coverage, allow_empty=True).fit(held_out).predict(new)
    np.testing.assert_array_equal(found, expected[:, :, 0])


@pytest.mark.parametrize("method", SET_METHODS)
@pytest.mark.parametrize("class_conditional", [False, True])
def test_coverage_over_a_thousand_splits_is_the_promised_one(method, class_conditional):
    """Coverage of one new row per split is an exact draw of the guarantee: 1,000 Bernoulli trials."""
    coverage, rows, splits = 0.9, 60, 1000
    pool = drawn((rows + 1) * splits, 3, seed=3)
    hits, truth = 0, pool.labels.reshape(splits, rows + 1)
    for number in range(splits):
        chosen = np.arange(number * (rows + 1), (number + 1) * (rows + 1))
        sets = ConformalSets(
            method, coverage=coverage, class_conditional=class_conditional, allow_empty=True, seed=number
        ).fit(pool.select(chosen[:-1]))
        hits += bool(sets.predict(pool.select(chosen[-1:]))[0, truth[number, -1]])
    upper = (
        1.0 if class_conditional else binom.ppf(0.999, splits, coverage + 1 / (rows + 1)) / splits
    )  # a class with few rows is always in
    assert binom.ppf(0.001, splits, coverage) / splits <= hits / splits <= upper


def test_class_conditional_sets_cover_every_class():
    """A rare class that the model neglects is missed by plain sets, and held by class-conditional ones."""
    generator = np.random.default_rng(5)

    def neglecting(rows):
        labels = (generator.random(rows) < 0.1).astype(int)
        positive = np.where(labels == 1, 0.25, 0.03) * generator.random(rows)
        return Predictions.from_probabilities(np.column_stack([1 - positive, positive]), labels)

    held_out, new = neglecting(3000), neglecting(3000)
    plain = evaluate_sets(ConformalSets(coverage=0.9).fit(held_out).predict(new), new.labels)
    conditional = ConformalSets(coverage=0.9, class_conditional=True).fit(held_out)
    fair = evaluate_sets(conditional.predict(new), new.labels)
    assert plain.coverage_by_class[1] < 0.3
    assert min(fair.coverage_by_class) > 0.85


def test_too_few_rows_give_sets_of_all_classes_and_say_so():
    few = drawn(8, 3)
    sets = ConformalSets(coverage=0.9).fit(few)
    assert sets.predict(drawn(5, 3, seed=9)).all()
    assert sets.unbounded_classes() == ["0", "1", "2"]
    assert rows_needed(0.9) == 9
    assert conformal_quantile(np.zeros(9), 0.9) == 0.0


@pytest.mark.parametrize("coverage", [0.5, 0.8, 0.9, 0.95, 0.99, 0.999, 0.9999, 1 / 3, 0.1])
def test_the_rows_needed_are_the_fewest(coverage):
    least = rows_needed(coverage)
    assert np.isfinite(conformal_quantile(np.zeros(least), coverage))
    assert least == 1 or np.isinf(conformal_quantile(np.zeros(least - 1), coverage))


def test_a_set_is_empty_only_on_request_and_then_holds_no_less_than_promised():
    held_out, new = drawn(500, sharpness=4.0), drawn(500, seed=1, sharpness=4.0)
    strict = ConformalSets(coverage=0.5, allow_empty=True).fit(held_out).predict(new)
    filled = ConformalSets(coverage=0.5).fit(held_out).predict(new)
    assert (strict.sum(axis=1) == 0).any()
    assert (filled.sum(axis=1) >= 1).all()
    assert (filled >= strict).all()


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: ConformalSets("top-k"), "method must be one of lac, aps, raps"),
        (lambda: ConformalSets(coverage=1.0), "coverage must be between 0 and 1"),
        (lambda: ConformalSets(coverage=float("nan")), "coverage must be between 0 and 1"),
        (lambda: ConformalSets(penalty=float("nan")), "penalty"),
        (lambda: ConformalSets(free_classes=-1), "free_classes"),
        (lambda: ConformalSets().predict([[0.5, 0.5]]), "not fitted"),
        (lambda: ConformalSets().fit(drawn(20, 3)).predict([[0.5, 0.5]]), "2 classes, but fitted on 3"),
        (lambda: ConformalSets().fit(drawn(20, 2)).predict([[0.5, 0.9]]), "sum"),
        (lambda: evaluate_sets(np.ones((2, 2), bool), [0]), "2 rows of scores but"),
    ],
)
def test_what_cannot_be_is_refused(call, words):
    with pytest.raises(ValueError, match=words):
        call()


def test_classes_are_matched_by_name_whatever_their_order():
    """One threshold for each class: in another order of columns they are still those of the classes."""
    generator = np.random.default_rng(0)
    chances = softmax(1.5 * generator.standard_normal((900, 3)) + np.array([1.5, 0.0, -1.0]), axis=1)
    labels = (chances.cumsum(axis=1) < generator.random((900, 1))).sum(axis=1)
    rows = Predictions.from_probabilities(chances, labels, class_names=["a", "b", "c"])
    held_out, new = rows.select(np.arange(600)), rows.select(np.arange(600, 900))
    sets = ConformalSets(coverage=0.9, class_conditional=True).fit(held_out)
    expected = sets.predict(new)
    moved = sets.predict(new.with_class_order(["c", "a", "b"]))
    np.testing.assert_array_equal(moved, expected[:, [2, 0, 1]])
    with pytest.raises(ValueError, match="the classes differ"):
        sets.predict(Predictions.from_probabilities(new.values, new.labels, class_names=["a", "b", "d"]))
    without_names = Predictions.from_probabilities(new.values, new.labels)
    np.testing.assert_array_equal(sets.predict(without_names), expected)


def test_labels_of_sets_are_class_indices():
    sets = np.array([[True, False], [True, True]])
    assert evaluate_sets(sets, np.array([True, False])).coverage == 0.5
    assert evaluate_sets(sets, [1.0, 0.0]).coverage == 0.5
    for labels in ([-1, 0], [0, 2], [0.5, 0.0]):
        with pytest.raises(ValueError, match="label"):
            evaluate_sets(sets, labels)
    with pytest.raises(ValueError, match="true or false"):
        evaluate_sets(np.array([[0.9, 0.1]]), [0])


def test_rows_that_count_differently_are_refused():
    given = drawn(20, 2)
    for weighted in (
        given.with_rows(weights=np.arange(1.0, 21)),
        given.with_rows(targets=given.probabilities()),
    ):
        with pytest.raises(ValueError, match="weights or soft labels"):
            ConformalSets().fit(weighted)
