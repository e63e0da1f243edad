"""What all calibrators share: scikit-learn's contract, refusals, the registry, saving and loading."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest
import sklearn
from safetensors.numpy import load_file
from scipy.special import softmax
from sklearn.base import clone, is_classifier
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import cross_validate

from calmix.calibration.calibrators.calibrator import CALIBRATORS, get_calibrator, load_calibrator
from calmix.user_error import UserError

NAMES = ["temperature", "temperature-bias", "vector", "structured", "platt", "isotonic", "shrunk", "auto"]


def sample(rows=600, classes=2, seed=0):
    generator = np.random.default_rng(seed)
    logits = 2 * generator.standard_normal((rows, classes))
    labels = (softmax(logits, axis=1).cumsum(axis=1) > generator.random((rows, 1))).argmax(axis=1)
    return 2.5 * logits + np.linspace(0, 1, classes), labels


@pytest.fixture(params=NAMES)
def name(request):
    return request.param


def test_the_registry_lists_what_it_makes():
    assert list(CALIBRATORS) == NAMES
    assert [get_calibrator(name).kind for name in NAMES] == NAMES


def test_an_unknown_name_is_answered_with_near_ones_or_with_all():
    with pytest.raises(UserError, match="did you mean 'isotonic'"):
        get_calibrator("isotonik")
    with pytest.raises(
        UserError,
        match=f"choose from: {', '.join(NAMES)}",
    ):
        get_calibrator("zzz")


def test_clones_share_parameters_and_no_fit(name):
    logits, labels = sample()
    fitted = get_calibrator(name).fit(logits, labels)
    fresh = clone(fitted)
    assert fresh.get_params() == fitted.get_params()
    with pytest.raises(NotFittedError):
        fresh.predict_proba(logits)
    assert is_classifier(fresh)


def test_parameters_can_be_set():
    assert get_calibrator("temperature").set_params(preset="paper").preset == "paper"
    with pytest.raises(ValueError, match="Invalid parameter"):
        get_calibrator("temperature").set_params(presets="paper")


def test_fit_returns_itself_and_does_not_change_its_input(name):
    logits, labels = sample()
    before = logits.copy(), labels.copy()
    calibrator = get_calibrator(name)
    assert calibrator.fit(logits, labels) is calibrator
    calibrator.predict_proba(logits)
    np.testing.assert_array_equal(logits, before[0])
    np.testing.assert_array_equal(labels, before[1])
    assert calibrator.n_features_in_ == 2
    np.testing.assert_array_equal(calibrator.classes_, [0, 1])


def test_probabilities_are_the_softmax_of_the_calibrated_logits(name):
    logits, labels = sample()
    fitted = get_calibrator(name).fit(logits, labels)
    probabilities = fitted.predict_proba(logits)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1, rtol=1e-12)
    np.testing.assert_allclose(softmax(fitted.transform(logits), axis=1), probabilities, atol=1e-12)
    np.testing.assert_array_equal(fitted.predict(logits), probabilities.argmax(axis=1))
    assert fitted.score(logits, labels) == (fitted.predict(logits) == labels).mean()


def test_the_fit_improves_the_likelihood_and_records_it(name):
    logits, labels = sample()
    fitted = get_calibrator(name).fit(logits, labels)
    rows = np.arange(len(labels))
    before = -np.log(softmax(logits, axis=1)[rows, labels]).mean()
    after = -np.log(fitted.predict_proba(logits)[rows, labels]).mean()
    assert fitted.nll_before_ == pytest.approx(before, rel=1e-10)
    assert fitted.nll_after_ == pytest.approx(after, rel=1e-10)
    assert after < before


def test_the_order_of_the_rows_and_rows_of_weight_zero_do_not_matter(name):
    logits, labels = sample()
    order = np.random.default_rng(3).permutation(len(labels))
    weights = np.random.default_rng(4).uniform(0.5, 2, len(labels))
    fitted = get_calibrator(name).fit(logits, labels, sample_weight=weights)
    expected = fitted.predict_proba(logits)
    shuffled = get_calibrator(name).fit(logits[order], labels[order], sample_weight=weights[order])
    np.testing.assert_allclose(shuffled.predict_proba(logits), expected, atol=1e-7)
    more = np.concatenate([logits, 5 - logits[:100]]), np.concatenate([labels, labels[:100]])
    extended = get_calibrator(name).fit(*more, sample_weight=np.concatenate([weights, np.zeros(100)]))
    np.testing.assert_allclose(extended.predict_proba(logits), expected, atol=1e-7)


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_low_precision_logits_give_the_fit_of_their_float64_values(name, dtype):
    logits, labels = sample()
    low = logits.astype(dtype)
    expected = get_calibrator(name).fit(low.astype(np.float64), labels).predict_proba(low.astype(np.float64))
    np.testing.assert_allclose(get_calibrator(name).fit(low, labels).predict_proba(low), expected, atol=1e-10)


@pytest.mark.parametrize(
    ("logits", "labels", "problem"),
    [
        ([[0.0, np.nan], [1.0, 0.0]], [0, 1], "finite"),
        ([[0.0, np.inf], [1.0, 0.0]], [0, 1], "finite"),
        ([[0.0, 1.0], [1.0, 0.0]], [0, 2], "label 2 is outside 0..1"),
        ([[0.0, 1.0], [1.0, 0.0]], [0, -1], "label -1 is outside 0..1"),
        ([[0.0, 1.0], [1.0, 0.0]], [0.5, 1], "labels must be class indices"),
        ([[0.0, 1.0], [1.0, 0.0]], [0], "2 rows of scores but 1 labels"),
        ([[0.0, 1.0], [1.0, 0.0]], [[0], [1]], "labels must have shape"),
        (np.zeros((0, 2)), [], "empty"),
        ([0.0, 1.0], [0, 1], "shape"),
        ([[0.0], [1.0]], [0, 0], "at least two classes"),
        ([["a", "b"]], [0], "numbers"),
    ],
)
def test_input_that_makes_no_sense_is_refused(name, logits, labels, problem):
    with pytest.raises(ValueError, match=problem):
        get_calibrator(name).fit(logits, labels)


@pytest.mark.parametrize("weights", [[1.0], [-1.0, 1.0], [np.nan, 1.0], [0.0, 0.0]])
def test_weights_that_make_no_sense_are_refused(name, weights):
    with pytest.raises(ValueError, match="weights"):
        get_calibrator(name).fit([[0.0, 1.0], [1.0, 0.0]], [0, 1], sample_weight=weights)


def test_other_numbers_of_classes_and_bad_logits_are_refused_after_the_fit(name):
    logits, labels = sample()
    fitted = get_calibrator(name).fit(logits, labels)
    with pytest.raises(ValueError, match="logits of 3 classes, but the calibrator is fitted on 2"):
        fitted.predict_proba(np.zeros((4, 3)))
    with pytest.raises(ValueError, match="finite"):
        fitted.transform([[np.nan, 0.0]])


def test_an_unfitted_calibrator_says_so(name, tmp_path):
    calibrator = get_calibrator(name)
    for call in (calibrator.transform, calibrator.predict_proba, calibrator.predict):
        with pytest.raises(NotFittedError):
            call([[0.0, 1.0]])
    with pytest.raises(NotFittedError):
        calibrator.save(tmp_path)
    if name != "isotonic":
        with pytest.raises(NotFittedError):
            calibrator.affine()


def test_what_folds_is_exactly_affine_in_the_logits(name):
    logits, labels = sample()
    parameters = {"coordinates": "centred"} if name == "structured" else {}
    fitted = get_calibrator(name, **parameters).fit(logits, labels)
    assert fitted.folds == (name != "isotonic")
    if not fitted.folds:
        with pytest.raises(ValueError, match="does not fold"):
            fitted.affine()
        return
    matrix, bias = fitted.affine()
    np.testing.assert_allclose(logits @ matrix.T + bias, fitted.transform(logits), atol=1e-10)
    # Folded into a linear head, plain softmax of the new head's logits is calibrated.
    generator = np.random.default_rng(0)
    hidden, weight, offset = generator.normal(size=(50, 8)), generator.normal(size=(2, 8)), np.ones(2)
    folded = hidden @ (matrix @ weight).T + matrix @ offset + bias
    np.testing.assert_allclose(
        softmax(folded, axis=1), fitted.predict_proba(hidden @ weight.T + offset), atol=1e-12
    )


@pytest.mark.parametrize("classes", [2, 4])
def test_saved_and_loaded_it_gives_the_same_bits(name, classes, tmp_path):
    if name == "platt" and classes > 2:
        pytest.skip("Platt scaling is for two classes")
    logits, labels = sample(classes=classes)
    fitted = get_calibrator(name).fit(logits, labels)
    fitted.save(tmp_path / "calibrator")
    loaded = load_calibrator(tmp_path / "calibrator")
    assert type(loaded) is type(fitted)
    assert loaded.get_params() == fitted.get_params()
    np.testing.assert_array_equal(loaded.predict_proba(logits), fitted.predict_proba(logits))
    np.testing.assert_array_equal(loaded.classes_, fitted.classes_)
    assert set(vars(loaded)) == set(vars(fitted))
    facts = json.loads((tmp_path / "calibrator" / "calibrator.json").read_text())
    assert (facts["kind"], facts["classes"], facts["folds"]) == (name, classes, fitted.folds)
    assert facts["fitted"]["nll_after_"] == fitted.nll_after_
    assert facts["arrays"] == {
        key: list(value.shape)
        for key, value in load_file(tmp_path / "calibrator" / "calibrator.safetensors").items()
    }


def test_a_directory_without_a_calibrator_is_refused_by_name(tmp_path):
    with pytest.raises(UserError, match=r"calibrator\.json: no such file"):
        load_calibrator(tmp_path)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"format": "other"}, "not a saved calibrator"),
        ({"version": 99}, "calibrator format 99, this version reads 1"),
        ({"kind": "temprature"}, "unknown calibrator 'temprature'"),
        ({"parameters": {"colour": 3}}, "incomplete calibrator"),
        ({"arrays": {"scale_": [2]}}, "were saved"),
        ({"parameters": ["a"]}, "parameters is of the type list"),
        ({"fitted": "a"}, "fitted is of the type str"),
        ({"fitted": {"predict_proba": 1}}, "'predict_proba' is not a fitted value"),
        ({"classes": 2.5}, "classes is of the type float"),
        ({"classes": 2**31}, "2147483648 classes"),
        ({"classes": 0}, "0 classes"),
    ],
)
def test_a_changed_file_is_refused(tmp_path, change, problem):
    logits, labels = sample()
    get_calibrator("temperature").fit(logits, labels).save(tmp_path)
    file = tmp_path / "calibrator.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | change))
    with pytest.raises(UserError, match=problem):
        load_calibrator(tmp_path)


def test_every_fitted_value_is_missed_where_it_is_read(name, tmp_path):
    logits, labels = sample()
    fitted = get_calibrator(name).fit(logits, labels)
    fitted.save(tmp_path)
    file = tmp_path / "calibrator.json"
    facts = json.loads(file.read_text())
    for gone in facts["fitted"]:
        kept = {key: value for key, value in facts["fitted"].items() if key != gone}
        for values in (kept, {**kept, gone: "much"}):
            file.write_text(json.dumps(facts | {"fitted": values}))
            try:
                found = load_calibrator(tmp_path).predict_proba(logits)
            except UserError as error:
                assert "incomplete calibrator" in str(error)
            else:  # a record that no probability depends on
                np.testing.assert_array_equal(found, fitted.predict_proba(logits))


def test_broken_files_are_refused(tmp_path):
    logits, labels = sample()
    get_calibrator("vector").fit(logits, labels).save(tmp_path)
    arrays = tmp_path / "calibrator.safetensors"
    arrays.write_bytes(arrays.read_bytes()[:10])
    with pytest.raises(UserError, match="unreadable arrays"):
        load_calibrator(tmp_path)
    (tmp_path / "calibrator.json").write_text("{")
    with pytest.raises(UserError, match="not JSON"):
        load_calibrator(tmp_path)
    (tmp_path / "calibrator.json").write_text("[" * 100_000)
    with pytest.raises(UserError, match="not JSON"):
        load_calibrator(tmp_path)


@pytest.mark.parametrize("routing", [False, True])
def test_scikit_learn_cross_validates_it(name, routing):
    logits, labels = sample()
    with sklearn.config_context(enable_metadata_routing=routing):
        scores = cross_validate(get_calibrator(name), logits, labels, scoring="neg_log_loss", cv=3)
    uncalibrated = np.log(softmax(logits, axis=1)[np.arange(len(labels)), labels]).mean()
    assert scores["test_score"].mean() > uncalibrated


@pytest.mark.processes
def test_calibrators_load_and_save_without_torch(tmp_path):
    program = (
        "import sys\n"
        "from calmix.calibration.calibrators.calibrator import CALIBRATORS, get_calibrator\n"
        "from calmix.calibration.calibrators.calibrator import load_calibrator\n"
        "for name in CALIBRATORS:\n"
        "    calibrator = get_calibrator(name).fit([[0.0, 1.0], [1.0, 0.0], [0.0, 2.0]], [1, 0, 0])\n"
        f"    calibrator.save({str(tmp_path)!r}); load_calibrator({str(tmp_path)!r})\n"
        "assert not {'torch', 'transformers'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-W", "ignore", "-c", program], check=True)
