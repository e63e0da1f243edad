"""Metrics, scaling and thresholds of several labels, against scikit-learn."""

import json
import warnings

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import (
    accuracy_score,
    average_precision_score,
    brier_score_loss,
    f1_score,
    hamming_loss,
    log_loss,
    precision_score,
    recall_score,
)
from sklearn.preprocessing import MultiLabelBinarizer

from calmix import LabelScaling, MultiLabelPredictions, UserError, evaluate_labels
from calmix.calibration.evaluation import evaluate
from calmix.calibration.multi_label.label_scaling import cross_validated_labels, load_label_scaling
from calmix.calibration.multi_label.label_thresholds import best_threshold, best_thresholds

NAMES = ("anger", "film", "joy", "never")


def sample(rows=400, seed=0, scale=2.0, shift=0.7):
    """Overconfident, shifted logits of three labels that occur, and of one that no row has."""
    generator = np.random.default_rng(seed)
    true = generator.normal([-1.0, 0.0, -2.5], 1.5, (rows, 3))
    targets = generator.random((rows, 3)) < 1 / (1 + np.exp(-true))
    logits = np.column_stack([scale * true + shift, generator.normal(-3, 1, rows)])
    return logits, np.column_stack([targets, np.zeros(rows, dtype=bool)])


@pytest.fixture
def predictions():
    return MultiLabelPredictions.from_logits(*sample(), label_names=NAMES)


def test_every_metric_is_that_of_scikit_learn(predictions):
    thresholds = {"anger": 0.7, "film": 0.4, "joy": 0.5, "never": 0.001}
    found = evaluate_labels(predictions, thresholds=thresholds)
    truth, probability = predictions.targets.astype(int), predictions.probabilities()
    decided = (probability >= list(thresholds.values())).astype(int)
    for place, name in enumerate(NAMES):
        one, y, p = found["per_label"][name], truth[:, place], probability[:, place]
        assert one["positives"] == y.sum() and one["threshold"] == thresholds[name]
        assert one["nll"] == pytest.approx(log_loss(y, p, labels=[0, 1]), rel=1e-9)
        assert one["brier"] == pytest.approx(brier_score_loss(y, p), rel=1e-9)
        assert one["f1"] == pytest.approx(f1_score(y, decided[:, place]))
        if name != "never":
            assert one["average_precision"] == pytest.approx(average_precision_score(y, p))
            assert one["precision"] == pytest.approx(precision_score(y, decided[:, place]))
            assert one["recall"] == pytest.approx(recall_score(y, decided[:, place]))
    assert found["per_label"]["never"]["average_precision"] is None
    assert found["subset_accuracy"] == pytest.approx(accuracy_score(truth, decided))
    assert found["hamming_loss"] == pytest.approx(hamming_loss(truth, decided))
    for average in ("micro", "macro"):
        assert found[average]["f1"] == pytest.approx(f1_score(truth, decided, average=average))
    assert found["micro"]["average_precision"] == pytest.approx(
        average_precision_score(truth, probability, average="micro")
    )
    seen = [average_precision_score(truth[:, k], probability[:, k]) for k in range(3)]
    assert found["macro"]["average_precision"] == pytest.approx(np.mean(seen))
    assert found["macro"]["nll"] == pytest.approx(found["micro"]["nll"])
    json.dumps(found, allow_nan=False)


def test_f1_where_nothing_is_there_and_nothing_predicted_is_left_out_of_the_mean(predictions):
    found = evaluate_labels(predictions, thresholds={"never": 0.999}, intervals=False)
    decided = (predictions.probabilities() >= [0.5, 0.5, 0.5, 0.999]).astype(int)
    expected = f1_score(predictions.targets, decided, average="macro", zero_division=np.nan)
    assert found["per_label"]["never"]["f1"] is None
    assert found["macro"]["f1"] == pytest.approx(expected)


def test_intervals_of_a_label_are_those_of_evaluate(predictions):
    found = evaluate_labels(predictions, bins=(15, 10), seed=3)["per_label"]["film"]
    whole = evaluate(predictions.of_label(1), notion="positive", bins=(15, 10), seed=3)
    for name in ("nll", "nll_ci", "ece", "ece_ci", "ece_corrected", "ece_10_bins", "ece_10_bins_ci"):
        assert found[name] == pytest.approx(whole[name], rel=1e-9)
    assert found["brier_ci"] == pytest.approx([limit / 2 for limit in whole["brier_ci"]])
    assert found["ece_noise_floor"] == pytest.approx(whole["ece_noise_floor"], rel=0.15)


def test_intervals_over_all_labels_hold_their_values(predictions):
    found = evaluate_labels(predictions)
    for part, name in (("macro", "nll"), ("macro", "brier"), ("macro", "f1"), ("micro", "f1")):
        low, high = found[part][f"{name}_ci"]
        assert low < found[part][name] < high
    for name in ("subset_accuracy", "hamming_loss"):
        assert found[f"{name}_ci"][0] < found[name] < found[f"{name}_ci"][1]


def test_labels_by_name_are_those_of_a_binarizer():
    lists = [["joy", "anger"], [], ["film"], ["joy"]]
    names = sorted({name for one in lists for name in one})
    made = MultiLabelPredictions.from_probabilities(np.full((4, 3), 0.5), lists, label_names=names)
    expected = MultiLabelBinarizer(classes=names).fit_transform(lists)
    np.testing.assert_array_equal(made.targets, expected.astype(bool))


@pytest.mark.parametrize("place", range(3))
def test_platt_is_the_logistic_regression_of_the_label_on_its_logit(place):
    logits, targets = sample(rows=3000)
    fitted = LabelScaling(smoothing=False).fit(logits[:, :3], targets[:, :3])
    reference = LogisticRegression(C=np.inf, tol=1e-10, max_iter=1000)
    reference.fit(logits[:, [place]], targets[:, place])
    assert fitted.scale_[place] == pytest.approx(reference.coef_[0, 0], rel=1e-4)
    assert fitted.bias_[place] == pytest.approx(reference.intercept_[0], abs=1e-4)
    np.testing.assert_allclose(
        fitted.predict_proba(logits[:, :3])[:, place],
        reference.predict_proba(logits[:, [place]])[:, 1],
        atol=1e-5,
    )


def test_temperature_is_the_regression_without_an_intercept():
    logits, targets = sample(rows=3000)
    fitted = LabelScaling("temperature").fit(logits[:, :3], targets[:, :3])
    for place in range(3):
        reference = LogisticRegression(C=np.inf, tol=1e-10, fit_intercept=False)
        reference.fit(logits[:, [place]], targets[:, place])
        assert fitted.scale_[place] == pytest.approx(reference.coef_[0, 0], rel=1e-4)
    assert not fitted.bias_.any()


@pytest.mark.parametrize("method", ["platt", "temperature"])
def test_labels_about_which_the_logits_say_nothing_are_named(method):
    logits, targets = sample(rows=600)
    turned = np.column_stack([logits[:, 0], -logits[:, 1]])
    given = MultiLabelPredictions.from_logits(turned, targets[:, :2], label_names=("told", "silent"))
    with pytest.warns(UserWarning) as said:
        LabelScaling(method).fit(given)
    (message,) = [str(warning.message) for warning in said]
    assert "silent" in message and "told" not in message


def test_a_label_that_no_row_has_stays_as_it_is_and_is_named(predictions):
    with pytest.warns(UserWarning, match="never"):
        fitted = LabelScaling().fit(predictions)
    assert fitted.unfitted_ == ("never",)
    assert (fitted.scale_[3], fitted.bias_[3]) == (1.0, 0.0)
    assert fitted.nll_after_ < fitted.nll_before_


def test_a_label_that_the_logits_rank_the_wrong_way_keeps_its_ranking_and_its_share():
    logits, targets = sample(rows=600)
    reversed_ = -logits[:, :3]
    with pytest.warns(UserWarning, match="the logits say nothing about these labels"):
        fitted = LabelScaling().fit(reversed_, targets[:, :3])
    assert (fitted.scale_ == 0.01).all()
    np.testing.assert_allclose(
        fitted.predict_proba(reversed_).mean(axis=0), targets[:, :3].mean(axis=0), atol=1e-9
    )


def test_a_saved_scaling_gives_the_same_bits(predictions, tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted = LabelScaling().fit(predictions)
    fitted.save(tmp_path)
    again = load_label_scaling(tmp_path)
    shuffled = predictions.with_label_order(("joy", "never", "anger", "film"))
    np.testing.assert_array_equal(again.calibrate(shuffled).values, fitted.calibrate(shuffled).values)
    np.testing.assert_array_equal(again.transform(predictions), fitted.calibrate(predictions).values)
    assert again.unfitted_ == fitted.unfitted_
    (tmp_path / "calibrator.json").write_text("{}")
    with pytest.raises(UserError, match="several labels"):
        load_label_scaling(tmp_path)


def test_cross_validation_calibrates_every_row_by_a_fit_on_others(predictions):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted = LabelScaling().fit(predictions)
    repeated = cross_validated_labels(fitted, predictions)
    before, after = evaluate_labels(predictions)["macro"], evaluate_labels(repeated)["macro"]
    assert fitted.nll_after_ < after["nll"] < before["nll"]
    assert cross_validated_labels(fitted, predictions.select(np.arange(5))) is None


@pytest.mark.parametrize("seed", range(5))
def test_no_threshold_has_a_higher_f1(seed):
    generator = np.random.default_rng(seed)
    scores = generator.random(60).round(2)  # with ties
    positive = generator.random(60) < scores
    chosen = best_threshold(scores, positive)
    # Every other threshold separates the rows as one of these does.
    every = [f1_score(positive, scores >= cut) for cut in np.append(np.unique(scores), 1.1)]
    assert f1_score(positive, scores >= chosen) == pytest.approx(max(every))
    assert np.abs(scores - chosen).min() > 1e-9  # rounding moves no row over it


def test_thresholds_of_labels_without_two_sides_are_a_half(predictions):
    assert best_thresholds(predictions)["never"] == 0.5
    assert best_threshold([0.2, 0.9], [1, 1]) is None


@pytest.mark.parametrize(
    ("scores", "labels", "problem"),
    [
        ([[0.5, 1.2]], [[1, 0]], r"\[0, 1\]"),
        ([[0.5, float("nan")]], [[1, 0]], "finite"),
        ([[0.5, 0.5]], [[1, 2]], "0 or 1"),
        ([[0.5, 0.5]], [["z"]], "none of the labels"),
        ([[0.5, 0.5]], [[1, 0], [0, 1]], "labels of 2 rows"),
        ([0.5, 0.5], [[1, 0]], "shape"),
        ([[0.5, 0.5]], [[1, 0, 1]], "shape"),
    ],
)
def test_what_makes_no_sense_is_refused(scores, labels, problem):
    with pytest.raises(ValueError, match=problem):
        MultiLabelPredictions.from_probabilities(scores, labels, label_names=("a", "b"))


def test_a_text_is_not_a_list_of_one_letter_labels():
    with pytest.raises(ValueError, match=r"not the text 'ab' \(row 1\)"):
        MultiLabelPredictions.from_logits([[1.0, 2.0]] * 2, [["a"], "ab"], label_names=["a", "b"])
