"""`calmix predict`: calibrated answers, and a threshold that keeps its promise."""

import csv
import json
import shutil

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from calmix.calibration.conformal import ConformalSets
from calmix.calibration.files.prediction_files import read_predictions, write_predictions
from calmix.calibration.predictions import Predictions
from calmix.io.manifest import make_manifest


@pytest.mark.parametrize("verb", ["predict", "evaluate", "calibrate"])
def test_a_network_that_answers_with_no_number_is_refused(calmix, run, reviews, tmp_path, verb):
    shutil.copytree(run / "model", tmp_path / "model")
    weights = load_file(tmp_path / "model" / "model.safetensors")
    name = next(name for name in weights if name.startswith("classifier") and name.endswith("bias"))
    weights[name][0] = np.nan
    save_file(weights, tmp_path / "model" / "model.safetensors", {"format": "pt"})
    data = {"predict": ("--input",), "evaluate": ("--data",), "calibrate": ("--fit-on",)}[verb]
    model = ("--model", tmp_path / "model") if verb == "evaluate" else (tmp_path / "model",)
    place = () if verb == "evaluate" else ("--output", tmp_path / "out.csv")
    code, out, err = calmix(verb, *model, *data, reviews / "test.csv", *place)
    assert (code, out) == (2, "")
    assert "the network gives logits that are not finite" in err.splitlines()[-1]
    assert not (tmp_path / "out.csv").exists()


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
    assert [row["predicted_label"] for row in rows] == [stored.class_names[i] for i in stored.predicted()]
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


def test_the_input_comes_first_and_its_own_label_is_not_the_answer(calmix, run, reviews, tmp_path):
    texts = list(csv.DictReader((reviews / "test.csv").open()))
    with (tmp_path / "new.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["stars", "text", "label", "confidence"])
        writer.writerows([n, row["text"], row["label"], "high"] for n, row in enumerate(texts))
    code, out, err = calmix("predict", run, "--input", tmp_path / "new.csv", "--output", tmp_path / "a.csv")
    assert code == 0, err
    rows = answers(tmp_path / "a.csv")
    assert list(rows[0]) == [
        "row_id", "stars", "text", "label", "input_confidence",
        "predicted_label", "prob_negative", "prob_positive", "confidence",
    ]  # fmt: skip
    assert "the input's column 'confidence' is kept as 'input_confidence'" in out
    assert [(row["stars"], row["text"], row["label"]) for row in rows] == [
        (str(n), row["text"], row["label"]) for n, row in enumerate(texts)
    ]
    assert {row["input_confidence"] for row in rows} == {"high"}
    # What the output says of the model is what the run says of it, and not 100 %.
    code, out, err = calmix("evaluate", tmp_path / "a.csv", "--json", "--no-intervals")
    assert code == 0, err
    stored = json.loads((run / "metrics.json").read_text())["splits"]["test"]["calibrated"]
    assert json.loads(out)["files"][0]["accuracy"] == stored["accuracy"] < 1
    assert json.loads(out)["files"][0]["nll"] == pytest.approx(stored["nll"], abs=1e-4)


def test_answers_without_true_labels_are_not_evaluated(calmix, run, tmp_path):
    (tmp_path / "new.jsonl").write_text('{"text": "a great film"}\n{"text": "a dull plot"}\n')
    code, _, err = calmix("predict", run, "--input", tmp_path / "new.jsonl", "--output", tmp_path / "a.csv")
    assert code == 0, err
    code, _, err = calmix("evaluate", tmp_path / "a.csv")
    assert code == 2
    assert "label" in err


def test_answers_may_be_predicted_again(calmix, run, reviews, tmp_path):
    first, second = tmp_path / "a.csv", tmp_path / "b.csv"
    assert calmix("predict", run, "--input", reviews / "test.csv", "--output", first)[0] == 0
    code, _, err = calmix("predict", run, "--input", first, "--output", second, "--id-column", "row_id")
    assert code == 0, err
    before, after = answers(first), answers(second)
    assert [row["row_id"] for row in after] == [row["row_id"] for row in before]
    assert [row["input_predicted_label"] for row in after] == [row["predicted_label"] for row in before]
    assert "input_row_id" not in after[0]


def test_blank_rows_are_named_and_left_out_on_request(calmix, run, tmp_path):
    lines = ["text,note", "a great film,one", "   ,two", "a dull plot,three", '"",four']
    (tmp_path / "new.csv").write_text("\n".join(lines) + "\n")
    asked = ["predict", run, "--input", tmp_path / "new.csv", "--output", tmp_path / "a.csv"]
    code, _, err = calmix(*asked)
    assert code == 2
    assert "2 rows have no text: rows 2, 4; fill them in, or leave them out with --skip-blank" in err
    assert not (tmp_path / "a.csv").exists()
    code, out, err = calmix(*asked, "--skip-blank")
    assert code == 0, err
    assert "2 blank rows are left out: 2, 4" in out
    rows = answers(tmp_path / "a.csv")
    assert [(row["row_id"], row["note"]) for row in rows] == [("input-1", "one"), ("input-3", "three")]
    code, out, _ = calmix(*asked, "--skip-blank", "--json")
    assert json.loads(out)["skipped_rows"] == [2, 4]
    (tmp_path / "new.csv").write_text('text,note\n"",one\n')
    code, _, err = calmix(*asked, "--skip-blank")
    assert (code, "no row has a text" in err) == (2, True)


def test_texts_that_are_cut_are_counted(calmix, run, tmp_path):
    rows = [{"text": "film " * 400}, {"text": "a dull plot"}]
    (tmp_path / "new.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    asked = ["predict", run, "--input", tmp_path / "new.jsonl", "--output", tmp_path / "a.csv"]
    code, out, err = calmix(*asked)
    assert code == 0, err
    assert "1 text is longer than 64 tokens and cut (50.0% of the rows)" in out
    result = json.loads(calmix(*asked, "--json")[1])
    assert (result["truncated"], result["truncated_rows"]) == (1, ["input-1"])


def test_one_text(calmix, run):
    code, out, err = calmix(
        "predict", run, "--text", "a great and clever film", "--accept-above", 0.5, "--json"
    )
    assert code == 0, err
    result = json.loads(out)
    assert sum(result["probabilities"].values()) == pytest.approx(1)
    assert result["confidence"] == max(result["probabilities"].values())
    assert result["probabilities"][result["predicted_label"]] == result["confidence"]
    assert result["accept"] is True
    code, out, err = calmix("predict", run, "--text", "a great and clever film")
    assert code == 0, err
    assert out.splitlines()[0] == f"{result['predicted_label']} ({result['confidence']:.1%})"


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--text", " "], "--text is blank"),
        (["--text", "a", "--input", "b.csv"], "--text replaces --input"),
        (["--text-pair", "a"], "--text-pair belongs to --text"),
        (["--text", "a", "--text-pair", "b"], "reads single texts"),
        (["--text", "a", "--validation", "b.csv"], "--validation is for a target"),
        (["--text", "a", "--reject-ood"], "no out-of-domain threshold was saved"),
        ([], "both --input and --output are needed"),
    ],
)
def test_what_one_text_cannot_be_asked(calmix, run, more, said):
    code, out, err = calmix("predict", run, *more)
    assert (code, out) == (2, "")
    assert said in err


@pytest.mark.parametrize("method", ["temperature", "vector", "structured", "platt", "isotonic"])
def test_a_calibrated_directory_of_every_method(calmix, run, reviews, tmp_path, method):
    made = tmp_path / "calibrated"
    code, _, err = calmix("calibrate", run, "--fit-on", "validation", "--method", method, "--output", made)
    assert code == 0, err
    code, out, err = calmix(
        "predict", made, "--input", reviews / "test.csv", "--output", tmp_path / "a.csv",
        "--target-accuracy", 0.6, "--json",
    )  # fmt: skip
    assert code == 0, err
    stored = read_predictions(made / "predictions" / "test.parquet")
    rows = answers(tmp_path / "a.csv")
    given = np.array([[float(row[f"prob_{name}"]) for name in stored.class_names] for row in rows])
    assert np.abs(given - stored.probabilities()).max() < 1e-4
    result = json.loads(out)
    assert result["validation_rows"] == 48
    assert (result["limit"] is None) == (method == "temperature")


def test_a_checkpoint_knows_no_validation_rows_and_takes_them(calmix, run, reviews, tmp_path):
    asked = ["predict", run / "model", "--input", reviews / "test.csv", "--output", tmp_path / "a.csv"]
    code, _, err = calmix(*asked, "--target-accuracy", 0.6)
    assert code == 2
    assert "give --validation FILE" in err
    code, out, err = calmix(
        *asked, "--target-accuracy", 0.6, "--validation", reviews / "validation.csv", "--json"
    )
    assert code == 0, err
    of_file = json.loads(out)
    whole = ["predict", run, "--input", reviews / "test.csv", "--output", tmp_path / "b.csv"]
    of_run = json.loads(calmix(*whole, "--target-accuracy", 0.6, "--json")[1])
    assert of_file["validation_rows"] == of_run["validation_rows"] == 48
    assert of_file["threshold"] == pytest.approx(of_run["threshold"], abs=1e-5)
    assert [row["predicted_label"] for row in answers(tmp_path / "a.csv")] == [
        row["predicted_label"] for row in answers(tmp_path / "b.csv")
    ]


def test_a_calibrator_of_predictions_has_no_network(calmix, run, reviews, tmp_path):
    file = run / "predictions" / "validation.parquet"
    assert calmix("calibrate", file, "--fit-on", file, "--output", tmp_path / "made")[0] == 0
    code, _, err = calmix("predict", tmp_path / "made", "--text", "a film")
    assert code == 2
    assert "a calibrator without a network" in err


def test_a_comparison_gives_its_recommended_model(calmix, encoders, reviews, tmp_path):
    made = tmp_path / "comparison"
    code, out, err = calmix(
        "compare", "--methods", "plain,cls-mixup", "--seeds", "0", "--train", reviews / "train.csv",
        "--validation", reviews / "validation.csv", "--model", encoders("bert"), "--epochs", 1,
        "--learning-rate", 2e-3, "--output", made, "--json",
    )  # fmt: skip
    assert code == 0, err
    recommended = json.loads(out)["recommendation"]["model"]
    asked = ["predict", made, "--input", reviews / "test.csv", "--output", tmp_path / "a.csv"]
    code, out, err = calmix(*asked)
    assert code == 0, err
    assert f"recommended model: {recommended.removesuffix('/model')}" in out
    code, _, err = calmix(
        "predict", recommended, "--input", reviews / "test.csv", "--output", tmp_path / "b.csv"
    )
    assert code == 0, err
    assert [row["prob_positive"] for row in answers(tmp_path / "a.csv")] == [
        row["prob_positive"] for row in answers(tmp_path / "b.csv")
    ]
    for model in made.glob("runs/*/model"):
        model.rename(model.with_name("gone"))
    code, _, err = calmix(*asked)
    assert code == 2
    assert "was not kept" in err


def with_validation(run, copy):
    """A copy of the run with a validation set on which the most confident 300 of 400 rows are right."""
    shutil.copytree(run, copy)
    confidence = np.linspace(0.99, 0.51, 400)
    temperature = json.loads((run / "metrics.json").read_text())["temperature"]
    logit = np.log(confidence / (1 - confidence)) * temperature
    labels = (np.arange(400) < 300).astype(int)
    validation = Predictions.from_logits(np.stack([np.zeros(400), logit], axis=1), labels)
    write_predictions(copy / "predictions" / "validation.parquet", validation)
    # As if it had been made so: otherwise the run is damaged.
    metrics = json.loads((copy / "metrics.json").read_text())
    metrics["files"] = make_manifest(copy, [copy / name for name in metrics["files"]])
    (copy / "metrics.json").write_text(json.dumps(metrics))
    return copy, confidence


def test_too_few_validation_rows_certify_nothing_and_what_they_do_certify_is_said(
    calmix, run, reviews, tmp_path
):
    copy, _ = with_validation(run, tmp_path / "run")
    asked = ["predict", copy, "--input", reviews / "test.csv", "--output", tmp_path / "a.csv",
             "--target-accuracy", 0.999]  # fmt: skip
    code, out, err = calmix(*asked)
    assert code == 0, err
    assert "400 validation rows certify no threshold for accuracy 0.999" in out
    assert "these 400 rows certify, jointly" in out
    assert "coverage 0.0%" in out
    assert {row["accept"] for row in answers(tmp_path / "a.csv")} == {"false"}
    result = json.loads(calmix(*asked, "--json")[1])
    pairs = [(one["accuracy"], one["coverage"]) for one in result["certified"]]
    assert pairs
    assert pairs == sorted(pairs, reverse=True, key=lambda pair: pair[0])
    assert [coverage for _, coverage in pairs] == sorted(coverage for _, coverage in pairs)
    for accuracy, coverage in pairs:
        assert f"{accuracy:8.1%}  {coverage:8.1%}" in out
        # Asked for by itself, the accuracy leaves at least as many rows.
        alone = json.loads(calmix(*asked[:-1], accuracy, "--json")[1])
        assert alone["validation_coverage"] >= coverage


def test_the_threshold_comes_from_the_calibrated_validation_rows(calmix, run, reviews, tmp_path):
    copy, confidence = with_validation(run, tmp_path / "run")
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
    assert "not a run directory, nor a checkpoint" in err


@pytest.mark.parametrize("method", ["lac", "aps", "raps"])
def test_prediction_sets_are_those_of_the_validation_rows(calmix, run, reviews, tmp_path, method):
    code, out, err = calmix(
        "predict", run, "--input", reviews / "test.csv", "--output", tmp_path / "a.csv",
        "--coverage", 0.8, "--set-method", method, "--json",
    )  # fmt: skip
    assert code == 0, err
    summary, rows = json.loads(out), answers(tmp_path / "a.csv")
    temperature = json.loads((run / "metrics.json").read_text())["temperature"]
    held_out, new = (
        read_predictions(run / "predictions" / f"{split}.parquet").with_temperature(temperature)
        for split in ("validation", "test")
    )
    expected = ConformalSets(method, coverage=0.8).fit(held_out).predict(new)
    names = new.class_names
    for row, inside in zip(rows, expected, strict=True):
        assert set(json.loads(row["prediction_set"])) == {n for n, i in zip(names, inside, strict=True) if i}
        assert int(row["set_size"]) == inside.sum()
    assert summary["set_mean_size"] == pytest.approx(expected.sum(axis=1).mean())
    assert "hold the true class with probability 80.0% or more" in summary["set_guarantee"]


def test_too_few_validation_rows_for_a_coverage_are_said(calmix, run, reviews, tmp_path):
    code, out, err = calmix(
        "predict", run, "--input", reviews / "test.csv", "--output", tmp_path / "a.csv", "--coverage", 0.9999
    )
    assert code == 0, err
    assert "takes at least 9999 validation rows" in out


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--coverage", "1.5"], "--coverage is 1.5"),
        (["--coverage", "nan"], "--coverage is nan"),
        (["--coverage", "0.9", "--set-method", "top-k"], "--set-method"),
        (["--class-conditional"], "--class-conditional is for prediction sets"),
    ],
)
def test_sets_that_cannot_be_are_refused(calmix, run, reviews, tmp_path, more, said):
    arguments = ["predict", run, "--input", reviews / "test.csv", "--output", tmp_path / "a.csv", *more]
    code, _, err = calmix(*arguments)
    assert code == 2
    assert said in err
    assert not (tmp_path / "a.csv").exists()
