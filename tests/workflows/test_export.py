"""A model is exported, measured beside the run it came from, and predicts like it."""

import json
import shutil

import numpy as np
import pytest
from scipy.special import log_softmax

import calmix as api
from calmix.calibration.calibrators.temperature import TemperatureScaling
from calmix.calibration.predictions import Predictions
from calmix.inference.onnx.exporting import divide_logits
from calmix.inference.onnx.measuring import ExportedSplit, repairing_temperature
from calmix.inference.onnx.running import OnnxNetwork, load_exported
from calmix.user_error import UserError

pytest.importorskip("onnxruntime")
pytestmark = pytest.mark.trains
FILES = ("train", "validation", "test")


@pytest.fixture(scope="module")
def exported(run, tmp_path_factory):
    folder = tmp_path_factory.mktemp("exported")
    (folder / "secret.txt").write_text("of this machine")
    link = run.path / "model" / "linked.txt"
    link.symlink_to(folder / "secret.txt")
    try:
        return api.export(run, folder / "onnx")
    finally:
        link.unlink()


def test_links_in_a_run_are_not_followed(exported):
    assert (exported.path / "tokenizer.json").is_file()
    assert not (exported.path / "linked.txt").exists()


def test_the_exported_model_predicts_like_the_run(exported, run, frames):
    texts = [*frames("test").text, "a", "warm " * 60]  # of lengths that no example had
    theirs = api.predict(exported, texts).to_pandas()
    ours = api.predict(run, texts).to_pandas()
    assert theirs.predicted_label.tolist() == ours.predicted_label.tolist()
    np.testing.assert_allclose(theirs.confidence, ours.confidence, atol=1e-5)


def test_its_metrics_are_those_of_the_run(exported, run):
    found = json.loads((exported.path / "export.json").read_text())
    assert found == exported.content
    split = found["splits"]["test"]
    assert split["before"]["nll"] == pytest.approx(run.metrics["test"].calibrated.nll)
    assert split["after"]["nll"] == pytest.approx(split["before"]["nll"], abs=1e-6)
    assert split["same_prediction"] == 1
    assert found["temperature"] is None
    assert "Exported" in str(exported)


def test_evaluate_and_a_target_accuracy_take_it(exported, frames):
    test = frames("test")
    found = api.evaluate(model=exported.path, data=test)
    assert found.accuracy == pytest.approx(exported.content["splits"]["test"]["after"]["accuracy"])
    answers = api.predict(exported, test.text.tolist(), target_accuracy=0.6)
    assert len(answers.accept) == len(test)


@pytest.fixture
def exported_once(exported, monkeypatch):
    """Exporting takes seconds, whatever the network: what was exported is taken again."""

    def take(_model, _batch, file):
        shutil.copyfile(exported.model_file, file)

    monkeypatch.setattr("calmix.inference.onnx.exporting.export_network", take)


def test_int8_is_smaller_and_its_difference_is_reported(run, exported, exported_once, tmp_path, calmix):
    code, out, err = calmix("export", run.path, "--int8", "--output", tmp_path / "int8", "--json")
    assert code == 0, err
    found = json.loads(out)
    assert found["bytes"] < exported.content["bytes"]
    split = found["splits"]["test"]
    assert split["largest_probability_difference"] > 0
    limits = split["differences"]["nll"]["ci"]
    assert limits[0] <= split["after"]["nll"] - split["before"]["nll"] <= limits[1]


def test_a_temperature_is_fitted_only_where_the_nll_rose():
    generator = np.random.default_rng(0)
    logits = generator.normal(size=(2000, 3)) * 2
    labels = (np.cumsum(np.exp(log_softmax(logits, axis=1)), axis=1) < generator.random((2000, 1))).sum(1)
    calibrated = Predictions.from_logits(logits, labels)
    assert repairing_temperature(ExportedSplit(calibrated, calibrated)) is None
    sharper = ExportedSplit(calibrated, Predictions.from_logits(3 * logits, labels))
    found = repairing_temperature(sharper)
    assert found == pytest.approx(TemperatureScaling().fit(3 * logits, labels).temperature_)
    assert sharper.nll_rises(tolerance=0.02)
    assert not sharper.at(found).nll_rises(tolerance=0.02)


def test_the_graph_divides_its_logits(exported, frames, tmp_path):
    shutil.copytree(exported.path, tmp_path / "copy")
    divide_logits(tmp_path / "copy" / "model.onnx", 2.0)
    _, inputs = load_exported(exported.path)
    batch = inputs.tokenizer(frames("test").text.tolist(), padding=True, return_tensors="pt")
    before, after = (
        OnnxNetwork(place / "model.onnx")(**batch).logits for place in (exported.path, tmp_path / "copy")
    )
    np.testing.assert_allclose(after, before / 2)


def test_what_cannot_be_exported_is_said(run, exported_once, tmp_path, monkeypatch, calmix):
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "notes.txt").write_text("mine")
    for arguments, said in (
        ((run.path, "--output", tmp_path / "taken"), "the output exists already"),
        ((run.path, "--output", tmp_path / "x", "--format", "tflite"), "choose one of onnx"),
        ((run.path, "--output", tmp_path / "x", "--tolerance", "-1"), "--tolerance"),
        ((tmp_path, "--output", tmp_path / "x"), "not a run directory"),
    ):
        code, _, err = calmix("export", *arguments)
        assert code == 2
        assert said in err
        assert len(err.splitlines()) == 1
    monkeypatch.setattr("calmix.inference.onnx.measuring.ExportedSplit.nll_rises", lambda *_, **__: True)
    with pytest.raises(UserError, match="export without int8"):
        api.export(run, tmp_path / "x", int8=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["taken"]


def test_weights_and_soft_labels_of_the_rows_count():
    generator = np.random.default_rng(0)
    logits, weights = generator.normal(size=(400, 3)), generator.random(400)
    targets = generator.dirichlet(np.ones(3), size=400)
    before, after = (
        Predictions.from_logits(one, targets.argmax(axis=1)).with_rows(weights=weights, targets=targets)
        for one in (logits, 3 * logits)
    )
    split = ExportedSplit(before, after)
    expected = [
        -np.average((targets * log_softmax(one, axis=1)).sum(axis=1), weights=weights)
        for one in (logits, 3 * logits)
    ]
    facts = split.facts()
    assert [facts[stage]["nll"] for stage in ("before", "after")] == pytest.approx(expected)
    assert facts["differences"]["nll"]["difference"] == pytest.approx(expected[1] - expected[0])
    assert split.nll_rises() and repairing_temperature(split) > 1


def test_a_run_with_weights_is_exported(frames, encoders, tmp_path):
    data = {name: frames(name).assign(weight=lambda rows: 1 + np.arange(len(rows)) % 3) for name in FILES}
    run = api.train(
        data["train"], validation=data["validation"], test=data["test"], epochs=1, weight_column="weight",
        calibrator="vector", model=str(encoders("bert", layers=1)), output=tmp_path / "run",
    )  # fmt: skip
    exported = api.export(run, tmp_path / "onnx")
    split = exported.content["splits"]["test"]
    assert split["before"]["nll"] == pytest.approx(run.metrics["test"].calibrated.nll)
    assert split["after"]["nll"] == pytest.approx(split["before"]["nll"], abs=1e-5)
    # Vector scaling was fitted on the rows that the guarantee rests on.
    answers = api.predict(exported.path, ["a warm film"], target_accuracy=0.6)
    assert "vector was fitted on these very rows" in answers.content["limit"]
