"""`calmix calibrate` on a run, a checkpoint directory and a predictions file."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoModelForMultipleChoice, AutoModelForSequenceClassification, AutoTokenizer
from transformers.utils.logging import disable_progress_bar

from calmix.calibration.files.prediction_files import read_predictions, write_predictions
from calmix.calibration.predictions import Predictions
from tiny import build_config, build_tokenizer


def probabilities(directory, texts):
    model = AutoModelForSequenceClassification.from_pretrained(directory).eval()
    tokenizer = AutoTokenizer.from_pretrained(directory)
    with torch.no_grad():
        return torch.softmax(model(**tokenizer(texts, padding=True, return_tensors="pt")).logits, 1).numpy()


def texts_of(reviews, name):
    import csv

    return [row["text"] for row in csv.DictReader((reviews / f"{name}.csv").open())]


def test_a_run_whose_temperature_is_folded_is_not_scaled_twice(calmix, run, tmp_path):
    code, out, err = calmix("calibrate", run, "--fit-on", "validation", "--output", tmp_path / "c", "--json")
    assert code == 0, err
    result = json.loads(out)
    assert result["temperature"] == pytest.approx(1.0, abs=1e-3)
    assert result["already_calibrated"] is True
    code, out, err = calmix("calibrate", run, "--fit-on", "validation", "--output", tmp_path / "d")
    assert code == 0, err
    assert "already calibrated: fitting a temperature again gives 1.0000, so nothing changes" in out


def test_a_run_is_measured_on_its_other_splits_and_the_split_it_is_fitted_on_by_cross_validation(
    calmix, run, tmp_path
):
    output = tmp_path / "c"
    code, out, err = calmix(
        "calibrate", run, "--fit-on", "test", "--method", "vector", "--output", output, "--json"
    )
    assert code == 0, err
    result = json.loads(out)
    held_out = result["held_out"]
    for found in held_out.values():
        low, high = found["nll_difference"]["ci"]
        change = found["after"]["nll"] - found["before"]["nll"]
        assert low <= change <= high
        assert found["nll_difference"]["difference"] == pytest.approx(change)
    assert {name: found["measured"] for name, found in held_out.items()} == {
        "test": "cross-validated",
        "validation": "held-out",
    }
    assert held_out["validation"]["before"]["in_sample"] is True  # of the run's own temperature
    assert result["in_sample"] == ["nll_before", "nll_after"]
    # Vector scaling minimises the NLL of its own rows, and its promise is better than what it keeps.
    assert result["nll_after"] < held_out["test"]["after"]["nll"]
    stored = read_predictions(output / "predictions" / "validation.parquet")
    assert held_out["validation"]["after"]["nll"] == pytest.approx(-stored.gold_log_probability().mean())
    assert result["already_calibrated"] is False
    assert Path(result["report"]) == output / "report.html"
    assert "Reliability on validation" in (output / "report.html").read_text()


def test_one_file_alone_is_measured_by_cross_validation(calmix, tmp_path):
    generator = np.random.default_rng(0)
    logits, labels = 3 * generator.normal(size=(60, 4)), generator.integers(0, 4, 60)
    write_predictions(tmp_path / "p.parquet", Predictions.from_logits(logits, labels))
    arguments = (
        "calibrate",
        tmp_path / "p.parquet",
        "--fit-on",
        tmp_path / "p.parquet",
        "--method",
        "vector",
    )
    code, out, err = calmix(*arguments, "--output", tmp_path / "c", "--json")
    assert code == 0, err
    result = json.loads(out)
    assert list(result["held_out"]) == ["p.parquet"]
    assert result["held_out"]["p.parquet"]["measured"] == "cross-validated"
    # Labels that have nothing to do with the logits: a gain in-sample is no gain on new rows.
    assert result["nll_after"] < np.log(4) < result["held_out"]["p.parquet"]["after"]["nll"]
    code, out, err = calmix(*arguments, "--output", tmp_path / "d")
    assert code == 0, err
    assert "p.parquet *" in out
    assert "* cross-validated: fitted five times" in out
    assert "NLL in-sample (the 60 rows it was fitted on)" in out
    assert f"report: {tmp_path / 'd' / 'report.html'}" in out


def test_too_few_rows_to_hold_any_out_are_said(calmix, tmp_path):
    logits, labels = np.eye(3)[[0, 1, 2, 0, 1]] * 2, [0, 1, 2, 1, 1]
    write_predictions(tmp_path / "p.parquet", Predictions.from_logits(logits, labels))
    code, out, err = calmix(
        "calibrate", tmp_path / "p.parquet", "--fit-on", tmp_path / "p.parquet", "--output", tmp_path / "c"
    )
    assert code == 0, err
    assert "no metric is held out: there are too few rows for cross-validation" in out
    assert (tmp_path / "c" / "report.html").is_file()


@pytest.mark.parametrize("method", ["temperature-bias", "vector", "structured", "auto", "platt"])
def test_the_folded_checkpoint_gives_the_calibrated_probabilities(calmix, run, reviews, tmp_path, method):
    from transformers.utils import logging

    logging.enable_progress_bar()  # as in a process of its own: what transformers draws is not shown
    output = tmp_path / "calibrated"
    code, out, err = calmix(
        "calibrate", run, "--fit-on", "test", "--method", method, "--output", output, "--json"
    )
    assert (code, err) == (0, "")
    result = json.loads(out)
    assert result["nll_after"] <= result["nll_before"] + (0.01 if method != "vector" else 1e-9)
    stored = read_predictions(output / "predictions" / "validation.parquet")
    given = probabilities(output / "model", texts_of(reviews, "validation"))
    assert np.abs(given - stored.probabilities()).max() < 1e-5


def test_any_checkpoint_directory_is_calibrated_on_a_labelled_file(calmix, run, reviews, tmp_path):
    # A checkpoint that calmix never saw: no record of a temperature, and logits three times too large.
    model = AutoModelForSequenceClassification.from_pretrained(run / "model")
    with torch.no_grad():
        model.classifier.weight.mul_(3)
        model.classifier.bias.mul_(3)
    del model.config.calmix_calibration
    model.save_pretrained(tmp_path / "foreign")
    AutoTokenizer.from_pretrained(run / "model").save_pretrained(tmp_path / "foreign")
    output = tmp_path / "calibrated"
    code, out, err = calmix(
        "calibrate",
        tmp_path / "foreign",
        "--fit-on",
        reviews / "validation.csv",
        "--output",
        output,
        "--json",
    )
    assert code == 0, err
    assert json.loads(out)["temperature"] == pytest.approx(3.0, rel=1e-2)
    expected = probabilities(run / "model", texts_of(reviews, "test"))
    assert np.abs(probabilities(output / "model", texts_of(reviews, "test")) - expected).max() < 2e-3
    assert json.loads((output / "model" / "config.json").read_text())["calmix_calibration"]["folded"] is True


@pytest.mark.parametrize("method", ["temperature", "isotonic"])
def test_a_predictions_file(calmix, tmp_path, method):
    generator = np.random.default_rng(0)
    logits = generator.normal(size=(400, 3)) * 4
    labels = np.array([generator.choice(3, p=np.exp(z / 3) / np.exp(z / 3).sum()) for z in logits])
    for name, part in (("fit", slice(0, 200)), ("new", slice(200, 400))):
        write_predictions(tmp_path / f"{name}.parquet", Predictions.from_logits(logits[part], labels[part]))
    output = tmp_path / "calibrated"
    code, out, err = calmix(
        "calibrate", tmp_path / "new.parquet", "--fit-on", tmp_path / "fit.parquet", "--method", method,
        "--output", output, "--json",
    )  # fmt: skip
    assert code == 0, err
    assert json.loads(out)["folded"] is False
    before, after = (
        read_predictions(f) for f in (tmp_path / "new.parquet", output / "predictions/new.parquet")
    )
    assert -after.gold_log_probability().mean() < -before.gold_log_probability().mean()


def test_predictions_of_other_classes_are_nothing_to_fit_on(calmix, tmp_path):
    for name, classes in (("two", 2), ("three", 3)):
        logits, labels = np.eye(classes), np.arange(classes)
        write_predictions(tmp_path / f"{name}.parquet", Predictions.from_logits(logits, labels))
    code, out, err = calmix(
        "calibrate", tmp_path / "two.parquet", "--fit-on", tmp_path / "three.parquet", "--output",
        tmp_path / "out",
    )  # fmt: skip
    assert (code, out) == (2, "")
    assert f"three.parquet: 3 classes, but {tmp_path / 'two.parquet'} has 2; fit on" in err
    assert len(err.strip().splitlines()) == 1
    assert not (tmp_path / "out").exists()


def animals(file, order, seed, classes=("cat", "dog", "fox")):
    """Predictions with too much "dog" in them, the columns in any order."""
    generator = np.random.default_rng(seed)
    honest = generator.normal(size=(600, 3)) * 2
    shares = np.exp(honest) / np.exp(honest).sum(1, keepdims=True)
    labels = (shares.cumsum(1) > generator.random((600, 1))).argmax(1)
    logits = honest + np.array([0, 2, 0])
    lines = ["label," + ",".join(f"logit_{classes[place]}" for place in order)]
    for label, row in zip(labels, logits, strict=True):
        lines.append(",".join([classes[label], *(repr(float(row[place])) for place in order)]))
    file.write_text("\n".join(lines) + "\n")
    return file


def test_classes_are_matched_by_name_where_columns_stand_in_another_order(calmix, tmp_path):
    val = animals(tmp_path / "val.csv", (0, 1, 2), 1)
    found = []
    for name, order in (("test", (0, 1, 2)), ("turned", (2, 0, 1))):
        test, output = animals(tmp_path / f"{name}.csv", order, 2), tmp_path / f"{name}-calibrated"
        code, _, err = calmix("calibrate", test, "--fit-on", val, "--method", "vector", "--output", output)
        assert code == 0, err
        calibrated = read_predictions(output / "predictions" / f"{name}.parquet")
        assert calibrated.class_names == tuple(("cat", "dog", "fox")[place] for place in order)
        assert json.loads((output / "calibration.json").read_text())["class_names"] == [
            *calibrated.class_names
        ]
        found.append(-calibrated.gold_log_probability().mean())
    assert found[1] == pytest.approx(found[0], abs=1e-6)
    assert found[0] < -read_predictions(tmp_path / "test.csv").gold_log_probability().mean() - 0.1


def test_a_saved_calibrator_knows_its_classes(calmix, tmp_path):
    from calmix.calibration.calibrators.calibrated_predictions import calibrate_predictions
    from calmix.calibration.calibrators.calibrator import load_calibrator
    from calmix.user_error import UserError

    val, test = animals(tmp_path / "val.csv", (0, 1, 2), 1), animals(tmp_path / "test.csv", (0, 1, 2), 2)
    code, _, err = calmix(
        "calibrate", test, "--fit-on", val, "--method", "vector", "--output", tmp_path / "c"
    )
    assert code == 0, err
    loaded = load_calibrator(tmp_path / "c")
    turned = read_predictions(animals(tmp_path / "turned.csv", (2, 0, 1), 2))
    stored = read_predictions(tmp_path / "c" / "predictions" / "test.parquet")
    found = calibrate_predictions(loaded, turned)
    assert found.class_names == ("fox", "cat", "dog")
    assert np.allclose(found.with_class_order(stored.class_names).probabilities(), stored.probabilities())
    as_probabilities = Predictions.from_probabilities(
        turned.probabilities(), turned.labels, class_names=turned.class_names
    )
    # Their logarithms are calibrated, not the probabilities themselves.
    by_hand = loaded.predict_proba(np.log(turned.probabilities()[:, [1, 2, 0]]))
    assert np.allclose(calibrate_predictions(loaded, as_probabilities).probabilities()[:, [1, 2, 0]], by_hand)
    cows = read_predictions(animals(tmp_path / "cows.csv", (0, 1, 2), 2, classes=("cat", "cow", "fox")))
    with pytest.raises(UserError, match="the classes differ: cat, dog, fox and cat, cow, fox"):
        calibrate_predictions(loaded, cows)


def test_columns_of_any_name_and_rounded_probabilities(calmix, tmp_path):
    generator = np.random.default_rng(3)
    honest = generator.normal(size=500) * 2
    truth = generator.random(500) < 1 / (1 + np.exp(-honest))
    lines = ["truth,p_no,p_yes"]
    for came_true, odds in zip(truth, 4 * honest, strict=True):
        p = 1 / (1 + np.exp(-odds))
        lines.append(f"{'yes' if came_true else 'no'},{1 - p:.3f},{p:.3f}")
    for name in ("val", "test"):
        (tmp_path / f"{name}.csv").write_text("\n".join(lines) + "\n")
    options = ("--label-column", "truth", "--prob-columns", "p_no,p_yes", "--class-names", "no,yes", "--json")
    code, out, err = calmix(
        "calibrate",
        tmp_path / "test.csv",
        "--fit-on",
        tmp_path / "val.csv",
        "--output",
        tmp_path / "c",
        *options,
    )
    assert code == 0, err
    found = json.loads(out)
    assert found["class_names"] == ["no", "yes"]
    assert found["temperature"] == pytest.approx(4, rel=0.15)
    assert "rounded to 3 digits" in found["notes"][0]
    code, out, err = calmix("evaluate", tmp_path / "test.csv", *options)
    assert code == 0, err
    evaluated = json.loads(out)
    assert evaluated["files"][0]["nll"] == pytest.approx(found["nll_before"])
    assert "rounded to 3 digits" in evaluated["notes"][0]
    code, out, err = calmix("evaluate", tmp_path / "test.csv")
    assert (code, out) == (2, "")
    assert "name it with --label-column" in err


def test_other_classes_of_the_same_number_are_refused_with_both_lists(calmix, tmp_path):
    val = animals(tmp_path / "val.csv", (0, 1, 2), 1)
    test = animals(tmp_path / "test.csv", (0, 1, 2), 2, classes=("cat", "cow", "fox"))
    code, out, err = calmix("calibrate", test, "--fit-on", val, "--output", tmp_path / "out")
    assert (code, out) == (2, "")
    assert f"val.csv: the classes are cat, dog, fox, but those of {test} are cat, cow, fox; fit on" in err
    assert not (tmp_path / "out").exists()


def test_vector_scaling_of_a_choice_head_is_refused_with_the_reason(calmix, encoders, tmp_path):
    torch.manual_seed(0)
    AutoModelForMultipleChoice.from_pretrained(encoders("bert")).save_pretrained(tmp_path / "choice")
    AutoTokenizer.from_pretrained(encoders("bert")).save_pretrained(tmp_path / "choice")
    rows = [{"text": "the film", "choices": ["great", "dull", "warm"], "label": i % 3} for i in range(12)]
    (tmp_path / "fit.jsonl").write_text("\n".join(map(json.dumps, rows)))
    code, _, err = calmix(
        "calibrate", tmp_path / "choice", "--fit-on", tmp_path / "fit.jsonl", "--method", "vector",
        "--output", tmp_path / "out",
    )  # fmt: skip
    assert code == 2
    assert "one set of weights for all choices" in err
    assert not (tmp_path / "out").exists()


def classifier(directory, config):
    """A randomly initialised classifier with a tokenizer, saved without a progress bar."""
    disable_progress_bar()
    torch.manual_seed(0)
    config.id2label = {0: "negative", 1: "positive"}
    AutoModelForSequenceClassification.from_config(config).save_pretrained(directory)
    build_tokenizer(directory)
    return directory


@pytest.mark.parametrize("family", ["gpt2", "qwen2", "llama"])
def test_a_bias_that_a_decoder_could_not_load_is_refused_and_a_temperature_is_kept(
    calmix, reviews, tmp_path, family
):
    source = classifier(tmp_path / "decoder", build_config(family))
    fit = ("calibrate", source, "--fit-on", reviews / "validation.csv", "--output", tmp_path / "out")
    for method in ("vector", "platt"):
        code, out, err = calmix(*fit, "--method", method)
        assert (code, out) == (2, "")
        assert "has no bias" in err
        assert "--method temperature" in err
        assert len(err.strip().splitlines()) == 1
        assert [path.name for path in tmp_path.iterdir()] == ["decoder"]
    code, out, err = calmix(*fit, "--json")
    assert code == 0, err
    temperature = json.loads(out)["temperature"]
    texts = texts_of(reviews, "validation")[:1]  # decoders pool at the last token: one text, no padding
    before, after = probabilities(source, texts), probabilities(tmp_path / "out" / "model", texts)
    ratio = np.log(before[0, 1] / before[0, 0]) / np.log(after[0, 1] / after[0, 0])
    assert ratio == pytest.approx(temperature, rel=1e-3)


def test_a_checkpoint_that_does_not_give_back_what_was_folded_is_refused(
    calmix, encoders, reviews, tmp_path, monkeypatch
):
    """As if `from_pretrained` had dropped a part of the fold."""
    from calmix.models import folding

    whole = folding.fold
    monkeypatch.setattr(folding, "fold", lambda model, scale, bias=0.0: whole(model, scale))
    source = classifier(tmp_path / "bert", build_config("bert"))
    code, out, err = calmix(
        "calibrate", source, "--fit-on", reviews / "validation.csv", "--method", "vector", "--output",
        tmp_path / "out",
    )  # fmt: skip
    assert (code, out) == (2, "")
    assert "loaded again, gives probabilities that are off by" in err
    assert [path.name for path in tmp_path.iterdir()] == ["bert"]


def test_a_run_whose_files_are_gone_is_proven_on_rows_made_up(calmix, run, tmp_path):
    import shutil

    import yaml

    moved = tmp_path / "run"
    shutil.copytree(run, moved)
    settings = yaml.safe_load((moved / "config.yaml").read_text())
    settings |= {"train": "gone.csv", "validation": "gone.csv", "test": ["gone.csv"]}
    (moved / "config.yaml").write_text(yaml.safe_dump(settings))
    code, _, err = calmix(
        "calibrate", moved, "--fit-on", "test", "--method", "vector", "--output", tmp_path / "c"
    )
    assert code == 0, err
    assert (tmp_path / "c" / "model" / "model.safetensors").is_file()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nowhere", "--fit-on", "x", "--output", "out"], "no such run, checkpoint or predictions file"),
        (["nowhere", "--output", "out"], "nothing to fit on"),
        (["nowhere", "--fit-on", "x"], "no output directory"),
        (
            ["there.csv", "--fit-on", "x", "--output", "out", "--method", "temprature"],
            "did you mean 'temperature'",
        ),
    ],
)
def test_bad_input_is_one_line(calmix, tmp_path, monkeypatch, arguments, said):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "there.csv").write_text("label,prob_0,prob_1\n0,0.9,0.1\n")
    code, out, err = calmix("calibrate", *arguments)
    assert (code, out) == (2, "")
    assert said in err
    assert len(err.strip().splitlines()) == 1


def test_an_unknown_split_lists_those_there_are(calmix, run, tmp_path):
    code, _, err = calmix("calibrate", run, "--fit-on", "dev", "--output", tmp_path / "c")
    assert code == 2
    assert "one of its splits: validation, test" in err
