"""`calmix train --calibrator`: what is folded, stored, reported and refused."""

import csv
import json

import numpy as np
import pytest
import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from calmix.calibration.calibrators.calibrator import get_calibrator
from calmix.calibration.evaluation import evaluate
from calmix.workflows.run import Run
from tiny import read_json, sentences

pytestmark = pytest.mark.trains
KINDS = ["temperature-bias", "vector", "structured", "auto"]


def write(path, texts, labels):
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([["text", "label"], *zip(texts, labels, strict=True)])
    return path


@pytest.fixture(scope="module")
def arguments(encoders, tmp_path_factory):
    """Three labels in ten of one class are wrong in validation and test: no temperature corrects that."""
    folder = tmp_path_factory.mktemp("calibrator")
    generator = np.random.default_rng(0)
    files = {}
    for seed, (name, rows) in enumerate((("train", 200), ("validation", 250), ("test", 150))):
        texts, labels = sentences(rows, seed=seed, noise=0.0)
        if name != "train":
            wrong = generator.random(rows) < 0.3
            labels = [
                "negative" if one and label == "positive" else label
                for one, label in zip(wrong, labels, strict=True)
            ]
        files[name] = write(folder / f"{name}.csv", texts, labels)
    return (
        "train", "--train", files["train"], "--validation", files["validation"], "--test", files["test"],
        "--model", encoders("bert"), "--epochs", 3, "--learning-rate", "3e-3",
    )  # fmt: skip


def texts_of(file):
    return [row["text"] for row in csv.DictReader(file.read_text().splitlines())]


def probabilities(directory, texts):
    model = AutoModelForSequenceClassification.from_pretrained(directory).eval()
    tokenizer = AutoTokenizer.from_pretrained(directory)
    with torch.no_grad():
        return torch.softmax(model(**tokenizer(texts, padding=True, return_tensors="pt")).logits, 1).numpy()


@pytest.mark.parametrize("kind", KINDS)
def test_the_calibrator_is_folded_and_the_stored_logits_give_the_same(calmix, arguments, tmp_path, kind):
    run = tmp_path / "run"
    code, out, err = calmix(*arguments, "--calibrator", kind, "--output", run, "--json")
    assert code == 0, err
    metrics = json.loads(out)
    name = metrics["calibrator"]
    assert name == kind or (kind == "auto" and name != "temperature")
    assert "temperature" not in metrics
    facts = read_json(run / "calibration.json")
    assert facts["method"] == name and facts["folded"]
    assert ("cross_validation" in facts) == (kind == "auto")
    # An outside fit on the stored validation logits.
    opened = Run.open(run)
    parameters = {"coordinates": "centred"} if name == "structured" else {}
    fitted = get_calibrator(name, **parameters).fit(opened.predictions("validation", calibrated=False))
    before, after = opened.predictions("test", calibrated=False), opened.predictions("test")
    np.testing.assert_allclose(after.probabilities(), fitted.predict_proba(before), atol=1e-6)
    # What the checkpoint says, loaded as anybody would.
    texts = texts_of(arguments[6])
    np.testing.assert_allclose(probabilities(run / "model", texts), after.probabilities(), atol=1e-4)
    config = read_json(run / "model" / "config.json")
    assert config["calmix_calibration"]["method"] == name
    # `calibrated` is that calibrator, and its intervals include the fit.
    measured, alone = metrics["splits"]["test"]["calibrated"], evaluate(after)
    assert measured["nll"] == pytest.approx(alone["nll"]) and measured["ci_includes_fit"]
    assert measured["nll_ci"][0] < alone["nll_ci"][0] and measured["nll_ci"][1] > alone["nll_ci"][1]
    assert measured["nll"] < evaluate(before)["nll"]
    words = {"vector": "vector scaling", "structured": "structured scaling"}.get(name, "class biases")
    assert words in (run / "report.html").read_text() and words in (run / "model" / "README.md").read_text()
    code, out, err = calmix("evaluate", run, "--json")
    assert code == 0, err
    files = {(one["file"], one["stage"]): one for one in json.loads(out)["files"]}
    again = files[f"{run}:test", "calibrated"]
    assert again["nll"] == pytest.approx(measured["nll"])
    np.testing.assert_allclose(again["nll_ci"], measured["nll_ci"], rtol=1e-6)
    # Whoever would take a temperature out again says why not.
    code, _, err = calmix("ood", run, "--in", arguments[6], "--out", f"x={arguments[2]}")
    assert code == 2 and f"{name} scaling" in err and "--calibrator temperature" in err
    # The saved model is a source like any other.
    code, _, err = calmix("calibrate", run, "--fit-on", "validation", "--output", tmp_path / "again")
    assert code == 0, err


def test_the_default_is_the_temperature_and_says_its_name(calmix, arguments, tmp_path):
    runs = []
    for name, more in (("a", ()), ("b", ("--calibrator", "temperature"))):
        code, out, err = calmix(*arguments, *more, "--output", tmp_path / name, "--json")
        assert code == 0, err
        runs.append({**json.loads(out), "seconds": 0, "run": ""})
    assert runs[0] == runs[1] and runs[0]["calibrator"] == "temperature" and runs[0]["temperature"] > 0
    assert not (tmp_path / "a" / "calibrator.json").exists()
    (tmp_path / "c.yaml").write_text("calibrator: vector\n")
    code, out, err = calmix(*arguments, "--config", tmp_path / "c.yaml", "--output", tmp_path / "c", "--json")
    assert code == 0 and json.loads(out)["calibrator"] == "vector", err


def test_a_second_calibrator_for_an_unknown_domain(calmix, arguments, tmp_path):
    run = tmp_path / "run"
    code, out, err = calmix(*arguments, "--calibrator", "perturbed", "--output", run, "--json")
    assert code == 0, err
    metrics = json.loads(out)
    assert metrics["calibrator"] == "temperature" and metrics["perturbed"]["copies"] == 4
    for split in metrics["splits"].values():
        assert set(split) == {"uncalibrated", "calibrated", "perturbed"}
        assert split["perturbed"]["accuracy"] == split["calibrated"]["accuracy"]
    opened = Run.open(run)
    logits = opened.predictions("test", calibrated=False)
    expected = logits.with_temperature(metrics["perturbed"]["temperature"])
    found = metrics["splits"]["test"]["perturbed"]
    assert found["nll"] == pytest.approx(evaluate(expected)["nll"], rel=1e-6)
    assert opened.metrics["test"].perturbed.nll == found["nll"]
    # Two model folders: the caller names the one that answers.
    texts = texts_of(arguments[6])
    for place, own in (
        (run / "model", opened.predictions("test")),
        (opened.perturbed_path / "model", expected),
    ):
        np.testing.assert_allclose(probabilities(place, texts), own.probabilities(), atol=1e-4)
    assert "unknown domain" in (run / "perturbed" / "model" / "README.md").read_text()
    code, _, err = calmix(
        "predict", run / "perturbed", "--input", arguments[6], "--output", tmp_path / "p.csv"
    )
    assert code == 0, err
    code, out, err = calmix("evaluate", "--model", run / "perturbed", "--data", arguments[6], "--json")
    assert code == 0 and json.loads(out)["files"][0]["nll"] == pytest.approx(found["nll"], abs=1e-4), err
    assert "perturbed" in (run / "report.html").read_text()
    # As `calmix adapt --perturbed` would have made it.
    code, out, err = calmix("adapt", run, "--perturbed", "--output", tmp_path / "later", "--json")
    assert code == 0, err
    total = json.loads(out)["temperature"] * metrics["temperature"]
    assert total == pytest.approx(metrics["perturbed"]["temperature"], rel=1e-3)


def test_what_a_head_cannot_hold_is_refused_before_training(calmix, encoders, arguments, tmp_path):
    rows = [{"text": text, "choices": ["great", "dull", "warm"], "label": place % 3}
            for place, text in enumerate(sentences(60, seed=1)[0])]  # fmt: skip
    (tmp_path / "choice.jsonl").write_text("\n".join(map(json.dumps, rows)))
    asked = ("train", "--train", tmp_path / "choice.jsonl", "--model", encoders("bert"), "--epochs", 1)
    code, _, err = calmix(*asked, "--calibrator", "vector", "--output", tmp_path / "a")
    assert code == 2 and "multiple-choice head" in err and not (tmp_path / "a").exists()
    code, out, err = calmix(*asked, "--calibrator", "auto", "--output", tmp_path / "b", "--json")
    assert code == 0 and json.loads(out)["calibrator"] == "temperature", err
    assert "only a temperature was tried" in read_json(tmp_path / "b" / "calibration.json")["notes"][0]
    decoder = (*arguments[: arguments.index("--model") + 1], encoders("gpt2"), "--calibrator", "vector")
    code, _, err = calmix(*decoder, "--output", tmp_path / "c")
    assert code == 2 and "has no bias" in err and "--calibrator temperature" in err
    asked = ("--unlabelled", tmp_path / "choice.jsonl", "--output", tmp_path / "d")
    for method in ("lascal", "em-label-shift"):
        code, _, err = calmix("adapt", tmp_path / "b", *asked, "--method", method)
        assert code == 2 and "choices have no classes" in err and not (tmp_path / "d").exists()
    for more, message in (
        (("--calibrator", "isotonic"), "--calibrator is 'isotonic'"),
        (("--calibrator", "vector", "--temperature-fit", "grid"), "--temperature-fit grid"),
    ):
        code, _, err = calmix(*arguments, *more, "--output", tmp_path / "c")
        assert code == 2 and message in err and not (tmp_path / "c").exists()


def test_compare_distill_and_python_take_it(calmix, arguments, tmp_path):
    asked = (*arguments[1:-4], "--epochs", 1, "--learning-rate", "3e-3", "--calibrator", "vector")
    code, out, err = calmix("compare", *asked, "--methods", "plain,cls-mixup", "--seeds", "0",
                            "--output", tmp_path / "compared", "--json")  # fmt: skip
    assert code == 0, err
    assert "stand for the calibrator of the runs: vector" in json.loads(out)["recommendation"]["notes"][0]
    assert "calibrator of the runs: vector" in (tmp_path / "compared" / "report.html").read_text()
    code, out, err = calmix(
        "distill", "--teacher", "plain", *asked, "--output", tmp_path / "student", "--json"
    )
    assert code == 0 and json.loads(out)["calibrator"] == "vector", err
    student = Run.open(tmp_path / "student")
    fitted = get_calibrator("vector").fit(student.predictions("validation", calibrated=False))
    before, after = student.predictions("test", calibrated=False), student.predictions("test")
    np.testing.assert_allclose(after.probabilities(), fitted.predict_proba(before), atol=1e-6)
