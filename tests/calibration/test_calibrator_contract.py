"""Calibrators under scikit-learn's own checks, and with `Predictions`."""

from __future__ import annotations

import numpy as np
import pandas
import pytest
from scipy.special import log_softmax, softmax
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

from calmix.calibration.calibrators.calibrator import CALIBRATORS, get_calibrator
from calmix.calibration.predictions import Predictions

ONE_COLUMN_PER_CLASS = "logits have one column per class, and the data of the check do not"
CLASS_INDICES = "labels are the positions of the columns; names belong to Predictions.class_names"
OWN_WORDS = "refused, in calmix's own words"
NOT_APPLICABLE = {
    "check_estimators_overwrite_params": ONE_COLUMN_PER_CLASS,
    "check_estimators_fit_returns_self": ONE_COLUMN_PER_CLASS,
    "check_readonly_memmap_input": ONE_COLUMN_PER_CLASS,
    "check_sample_weights_pandas_series": ONE_COLUMN_PER_CLASS,
    "check_sample_weights_not_an_array": ONE_COLUMN_PER_CLASS,
    "check_sample_weights_shape": ONE_COLUMN_PER_CLASS,
    "check_sample_weights_not_overwritten": ONE_COLUMN_PER_CLASS,
    "check_classifier_data_not_an_array": ONE_COLUMN_PER_CLASS,
    "check_classifiers_train": ONE_COLUMN_PER_CLASS,
    "check_classifiers_classes": CLASS_INDICES,
    "check_supervised_y_2d": CLASS_INDICES,
    "check_n_features_in_after_fitting": OWN_WORDS,
    "check_all_zero_sample_weights_error": OWN_WORDS,
    "check_complex_data": OWN_WORDS,
    "check_dtype_object": OWN_WORDS,
    "check_estimators_empty_data_messages": OWN_WORDS,
    "check_estimators_nan_inf": OWN_WORDS,
    "check_estimator_sparse_tag": OWN_WORDS,
    "check_estimator_sparse_array": OWN_WORDS,
    "check_estimator_sparse_matrix": OWN_WORDS,
    "check_classifiers_regression_target": OWN_WORDS,
    "check_fit2d_1feature": OWN_WORDS,
    "check_fit2d_predict1d": OWN_WORDS,
}
# Vector scaling of separable rows is temperature scaling.
SAME_CLASS = {"check_classifiers_one_label": "temperature scaling never changes the predicted class"}


def not_applicable(estimator):
    is_temperature = estimator.kind in ("temperature", "structured", "vector", "auto")  # of few rows
    return NOT_APPLICABLE | (SAME_CLASS if is_temperature else {})


# Platt scaling takes two columns, and the checks bring three or more.
@pytest.mark.filterwarnings("ignore")
@parametrize_with_checks(
    [get_calibrator(name) for name in CALIBRATORS if name != "platt"],
    expected_failed_checks=not_applicable,
)
def test_scikit_learns_own_check(estimator, check):
    check(estimator)


def sample(rows=400, classes=2, seed=0):
    generator = np.random.default_rng(seed)
    logits = 2 * generator.standard_normal((rows, classes))
    labels = (softmax(logits, axis=1).cumsum(axis=1) > generator.random((rows, 1))).argmax(axis=1)
    return 2.5 * logits, labels


@pytest.fixture(params=CALIBRATORS)
def name(request):
    return request.param


def test_probabilities_are_never_taken_for_logits(name):
    logits, labels = sample()
    of_logits = Predictions.from_logits(logits, labels)
    of_probabilities = Predictions.from_probabilities(softmax(logits, axis=1), labels)
    if name == "vector":  # alone in seeing a shift of a row's logits, and a logarithm shifts them
        logits = log_softmax(logits, axis=1)
        of_logits = Predictions.from_logits(logits, labels)
    expected = get_calibrator(name).fit(logits, labels).predict_proba(logits)
    for fitting in (of_logits, of_probabilities):
        fitted = get_calibrator(name).fit(fitting)
        for asked in (of_logits, of_probabilities, logits):
            np.testing.assert_allclose(fitted.predict_proba(asked), expected, atol=1e-6)
            np.testing.assert_allclose(softmax(fitted.transform(asked), axis=1), expected, atol=1e-6)
            np.testing.assert_array_equal(fitted.predict(asked), expected.argmax(axis=1))


def test_labels_come_from_the_predictions_unless_they_are_given(name):
    logits, labels = sample()
    predictions = Predictions.from_logits(logits, np.zeros_like(labels))
    given = get_calibrator(name).fit(predictions, labels).predict_proba(logits)
    np.testing.assert_array_equal(given, get_calibrator(name).fit(X=logits, y=labels).predict_proba(logits))
    with pytest.raises(ValueError, match="requires y to be passed"):
        get_calibrator(name).fit(logits)


def test_fit_transform_and_set_output_follow_scikit_learn(name):
    logits, labels = sample()
    expected = get_calibrator(name).fit(logits, labels).transform(logits)
    np.testing.assert_array_equal(get_calibrator(name).fit_transform(logits, labels), expected)
    frame = pandas.DataFrame(logits, columns=["no", "yes"])
    shown = get_calibrator(name).set_output(transform="pandas").fit_transform(frame, labels)
    assert list(shown.columns) == ["no", "yes"]
    np.testing.assert_allclose(shown.to_numpy(), expected, atol=1e-12)  # another memory layout
    with pytest.raises(ValueError, match="feature names should match"):
        get_calibrator(name).fit(frame, labels).transform(frame[["yes", "no"]])


def test_a_pipeline_ends_with_it(name):
    logits, labels = sample()
    pipeline = make_pipeline(get_calibrator(name)).fit(logits, labels)
    expected = get_calibrator(name).fit(logits, labels).predict_proba(logits)
    np.testing.assert_array_equal(pipeline.predict_proba(logits), expected)
