"""`calmix predict`: calibrated answers, and a threshold that keeps its promise."""

import csv
import json

import numpy as np
import pytest

from calmix.calibration.prediction_files import read_predictions, write_predictions
from calmix.calibration.predictions import Predictions


@pytest.fixture(scope="module")
def run(reviews, encoders, tmp_path_factory):
    from calmix.training.configuration import TrainConfig
    from calmix.training.recipe import train

    config = TrainConfig(
        train=str(reviews / "train.csv"),
        validation=str(reviews / "validation.csv"),
        test=(str(reviews / "test.csv"),),
        model=str(encoders("bert")),
        output=str(tmp_path_factory.mktemp("run") / "run"),
        learning_rate=2e-3,
        epochs=2,
    )
    return train(config).path


def answers(path):
    return list(csv.DictReader(path.open()))


def test_probabilities_are_the_runs_calibrated_ones(calmix, run, reviews, tmp_path):
    code, _, err = calmix("predict", run, "--input", reviews / "test.csv", "--output", tmp_path / "a.csv")
    assert code == 0, err
    rows = answers(tmp_path / "a.csv")
    stored = read_predictions(run / "predictions" / "test.parquet")
    temperature = json.loads((run / "metrics.json").read_text())["temperature"]
    expected = stored.with_temperature(temperature).probabilities()
    given = np.array([[float(row[f"prob_{name}"]) for name in stored.class_names] for row in rows])
    assert np.abs(given - expected).max() < 1e-5
    assert [row["label"] for row in rows] == [stored.class_names[i] for i in stored.predicted()]
    assert [float(row["confidence"]) for row in rows] == pytest.approx(given.max(axis=1))
    assert "accept" not in rows[0]


def test_a_file_without_labels_in_another_format(calmix, run, tmp_path):
    (tmp_path / "new.jsonl").write_text('{"text": "a great film"}\n{"text": "a dull plot"}\n')
    code, out, err = calmix(
        "predict", run, "--input", tmp_path / "new.jsonl", "--output", tmp_path / "a.jsonl",
        "--accept-above", 0.5, "--json",
    )  # fmt: skip
    assert code == 0, err
    assert json.loads(out)["accepted"] == 2
    rows = [json.loads(line) for line in (tmp_path / "a.jsonl").read_text().splitlines()]
    assert [row["row_id"] for row in rows] == ["input-1", "input-2"]
    assert all(row["accept"] is True for row in rows)


def test_too_few_validation_rows_certify_nothing_and_the_reader_is_told(calmix, run, reviews, tmp_path):
    code, out, err = calmix(
        "predict", run, "--input", reviews / "test.csv", "--output", tmp_path / "a.csv",
        "--target-accuracy", 0.999,
    )  # fmt: skip
    assert code == 0, err
    assert "certify no threshold" in out
    assert "coverage 0.0%" in out
    assert {row["accept"] for row in answers(tmp_path / "a.csv")} == {"false"}


def test_the_threshold_comes_from_the_calibrated_validation_rows(calmix, run, reviews, tmp_path):
    import shutil

    copy = tmp_path / "run"
    shutil.copytree(run, copy)
    # A validation set on which the most confident 300 of 400 rows are right.
    confidence = np.linspace(0.99, 0.51, 400)
    logit = (
        np.log(confidence / (1 - confidence)) * json.loads((run / "metrics.json").read_text())["temperature"]
    )
    labels = (np.arange(400) < 300).astype(int)
    validation = Predictions.from_logits(np.stack([np.zeros(400), logit], axis=1), labels)
    write_predictions(copy / "predictions" / "validation.parquet", validation)
    code, out, err = calmix(
        "predict", copy, "--input", reviews / "test.csv", "--output", tmp_path / "a.csv",
        "--target-accuracy", 0.95, "--json",
    )  # fmt: skip
    assert code == 0, err
    result = json.loads(out)
    assert 0.5 < result["validation_coverage"] <= 0.79
    accepted = round(result["validation_coverage"] * 400)
    assert confidence[accepted] < result["threshold"] <= confidence[accepted - 1]
    for row in answers(tmp_path / "a.csv"):
        assert row["accept"] == str(float(row["confidence"]) >= result["threshold"]).lower()


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--target-accuracy", "1.5"], "--target-accuracy is 1.5"),
        (["--target-accuracy", "0.9", "--accept-above", "0.9"], "exclude each other"),
        (["--output", "answers.xls"], "unknown extension"),
        (["--input", "nowhere.csv"], "no such file"),
        (["--batch-size", "0"], "--batch-size is 0; give a whole number of at least 1"),
    ],
)
def test_bad_input_is_one_line_and_nothing_is_written(
    calmix, run, reviews, tmp_path, monkeypatch, more, said
):
    monkeypatch.chdir(tmp_path)
    code, out, err = calmix("predict", run, "--input", reviews / "test.csv", "--output", "a.csv", *more)
    assert (code, out) == (2, "")
    assert said in err
    assert len(err.strip().splitlines()) == 1
    assert not list(tmp_path.iterdir())


def test_what_is_not_a_run_is_said_so(calmix, tmp_path):
    code, _, err = calmix("predict", tmp_path, "--input", "x.csv", "--output", "y.csv")
    assert code == 2
    assert "not a run directory" in err
