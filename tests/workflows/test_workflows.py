"""Each workflow with objects alone, no file but the output, and the numbers of the command line."""

import json

import numpy as np
import pandas as pd
import pytest
import yaml
from safetensors.numpy import load_file

import calmix as api
from calmix.calibration.evaluation import evaluate as evaluate_predictions
from calmix.calibration.predictions import Predictions
from calmix.user_error import UserError


@pytest.fixture(scope="module")
def predictions():
    generator = np.random.default_rng(0)
    logits, labels = generator.normal(size=(200, 3)) * 2, generator.integers(0, 3, 200)
    return Predictions.from_logits(logits, labels)


class TestEvaluate:
    def test_one_set_gives_its_metrics_by_name(self, predictions):
        found = api.evaluate(predictions)
        assert dict(found) == evaluate_predictions(predictions)
        assert found.ece == found["ece"]
        assert "ECE" in str(found)
        assert found._repr_html_().startswith("<table>")

    def test_scores_and_labels_must_say_what_they_are(self, predictions):
        logits, labels = predictions.values, predictions.labels
        for given in ((logits, labels), ((logits, labels),)):
            assert dict(api.evaluate(*given, from_logits=True)) == dict(api.evaluate(predictions))
        with pytest.raises(UserError, match="give from_logits=True, or False"):
            api.evaluate((logits, labels))
        with pytest.raises(UserError, match="nothing to evaluate"):
            api.evaluate()
        with pytest.raises(UserError, match="DataFrame cannot be evaluated"):
            api.evaluate(pd.DataFrame())

    def test_several_are_compared_row_by_row(self, calmix, predictions, tmp_path):
        cooler = predictions.with_temperature(2.0)
        files = [tmp_path / name for name in ("a.parquet", "b.parquet")]
        for file, one in zip(files, (predictions, cooler), strict=True):
            api.write_predictions(file, one)
        code, out, _ = calmix("evaluate", *files, "--json")
        assert code == 0
        assert api.evaluate(*files).as_dict() == json.loads(out)
        found = api.evaluate({"plain": predictions, "cooler": cooler})
        assert [one["file"] for one in found.files] == ["plain", "cooler"]
        assert {one["first"] for one in found.differences} == {"plain"}
        with pytest.raises(UserError, match=r"2 sets of predictions were evaluated; take one of \.files"):
            found["ece"]

    def test_a_run_and_a_model_on_rows(self, run, frames):
        stored = api.evaluate(run)
        by_file = {one.file: one for one in stored.files}
        assert by_file[f"{run.path}:test"].ece == pytest.approx(run.metrics["test"].calibrated.ece)
        asked = api.evaluate(model=run, data=frames("test"))
        assert asked.ece == pytest.approx(run.metrics["test"].calibrated.ece, abs=1e-6)
        with pytest.raises(UserError, match="model and data belong together; give data too"):
            api.evaluate(model=run)


class TestCalibrate:
    def test_a_checkpoint_on_rows(self, calmix, run, frames, reviews, tmp_path):
        found = api.calibrate(run.model_path, fit_on=frames("test"), output=tmp_path / "objects")
        code, out, err = calmix(
            "calibrate", run.model_path, "--fit-on", reviews / "test.csv",
            "--output", tmp_path / "files", "--json",
        )  # fmt: skip
        assert code == 0, err
        assert found.temperature == json.loads(out)["temperature"]
        models = [tmp_path / name / "model" / "model.safetensors" for name in ("objects", "files")]
        first, second = map(load_file, models)
        assert all(first[name].tobytes() == second[name].tobytes() for name in first)
        assert found.report.is_file()
        assert found.content["fitted_on"].startswith("in memory: 48 rows, fingerprint ")
        assert "temperature" in str(found)

    def test_predictions_on_predictions(self, predictions, tmp_path):
        fitting, others = predictions.rows(0, 100), predictions.rows(100, 200)
        found = api.calibrate(others, fit_on=fitting, method="vector", output=tmp_path / "calibrated")
        expected = api.VectorScaling().fit(fitting.values, fitting.labels).predict_proba(others.values)
        assert found.predictions().probabilities() == pytest.approx(expected, abs=1e-6)
        assert found.held_out["predictions"].before.n == 100
        assert found.model_path is None

    def test_errors_name_the_argument(self, run, tmp_path):
        with pytest.raises(UserError, match="nothing to fit on; give fit_on"):
            api.calibrate(run, output=tmp_path / "x")
        with pytest.raises(UserError, match=r"fit_on \(in memory\), row 1, column 'text': empty text"):
            api.calibrate(run, fit_on=([""], ["negative"]), output=tmp_path / "x")
        assert not list(tmp_path.iterdir())


class TestPredict:
    def test_texts_give_what_the_command_line_writes(self, calmix, run, frames, reviews, tmp_path):
        found = api.predict(run, frames("other"), accept_above=0.5)
        file = tmp_path / "predicted.parquet"
        arguments = ("--input", reviews / "other.csv", "--output", file, "--accept-above", 0.5)
        code, _, err = calmix("predict", run.path, *arguments)
        assert code == 0, err
        assert found.to_pandas().equals(pd.read_parquet(file))
        assert len(found) == len(found.labels) == 40
        assert all(found.accept)
        texts = api.predict(run, frames("other")["text"].tolist())
        assert texts.confidence == found.confidence
        with pytest.raises(UserError, match="no rule for which predictions to accept"):
            _ = texts.accept
        assert "confidence" in str(found)

    def test_what_is_wrong_with_a_row_is_said(self, run, tmp_path):
        with pytest.raises(UserError, match=r"input \(in memory\), column 'text': 1 row has no text: row 2"):
            api.predict(run, ["good", None], output=tmp_path / "x.csv")
        with pytest.raises(UserError, match="nothing to predict; give input"):
            api.predict(run)


def test_a_map_of_a_run_reads_its_rows_from_memory(calmix, run, tmp_path):
    found = api.map(run, output=tmp_path / "map")
    assert found.content["source"]["kind"] == "run"
    assert found.rows().num_rows == 96
    assert found.suspects[0]["text"]  # the rows are in memory as long as the run is
    assert found.report.is_file()
    code, out, _ = calmix("map", run.path, "--output", tmp_path / "again", "--json")
    assert code == 0
    regions = ("scored", "partition", "suspect_count", "wrong_labels")
    assert {name: found.content[name] for name in regions} == {
        name: json.loads(out)[name] for name in regions
    }
    with pytest.raises(UserError, match="fraction is 2"):
        api.map(run, output=tmp_path / "no", fraction=2)


def test_out_of_domain_rows_are_detected_and_the_threshold_saved(run, frames, tmp_path):
    strange = {"numbers": ["1 2 3", "4 5 6 7", "8 9"] * 5}
    found = api.detect_ood(run, in_=frames("test"), out=strange, output=tmp_path / "ood.html")
    assert {one["out"] for one in found.scores} == {"numbers"}
    assert found.report.is_file()
    assert found.threshold_file.is_file()
    assert "numbers" in str(found)
    marked = api.predict(run, strange["numbers"], reject_ood=True)
    assert "reject_ood" in marked.table.column_names
    with pytest.raises(UserError, match=r"out\['numbers'\] \(in memory\), row 1"):
        api.detect_ood(run, in_=frames("test"), out={"numbers": [None]}, output=tmp_path / "x.html")


@pytest.mark.processes
@pytest.mark.trains
def test_a_comparison_of_objects_leaves_files_that_say_so_and_goes_on(calmix, frames, small, tmp_path):
    options = {**small, "epochs": 1, "executor": "inline"}
    given = {
        "validation": frames("validation"),
        "test": {"test": frames("test")},
        "output": tmp_path / "compared",
    }
    found = api.compare(frames("train"), methods=["plain", "cls-mixup"], seeds=range(2), **given, **options)
    assert {one["arm"] for one in found.summary} >= {"plain", "cls-mixup"}
    assert found.recommendation.sentence in str(found)
    assert found.report.is_file()
    assert not found.failures
    names = sorted(file.name for file in (tmp_path / "compared" / "data").iterdir())
    assert len(names) == 3
    assert all(name.startswith("in-memory-") and name.endswith(".parquet") for name in names)
    runs = (tmp_path / "compared" / "runs").glob("*/metrics.json")
    made = {file: file.stat().st_mtime_ns for file in runs}
    assert len(made) == 4
    # What was in memory is in files now: the command line continues the comparison, and repeats no run.
    stored = yaml.safe_load((tmp_path / "compared" / "config.yaml").read_text())
    files = ["--train", stored["train"], "--validation", stored["validation"], "--test", stored["test"][0]]
    flags = [part for name, value in options.items() for part in (f"--{name.replace('_', '-')}", value)]
    arms = ["--methods", "plain,cls-mixup", "--seeds", "0,1"]
    code, out, err = calmix("compare", *arms, *files, *flags, "--output", tmp_path / "compared", "--json")
    assert code == 0, err
    assert {file: file.stat().st_mtime_ns for file in made} == made
    assert json.loads(out)["summary"] == found.summary
    assert str(api.Comparison.open(tmp_path / "compared")) == str(found)


def test_a_comparison_says_what_is_wrong_with_the_arguments(frames, tmp_path):
    with pytest.raises(UserError, match="no methods to compare; give methods=plain,cls-mixup"):
        api.compare(frames("train"), output=tmp_path / "x")
    with pytest.raises(UserError, match=r"train \(in memory\), row 1, column 'text'"):
        api.compare(([""], ["a"]), methods="plain", output=tmp_path / "x")
    assert not list(tmp_path.iterdir())


def test_a_notebook_shows_the_warnings_and_headings_that_the_terminal_shows(run, tmp_path, monkeypatch):
    monkeypatch.setattr(type(run), "warnings", lambda self: ["This model has <not> learned"])
    assert str(run).startswith("WARNING: This model has <not> learned\n")
    assert run._repr_html_().startswith("<p>WARNING: This model has &lt;not&gt; learned</p>")
    found = api.calibrate(run, fit_on="validation", output=tmp_path / "calibrated")
    for heading in found.headings():
        assert heading in str(found) and f"<p>{heading}</p>" in found._repr_html_()


@pytest.mark.parametrize("method", ["vector", "isotonic"])
def test_the_temperature_that_a_fit_starts_from_is_no_temperature_of_its_result(run, tmp_path, method):
    found = api.calibrate(run, fit_on="other", method=method, output=tmp_path / "calibrated")
    assert found.temperature is None
    assert not any("temperature:" in line for line in found.headings())
    assert ">Temperature<" not in found.report.read_text()
