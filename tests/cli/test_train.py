"""`calmix train` on every file format, task and architecture, and what the run directory is worth."""

import csv
import gzip
import json
import shutil
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from calmix.calibration.files.prediction_files import read_predictions
from tiny import FAMILIES, read_json, sentences

SPLIT_KEYS = {
    "n", "accuracy", "nll", "brier", "ece", "ece_ci", "ece_noise_floor", "adaptive_ece", "classwise_ece",
    "oe", "mce", "aurc", "augrc",
}  # fmt: skip


def records(task, rows, seed):
    texts, labels = sentences(rows, seed=seed)
    if task == "single":
        return [{"text": t, "label": label} for t, label in zip(texts, labels, strict=True)]
    others, _ = sentences(rows, seed=seed + 100)
    if task == "pair":
        return [
            {"text": t, "text_pair": other, "label": int(label == "positive")}
            for t, other, label in zip(texts, others, labels, strict=True)
        ]
    return [
        {"text": t, "choices": [other, t, "the plot"], "label": i % 3}
        for i, (t, other) in enumerate(zip(texts, others, strict=True))
    ]


def write(path, rows):
    name = path.name.removesuffix(".gz")
    if name.endswith(".parquet"):
        pq.write_table(pa.Table.from_pylist(rows), path)
        return path
    if name.endswith(".jsonl"):
        content = "\n".join(json.dumps(row) for row in rows)
    elif name.endswith(".json"):
        content = json.dumps(rows)
    else:
        mark = "\t" if name.endswith(".tsv") else ","

        def cell(value):
            return json.dumps(value) if isinstance(value, list) else str(value)

        def quote(text):
            return '"' + text.replace('"', '""') + '"'

        lines = [mark.join(rows[0])] + [mark.join(quote(cell(v)) for v in row.values()) for row in rows]
        content = "\n".join(lines) + "\n"
    data = content.encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def train(calmix, folder, encoder, files, *more):
    code, out, err = calmix(
        "train", "--train", files["train"], "--validation", files["validation"], "--test", files["test"],
        "--model", encoder, "--output", folder / "run", "--epochs", 2, "--batch-size", 16,
        "--learning-rate", "1e-3", "--json", *more,
    )  # fmt: skip
    assert code == 0, err
    return json.loads(out)


FORMATS = ["csv", "tsv", "json", "jsonl", "parquet", "csv.gz", "jsonl.gz"]


KINDS = [
    *(("single", extension) for extension in FORMATS),
    *(("pair", extension) for extension in ("tsv", "json")),
    *(("choice", extension) for extension in ("csv", "parquet")),
]


@pytest.mark.parametrize(("task", "extension"), KINDS)
def test_every_format_and_task(calmix, encoders, tmp_path, task, extension):
    files = {
        name: write(tmp_path / f"{name}.{extension}", records(task, rows, seed))
        for seed, (name, rows) in enumerate({"train": 32, "validation": 24, "test": 24}.items())
    }
    result = train(calmix, tmp_path, encoders("bert"), files)
    assert result["task"] == task
    assert set(result["splits"]) == {"validation", "test"}
    stored = read_predictions(tmp_path / "run" / "predictions" / "test.parquet")
    assert len(stored) == 24
    assert list(stored.ids[:2]) == ["test-1", "test-2"]
    for stage in ("uncalibrated", "calibrated"):
        assert set(result["splits"]["test"][stage]) >= SPLIT_KEYS


@pytest.mark.parametrize("family", [family for family in FAMILIES if family != "bert"])
def test_every_architecture(calmix, encoders, tmp_path, family):
    files = {
        name: write(tmp_path / f"{name}.csv", records("single", rows, seed))
        for seed, (name, rows) in enumerate({"train": 32, "validation": 24, "test": 24}.items())
    }
    result = train(calmix, tmp_path, encoders(family), files)
    assert len(result["history"]) == 2
    assert sum(epoch["chosen"] for epoch in result["history"]) == 1


def test_a_directory_of_splits(calmix, encoders, tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    for seed, (name, rows) in enumerate({"train": 32, "validation": 24, "test": 24}.items()):
        write(folder / f"{name}.jsonl", records("single", rows, seed))
    code, out, err = calmix(
        "train", "--train", folder, "--model", encoders("bert"), "--output", tmp_path / "run",
        "--epochs", 1, "--json",
    )  # fmt: skip
    assert code == 0, err
    assert json.loads(out)["sizes"] == {"train": 32, "validation": 24, "test": 24}


@pytest.fixture(scope="module")
def run(reviews, encoders, tmp_path_factory):
    """One finished run of the tiny BERT with two test sets."""
    from calmix.cli.train import run_training
    from calmix.training.configuration import TrainConfig

    output = tmp_path_factory.mktemp("run") / "run"
    config = TrainConfig(
        train=str(reviews / "train.csv"),
        validation=str(reviews / "validation.csv"),
        test=(str(reviews / "test.csv"), f"other={reviews / 'other.csv'}"),
        model=str(encoders("bert")),
        output=str(output),
        learning_rate=2e-3,
        epochs=4,
    )
    run_training(config.as_dict(), resume=False, as_json=True)
    return output


def test_the_run_directory_holds_what_is_promised(run):
    files = {str(path.relative_to(run)) for path in run.rglob("*") if path.is_file()}
    assert {
        "config.yaml", "calibration.json", "dynamics.parquet", "metrics.json", "report.html",
        "model/README.md", "model/model.safetensors", "model/config.json", "predictions/validation.parquet",
        "predictions/test.parquet", "predictions/other.parquet",
    } <= files  # fmt: skip
    metrics = read_json(run / "metrics.json")
    assert set(metrics["splits"]) == {"validation", "test", "other"}
    assert {"method", "model", "seed", "temperature", "seconds", "device", "ece_bins", "ece_edges"} <= set(
        metrics
    )
    for split in metrics["splits"].values():
        for stage in ("uncalibrated", "calibrated"):
            assert set(split[stage]) >= SPLIT_KEYS
    assert metrics["splits"]["validation"]["calibrated"]["in_sample"] is True
    assert read_json(run / "calibration.json")["temperature"] == metrics["temperature"]
    assert (
        read_json(run / "model" / "config.json")["calmix_calibration"]["temperature"]
        == metrics["temperature"]
    )


def test_dynamics_hold_every_training_row_and_epoch(run):
    dynamics = pq.read_table(run / "dynamics.parquet")
    assert dynamics.num_rows == 96
    assert dynamics.column_names[:2] == ["row_id", "label"]
    assert {len(epochs) for epochs in dynamics["gold_probability"].to_pylist()} == {4}
    first = dynamics.slice(0, 1).to_pylist()[0]
    assert first["confidence"] == pytest.approx(np.mean(first["gold_probability"]), abs=1e-12)
    assert first["aum"] == pytest.approx(np.mean(first["margin"]), abs=1e-12)


def test_the_epoch_with_the_lowest_calibrated_nll_is_kept(run):
    history = read_json(run / "metrics.json")["history"]
    best = min(history, key=lambda epoch: epoch["validation_nll_calibrated"])
    assert best["chosen"]
    calibration = read_json(run / "calibration.json")
    assert calibration["nll_after"] == pytest.approx(best["validation_nll_calibrated"], abs=1e-9)


ELSEWHERE = """
import json, sys
import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer, pipeline

assert not any(name.split(".")[0] == "calmix" for name in sys.modules)
directory, texts = sys.argv[1], json.loads(sys.stdin.read())
model = AutoModelForSequenceClassification.from_pretrained(directory)
tokenizer = AutoTokenizer.from_pretrained(directory)
with torch.no_grad():
    logits = model(**tokenizer(texts, padding=True, return_tensors="pt")).logits
scores = [
    {entry["label"]: entry["score"] for entry in row}
    for row in pipeline("text-classification", model=directory, top_k=None)(texts)
]
print(json.dumps({"probabilities": torch.softmax(logits, 1).tolist(), "pipeline": scores}))
"""


def test_the_saved_model_is_calibrated_with_nothing_but_transformers(run, reviews):
    import csv

    texts = [row["text"] for row in csv.DictReader((reviews / "test.csv").open())]
    done = subprocess.run(
        [sys.executable, "-c", ELSEWHERE, str(run / "model")],
        input=json.dumps(texts), capture_output=True, text=True, check=True, timeout=120,
    )  # fmt: skip
    answer = json.loads(done.stdout)
    stored = read_predictions(run / "predictions" / "test.parquet")
    temperature = read_json(run / "metrics.json")["temperature"]
    assert abs(temperature - 1) > 0.01, "a temperature of 1 would show nothing"
    expected = stored.with_temperature(temperature).probabilities()
    assert np.abs(np.array(answer["probabilities"]) - expected).max() < 1e-5
    assert np.array_equal(np.argmax(answer["probabilities"], axis=1), stored.predicted())
    for scores, row in zip(answer["pipeline"], expected, strict=True):
        assert [scores[name] for name in stored.class_names] == pytest.approx(row, abs=1e-5)


def test_a_saved_configuration_repeats_the_run(calmix, run, tmp_path):
    code, _, err = calmix("train", "--config", run / "config.yaml", "--output", tmp_path / "again")
    assert code == 0, err
    first, again = (pq.read_table(r / "predictions" / "other.parquet") for r in (run, tmp_path / "again"))
    assert first.equals(again)


def test_options_win_over_the_configuration_file(calmix, reviews, encoders, tmp_path):
    file = tmp_path / "options.yaml"
    file.write_text(
        yaml.safe_dump(
            {
                "train": str(reviews / "train.csv"), "model": str(encoders("bert")), "epochs": 3, "seed": 7,
                "output": str(tmp_path / "run"), "trainer": {"weight_decay": 0.25},
            }
        )
    )  # fmt: skip
    code, _, err = calmix("train", "--config", file, "--epochs", 1)
    assert code == 0, err
    saved = yaml.safe_load((tmp_path / "run" / "config.yaml").read_text())
    assert (saved["epochs"], saved["seed"], saved["trainer"]) == (1, 7, {"weight_decay": 0.25})


def test_without_a_validation_file_a_tenth_is_held_out_and_the_reader_is_told(
    calmix, reviews, encoders, tmp_path
):
    code, out, err = calmix(
        "train", "--train", reviews / "train.csv", "--model", encoders("bert"), "--output", tmp_path / "run",
        "--epochs", 1, "--json",
    )  # fmt: skip
    assert code == 0, err
    metrics = json.loads(out)
    assert metrics["sizes"]["train"] + metrics["sizes"]["validation"] == 96
    assert 9 <= metrics["sizes"]["validation"] <= 10
    assert any("below 200" in check["message"] for check in metrics["data_checks"])


def test_rows_that_stand_in_training_too_are_reported(calmix, reviews, encoders, tmp_path):
    code, out, err = calmix(
        "train", "--train", reviews / "train.csv", "--test", reviews / "train.csv", "--max-length", 8,
        "--model", encoders("bert"), "--output", tmp_path / "run", "--epochs", 1, "--json",
    )  # fmt: skip
    assert code == 0, err
    checks = [(check["split"], check["message"]) for check in json.loads(out)["data_checks"]]
    assert any(split == "test" and "training" in message for split, message in checks)
    assert any(split == "train" and "longer than 8 tokens" in message for split, message in checks)


def test_mixed_precision_leaves_a_model_that_is_right_in_full_precision(calmix, reviews, encoders, tmp_path):
    file = tmp_path / "options.yaml"
    file.write_text("trainer:\n  bf16: true\n  weight_decay: 1e-2\n")
    code, _, err = calmix(
        "train", "--train", reviews / "train.csv", "--validation", reviews / "validation.csv",
        "--test", reviews / "test.csv", "--model", encoders("bert"), "--output", tmp_path / "run",
        "--config", file, "--device", "cpu", "--learning-rate", "2e-3", "--epochs", 4,
        "--method", "cls-mixup",
    )  # fmt: skip
    assert code == 0, err
    code, _, err = calmix(
        "predict", tmp_path / "run", "--input", reviews / "test.csv", "--output", tmp_path / "answers.parquet"
    )
    assert code == 0, err
    stored = read_predictions(tmp_path / "run" / "predictions" / "test.parquet")
    temperature = read_json(tmp_path / "run" / "metrics.json")["temperature"]
    given = pq.read_table(tmp_path / "answers.parquet")["confidence"].to_numpy()
    assert np.abs(given - stored.with_temperature(temperature).confidence()).max() < 1e-5


def test_training_on_from_a_calibrated_checkpoint_starts_a_new_record(calmix, run, reviews, tmp_path):
    code, _, err = calmix(
        "train", "--train", reviews / "train.csv", "--validation", reviews / "validation.csv",
        "--model", run / "model", "--output", tmp_path / "run", "--epochs", 1,
    )  # fmt: skip
    assert code == 0, err
    saved = read_json(tmp_path / "run" / "model" / "config.json")
    assert (
        saved["calmix_calibration"]["temperature"]
        == read_json(tmp_path / "run" / "metrics.json")["temperature"]
    )


def test_a_finished_run_is_not_taken_for_one_with_other_options(calmix, run, reviews):
    code, _, err = calmix(
        "train", "--config", run / "config.yaml", "--output", run, "--resume", "--epochs", 9
    )
    assert code == 2
    assert "started with other options (epochs)" in err


def test_a_path_is_printed_as_it_is_however_long_and_whatever_it_holds(run, tmp_path, capsys, monkeypatch):
    from calmix.cli.options import print_result
    from calmix.io.run_directory import RunDirectory
    from calmix.workflows.run import Run

    monkeypatch.setenv("COLUMNS", "80")
    moved = tmp_path / ("[red] run " + "x" * 120)
    shutil.copytree(run, moved)
    run = Run(RunDirectory(moved))
    print_result(run)
    lines = capsys.readouterr().out.splitlines()
    assert f"model:  {moved / 'model'}" in lines
    assert f"report: {moved / 'report.html'}" in lines


def test_a_run_that_has_not_learned_says_so_and_what_to_change(calmix, encoders, reviews, tmp_path):
    def run(name, *settings):
        code, out, err = calmix(
            "train", "--train", reviews / "train.csv", "--validation", reviews / "validation.csv",
            "--test", reviews / "test.csv", "--model", encoders("bert"), "--output", tmp_path / name,
            "--batch-size", 16, *settings,
        )  # fmt: skip
        assert code == 0, err
        card = (tmp_path / name / "model" / "README.md").read_text()
        page = (tmp_path / name / "report.html").read_text()
        return out, card, page, read_json(tmp_path / name / "metrics.json")["learning"]

    out, card, page, verdict = run("gentle", "--epochs", 2, "--learning-rate", "1e-6")
    assert not verdict["learned"]
    assert {"accuracy_at_majority", "training_loss_flat"} <= set(verdict["reasons"])
    assert "--learning-rate 1e-4 --epochs" in verdict["advice"]
    for place in (out, card, page):
        assert "This model has not learned" in place
        assert "--learning-rate 1e-4" in place.replace("\\", "")
    out, card, page, verdict = run("trained", "--epochs", 12, "--learning-rate", "3e-3")
    assert verdict == {"learned": True, "reasons": [], "messages": [], "notes": [], "advice": ""}
    for place in (out, card, page):
        assert "not learned" not in place


def test_findings_are_said_before_training_and_their_rows_are_in_a_file(calmix, encoders, tmp_path):
    texts, labels = sentences(60, seed=3)
    texts[5], labels[5] = texts[4], "negative" if labels[4] == "positive" else "positive"  # a conflict
    labels[7] = " Positive"
    for name, rows in (("train", slice(0, 50)), ("test", slice(45, 60))):
        with (tmp_path / f"{name}.csv").open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["text", "label"])
            writer.writerows(zip(texts[rows], labels[rows], strict=True))
    code, _, err = calmix(
        "train", "--train", tmp_path / "train.csv", "--test", tmp_path / "test.csv",
        "--model", encoders("bert"), "--epochs", 1, "--learning-rate", 1e-3, "--output", tmp_path / "run",
    )  # fmt: skip
    assert code == 0, err
    lines = err.splitlines()
    training = next(number for number, line in enumerate(lines) if "epoch 1" in line)
    found = list(csv.DictReader((tmp_path / "run" / "data_checks.csv").open()))
    for number in (5, 6):
        assert any(row["row_id"] == f"train-{number}" for row in found), "the conflicting rows"
    assert any(row["row_id"].startswith("test-") for row in found), "test rows that are in training too"
    spelling = next(number for number, line in enumerate(lines) if "Positive" in line)
    assert spelling < training
    # None of them is news after training: all were said before.
    said = " ".join(lines[:training])
    for check in json.loads((tmp_path / "run" / "metrics.json").read_text())["data_checks"]:
        assert check["message"] in said


def test_a_configuration_that_lost_its_data_is_named(calmix, reviews, encoders, tmp_path):
    options = ("--validation", reviews / "validation.csv", "--model", encoders("bert"), "--epochs", 1)
    code, _, err = calmix("train", "--train", reviews / "train.csv", *options, "--output", tmp_path / "run")
    assert code == 0, err
    file = tmp_path / "run" / "config.yaml"
    file.write_text("".join(line for line in file.open() if not line.startswith("train:")))
    code, out, err = calmix("train", "--resume", "--output", tmp_path / "run")
    assert (code, out) == (2, "")
    assert "config.yaml: damaged: it has no 'train'" in err
