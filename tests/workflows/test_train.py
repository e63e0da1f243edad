"""`calmix.train`: objects in, a run out, the same bits as from the command line."""

import json

import pandas as pd
import pytest
from datasets import Dataset
from safetensors.numpy import load_file

import calmix as api
from calmix.user_error import UserError


def weights(path):
    return {name: array.tobytes() for name, array in load_file(path / "model" / "model.safetensors").items()}


def settled(path):
    """`metrics.json` without what a clock or a name of a file says."""
    metrics = json.loads((path / "metrics.json").read_text())
    return {name: value for name, value in metrics.items() if name not in ("seconds", "files")}


def test_a_run_from_objects_is_the_run_from_files_to_the_bit(calmix, run, reviews, flags, tmp_path):
    code, _, err = calmix(
        "train", "--train", reviews / "train.csv", "--validation", reviews / "validation.csv",
        "--test", reviews / "test.csv", "--test", f"other={reviews / 'other.csv'}",
        "--output", tmp_path / "run", *flags,
    )  # fmt: skip
    assert code == 0, err
    assert weights(run.path) == weights(tmp_path / "run")
    assert settled(run.path) == settled(tmp_path / "run")
    names = {file.name for file in (tmp_path / "run").rglob("*")}
    # Other tests of this module may have asked the shared run about other data.
    assert {file.name for file in run.path.rglob("*")} - {"ood.json"} == names
    assert {"report.html", "README.md"} < names


def test_a_run_knows_its_metrics_predictions_model_and_files(run):
    stored = json.loads((run.path / "metrics.json").read_text())
    assert run.metrics["test"].calibrated.ece == stored["splits"]["test"]["calibrated"]["ece"]
    assert run.metrics["other"].uncalibrated["nll"] == stored["splits"]["other"]["uncalibrated"]["nll"]
    assert list(run.metrics) == ["validation", "test", "other"]
    assert run.temperature == stored["temperature"]
    assert run.label_names == ("negative", "positive")
    assert run.report.is_file()
    predictions = run.predictions("other")
    assert api.evaluate(predictions)["ece"] == pytest.approx(run.metrics["other"].calibrated.ece)
    assert len(run.predictions("test", calibrated=False)) == 48
    assert run.model().config.num_labels == 2
    assert run.tokenizer()("a film")["input_ids"]
    assert len(run.data_map()) == 96
    with pytest.raises(UserError, match=r"no split 'imdb' in this run; it has: validation, test, other"):
        run.predictions("imdb")


def test_a_run_shows_itself(run):
    shown = str(run)
    assert "Accuracy" in shown
    assert f"report: {run.report}" in shown
    assert shown == repr(run)
    page = run._repr_html_()
    assert "<table>" in page and page.startswith(("<table>", "<p>WARNING: This model has not learned"))
    assert "ECE % [95 %]" in page
    assert str(api.Run.open(run.path)) == shown


def test_the_configuration_says_what_was_in_memory_and_the_run_resumes_with_it(run, frames, small):
    assert run.config["train"].startswith("in memory: 96 rows, fingerprint ")
    assert run.config["test"][1].startswith("other=in memory: 40 rows, fingerprint ")
    again = api.train(
        Dataset.from_pandas(frames("train")),
        validation=frames("validation"),
        test={"test": frames("test"), "other": frames("other").to_dict("records")},
        output=run.path,
        resume=True,
        **small,
    )
    assert again.path == run.path
    with pytest.raises(UserError, match=r"started with other options \(train, validation, test\)"):
        api.train(frames("test"), output=run.path, resume=True, **small)


@pytest.mark.trains
def test_a_guided_method_with_threshold_passes_needs_nothing_but_its_name(frames, small, tmp_path):
    guided = api.train(frames("train"), method="tdmixup", output=tmp_path / "run", **{**small, "epochs": 3})
    notes = guided.directory.guidance()
    assert [group["name"] for group in notes["groups"]] == ["easy", "ambiguous"]
    assert notes["label_filters"][0]["rows"] > 0


def test_a_student_learns_from_a_run(run, frames, small, tmp_path):
    student = api.distill(
        frames("train"),
        teacher=run,
        student_layers=1,
        label_weight=0.25,
        unlabelled=frames("other")["text"].tolist(),
        validation=frames("validation"),
        output=tmp_path / "student",
        **{name: value for name, value in small.items() if name != "model"},
    )
    assert student.config["model"] == str(small["model"])  # that of its teacher
    assert student.config["label_weight"] == 0.25
    assert student.config["unlabelled"].startswith("in memory: 40 rows")
    assert student.model().config.num_hidden_layers == 1
    assert student.metrics.facts.distillation


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"epoch": 3}, "no such option 'epoch'; did you mean 'epochs'"),
        ({"method": "mixdown"}, "mixdown"),
        ({"test": {"../up": [{"text": "a", "label": "negative"}]}}, r"test: a set cannot be named '../up'"),
        (
            {"test": {"a": [{"text": "a", "label": "no"}]}},
            r"test\['a'\] \(in memory\), row 1",
        ),
        (
            {"validation": [{"text": " ", "label": "negative"}]},
            r"validation \(in memory\), row 1",
        ),
        ({"texts": ["a"]}, "texts and labels replace train"),
    ],
)
def test_what_is_wrong_is_said_before_anything_is_written(frames, tmp_path, options, message):
    with pytest.raises(UserError, match=message):
        api.train(frames("train"), output=tmp_path / "run", **options)
    assert not list(tmp_path.iterdir())


def test_without_data_or_output_nothing_begins(tmp_path):
    with pytest.raises(UserError, match="no training data"):
        api.train(output=tmp_path / "run")
    with pytest.raises(UserError, match="no run to resume"):
        api.train(output=tmp_path / "run", resume=True)
    with pytest.raises(UserError, match="texts and labels belong together"):
        api.train(texts=["a"], output=tmp_path / "run")
    with pytest.raises(UserError, match="no teacher"):
        api.distill(pd.DataFrame(), output=tmp_path / "run")
