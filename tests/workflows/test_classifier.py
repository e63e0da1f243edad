"""`CalibratedTextClassifier` keeps the contract of scikit-learn estimators."""

import io

import joblib
import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone, is_classifier
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils import estimator_checks

import calmix as api
from calmix.user_error import UserError
from marking import marking


@pytest.fixture(scope="module")
def estimator(small):
    return api.CalibratedTextClassifier(
        **{**small, "model": str(small["model"])}, method="cls-mixup", alpha=0.5
    )


@pytest.fixture(scope="module")
@marking("trains")
def fitted(estimator, frames):
    frame = frames("train")
    return clone(estimator).fit(frame["text"].tolist(), frame["label"].to_numpy())


def test_probabilities_are_those_of_the_same_run(fitted, frames, small, tmp_path):
    frame, test = frames("train"), frames("test")["text"]
    run = api.train(
        texts=frame["text"], labels=(frame["label"] == "positive").astype(int), method="cls-mixup", alpha=0.5,
        output=tmp_path / "run", **small,
    )  # fmt: skip
    expected = api.predict(run, test.tolist())
    probabilities = fitted.predict_proba(test)
    assert probabilities.max(axis=1).tolist() == pytest.approx(expected.confidence, abs=1e-9)
    assert fitted.predict(test).tolist() == [fitted.classes_[int(label)] for label in expected.labels]
    assert fitted.classes_.tolist() == ["negative", "positive"]
    assert fitted.temperature_ == run.temperature
    assert fitted.metrics_.calibrated.ece == run.metrics["validation"].calibrated.ece
    assert 0 <= fitted.score(test, frames("test")["label"]) <= 1


def test_parameters_are_the_options(estimator):
    parameters = estimator.get_params()
    assert parameters["method"] == "cls-mixup"
    assert {"epochs", "learning_rate", "label_smoothing", "max_length", "seed", "trainer"} <= set(parameters)
    copy = clone(estimator).set_params(seed=3)
    assert (copy.seed, estimator.seed) == (3, 0)
    assert "method='cls-mixup'" in repr(estimator)
    assert is_classifier(estimator)
    with pytest.raises(UserError, match="no such option 'epoch'; did you mean 'epochs'"):
        api.CalibratedTextClassifier(epoch=3)
    with pytest.raises(ValueError, match="Invalid parameter 'epoch'"):
        clone(estimator).set_params(epoch=3)


def test_a_fitted_one_is_pickled_with_its_network(fitted, frames):
    stream = io.BytesIO()
    joblib.dump(fitted, stream)
    stream.seek(0)
    texts = frames("other")["text"].tolist()
    assert np.array_equal(joblib.load(stream).predict_proba(texts), fitted.predict_proba(texts))


@pytest.mark.trains
def test_pipelines_and_cross_validation(estimator, frames):
    frame = frames("train")
    pipeline = make_pipeline(
        FunctionTransformer(lambda texts: [text.lower() for text in texts]), clone(estimator)
    )
    found = cross_validate(
        pipeline, frame["text"], frame["label"], cv=2, scoring=["accuracy", "neg_log_loss"]
    )
    assert np.isfinite(found["test_neg_log_loss"]).all()
    assert ((found["test_accuracy"] > 0) & (found["test_accuracy"] <= 1)).all()


@pytest.mark.trains
def test_labels_of_any_kind_come_back_as_they_were(estimator, frames):
    frame = frames("train")
    numbers = np.where(frame["label"] == "positive", 10, 2)
    fitted = clone(estimator).set_params(method="plain", alpha=None, epochs=1).fit(frame["text"], numbers)
    assert fitted.classes_.tolist() == [2, 10]
    assert set(fitted.predict(["a great film", "a dull plot"]).tolist()) <= {2, 10}
    assert fitted.predict_proba([]).shape == (0, 2)


@pytest.mark.parametrize(
    ("X", "y", "error", "message"),
    [
        (["a", "b"], ["x", "x"], ValueError, "a classifier needs two"),
        (["a"], ["x", "y"], ValueError, "inconsistent numbers of samples"),
        ("text", ["x"], ValueError, "X is one text"),
        (np.zeros((2, 3)), [0, 1], ValueError, "one text per row"),
        (["a", "b"], [0.5, 0.1], ValueError, "Unknown label type"),
        (["a", None] * 20, [0, 1] * 20, UserError, "row 2, column 'text': empty text"),
        (pd.Series([1, 2] * 20), [0, 1] * 20, UserError, "row 1, column 'text': not a text: 1"),
    ],
)
def test_what_is_no_text_or_label_is_refused(estimator, X, y, error, message):
    with pytest.raises(error, match=message):
        clone(estimator).fit(X, y)


def test_an_estimator_that_was_not_fitted_says_so(estimator):
    with pytest.raises(NotFittedError):
        clone(estimator).predict(["a"])


@pytest.mark.parametrize(
    "check",
    [
        "check_estimator_cloneable",
        "check_estimator_repr",
        "check_estimator_tags_renamed",
        "check_get_params_invariance",
        "check_mixin_order",
        "check_no_attributes_set_in_init",
        "check_parameters_default_constructible",
        "check_set_params",
        "check_valid_tag_types",
    ],
)
def test_the_checks_of_scikit_learn_that_need_no_numbers(check):
    # All others fit arrays of numbers, which are no texts.
    getattr(estimator_checks, check)("CalibratedTextClassifier", api.CalibratedTextClassifier())
