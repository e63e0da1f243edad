"""The scorers inside scikit-learn's own cross-validation."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import brier_score_loss, log_loss
from sklearn.model_selection import GridSearchCV, StratifiedKFold, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from calmix.calibration.integrations.scorers import CalibrationScorer, calibration_scorers
from calmix.calibration.metrics.errors import expected_calibration_error, overconfidence_error


def model() -> object:
    return make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))


@pytest.mark.parametrize("load", [load_iris, load_breast_cancer], ids=["three classes", "two classes"])
def test_cross_validate_gives_what_the_folds_give_by_hand(load):
    data = load()
    names = np.array(["c", "a", "b"])[data.target]  # named classes in another order than their numbers
    folds = StratifiedKFold(4, shuffle=True, random_state=0)
    found = cross_validate(
        model(), data.data, names, cv=folds, scoring=calibration_scorers(), error_score="raise"
    )
    for fold, (train, test) in enumerate(folds.split(data.data, names)):
        fitted = model().fit(data.data[train], names[train])
        probabilities = fitted.predict_proba(data.data[test])
        confidence, correct = probabilities.max(axis=1), fitted.predict(data.data[test]) == names[test]
        expected = {
            "neg_ece": -expected_calibration_error(confidence, correct),
            "neg_oe": -overconfidence_error(confidence, correct),
            "neg_nll": -log_loss(names[test], probabilities, labels=fitted.classes_),
            "neg_brier": -brier_score_loss(
                names[test], probabilities, labels=fitted.classes_, scale_by_half=False
            ),
        }
        for name, value in expected.items():
            assert found[f"test_{name}"][fold] == pytest.approx(value, abs=1e-9)
    for name in calibration_scorers():
        assert np.isfinite(found[f"test_{name}"]).all()
        assert (found[f"test_{name}"] <= 0).all()


@pytest.mark.processes
def test_a_grid_search_in_two_processes_chooses_by_a_scorer():
    data = load_iris()
    search = GridSearchCV(
        LogisticRegression(max_iter=1000), {"C": [1e-4, 1.0]}, scoring=CalibrationScorer("nll"), n_jobs=2
    )
    search.fit(data.data, data.target)
    assert search.best_params_ == {"C": 1.0}


def test_weights_count_as_repeated_rows():
    data = load_breast_cancer()
    fitted = model().fit(data.data, data.target)
    times = np.random.default_rng(0).integers(1, 4, len(data.target))
    for name, scorer in calibration_scorers().items():
        if name in ("neg_aurc", "neg_augrc"):
            with pytest.raises(ValueError, match="no sample weights"):
                scorer(fitted, data.data, data.target, sample_weight=times)
            continue
        weighted = scorer(fitted, data.data, data.target, sample_weight=times)
        repeated = scorer(fitted, np.repeat(data.data, times, axis=0), np.repeat(data.target, times))
        # The constant that keeps SmoothECE's density off 0 weighs less on more rows.
        assert weighted == pytest.approx(repeated, abs=1e-7 if name == "neg_smooth_ece" else 1e-9), name


def test_bins_and_edges_are_passed_on_and_survive_pickling():
    data = load_breast_cancer()
    fitted = model().fit(data.data, data.target)
    confidence = fitted.predict_proba(data.data).max(axis=1)
    correct = fitted.predict(data.data) == data.target
    scorer = pickle.loads(pickle.dumps(CalibrationScorer("ece", bins=4, closed="left")))
    expected = expected_calibration_error(confidence, correct, bins=4, closed="left")
    assert scorer(fitted, data.data, data.target) == pytest.approx(-expected, abs=1e-12)
    assert repr(scorer) == "CalibrationScorer(metric='ece', bins=4, closed='left')"


def test_unknown_metrics_bins_and_labels_are_refused():
    with pytest.raises(ValueError, match="metric must be one of ece"):
        CalibrationScorer("accuracy")
    with pytest.raises(ValueError, match="bins"):
        CalibrationScorer("ece", bins=0)
    fitted = LogisticRegression().fit([[0.0], [1.0]], ["a", "b"])
    with pytest.raises(ValueError, match="'c' is not among the classes"):
        CalibrationScorer("ece")(fitted, [[0.0]], ["c"])
