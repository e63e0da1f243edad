"""`calmix evaluate`: files of others, several at once, a run, a checkpoint with data."""

import csv
import json
import math
import random
import shutil

import pytest

from calmix.calibration.evaluation import evaluate
from calmix.calibration.files.prediction_files import read_predictions
from calmix.report.tables import WITHIN_NOISE

KEYS = {
    "file", "n", "accuracy", "nll", "brier", "ece", "ece_ci", "ece_noise_floor", "adaptive_ece",
    "classwise_ece", "oe", "mce", "aurc", "augrc",
}  # fmt: skip


def write_file(path, sharpness=1.0, rows=300, seed=0):
    """Binary logits, calibrated at sharpness 1."""
    drawn = random.Random(seed)
    with path.open("w") as file:
        file.write("label,logit_0,logit_1\n")
        for _ in range(rows):
            logit = drawn.gauss(0, 2)
            label = int(drawn.random() < 1 / (1 + math.exp(-logit)))
            file.write(f"{label},0,{logit * sharpness}\n")
    return path


def test_json_is_one_object_with_the_keys_of_a_split(calmix, tmp_path):
    file = write_file(tmp_path / "a.csv")
    code, out, err = calmix("evaluate", file, "--json")
    assert (code, err) == (0, "")
    result = json.loads(out)
    assert result.keys() == {"files", "differences"}
    (found,) = result["files"]
    assert found.keys() >= KEYS
    assert found["file"] == str(file)
    assert result["differences"] == []
    expected = evaluate(read_predictions(file))
    for name in ("nll", "ece", "ece_ci", "ece_noise_floor", "aurc"):
        assert found[name] == pytest.approx(expected[name], abs=1e-12), name


def test_options_reach_the_result(calmix, tmp_path):
    file = write_file(tmp_path / "a.csv")
    code, out, err = calmix(
        "evaluate", file, "--bins", 10, "--closed", "left", "--notion", "positive", "--seed", 3, "--json"
    )
    assert code == 0, err
    (found,) = json.loads(out)["files"]
    assert (found["bins"], found["closed"], found["notion"]) == (10, "left", "positive")
    expected = evaluate(read_predictions(file), bins=10, closed="left", notion="positive", seed=3)
    assert found["ece"] == pytest.approx(expected["ece"], abs=1e-12)
    assert found["ece_ci"] == pytest.approx(expected["ece_ci"], abs=1e-12)
    code, out, err = calmix("evaluate", file, "--no-intervals", "--json")
    assert code == 0, err
    assert "ece_ci" not in json.loads(out)["files"][0]


def test_a_configuration_file_gives_options_and_files_and_flags_win(calmix, tmp_path):
    file = write_file(tmp_path / "a.csv")
    config = tmp_path / "evaluate.yaml"
    config.write_text(f"files: ['{file}']\nbins: 10\nnotion: positive\nintervals: false\n")
    code, out, err = calmix("evaluate", "--config", config, "--notion", "classwise", "--json")
    assert code == 0, err
    (found,) = json.loads(out)["files"]
    assert (found["bins"], found["notion"]) == (10, "classwise")


def test_several_files_stand_side_by_side_with_their_differences(calmix, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    write_file(tmp_path / "calibrated.csv")
    write_file(tmp_path / "sharp.csv", sharpness=4.0)
    code, out, err = calmix("evaluate", "calibrated.csv", "sharp.csv", "--json")
    assert code == 0, err
    result = json.loads(out)
    first, second = result["files"]
    ece = next(one for one in result["differences"] if one["metric"] == "ece")
    assert (ece["first"], ece["second"]) == ("calibrated.csv", "sharp.csv")
    assert ece["difference"] == pytest.approx(first["ece"] - second["ece"])
    assert ece["ci"][1] < 0

    code, out, err = calmix("evaluate", "calibrated.csv", "sharp.csv")
    assert (code, err) == (0, "")
    lines = {line.split()[0]: line for line in out.splitlines() if line.strip() and "−" not in line}
    assert f"{100 * second['ece']:.2f} [" in lines["sharp.csv"]
    assert f"{second['nll']:.4f}" in lines["sharp.csv"]
    assert WITHIN_NOISE in lines["calibrated.csv"]
    assert WITHIN_NOISE not in lines["sharp.csv"]
    shown = next(line for line in out.splitlines() if "calibrated.csv − sharp.csv" in line)
    assert "Accuracy" in shown
    assert f"{100 * ece['difference']:.2f}" in out


@pytest.mark.parametrize("name", ["a.csv", "answers_of_isotonic.csv"])
def test_a_narrow_terminal_breaks_no_numbers(calmix, tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    write_file(tmp_path / name)
    code, out, err = calmix("evaluate", name)
    assert (code, err) == (0, "")
    assert max(len(line) for line in out.splitlines()) <= 80
    assert "…" not in out
    found = evaluate(read_predictions(tmp_path / name))
    low, high = (100 * limit for limit in found["ece_ci"])
    interval = f"{100 * found['ece']:.2f} [{low:.2f}, {high:.2f}]"
    for text in (f"{found['aurc']:.4f}", f"{100 * found['mce']:.2f}", f"{found['brier']:.4f}", interval):
        assert text in out


def test_files_of_other_rows_are_shown_without_a_difference_and_with_the_reason(calmix, tmp_path):
    first = write_file(tmp_path / "a.csv", rows=60)
    second = write_file(tmp_path / "b.csv", rows=70)
    code, out, err = calmix("evaluate", first, second, "--no-intervals")
    assert (code, err) == (0, "")
    assert "not compared: 60 and 70 rows" in " ".join(out.split())


@pytest.mark.trains
def test_a_run_gives_its_own_metrics_again(calmix, run):
    code, out, err = calmix("evaluate", run, "--no-intervals", "--json")
    assert code == 0, err
    found = {one["file"]: one for one in json.loads(out)["files"]}
    splits = json.loads((run / "metrics.json").read_text())["splits"]
    for split, stages in splits.items():
        for name, stage in (
            (f"{run}:{split}", "calibrated"),
            (f"{run}:{split} (uncalibrated)", "uncalibrated"),
        ):
            assert found[name]["stage"] == stage
            for metric in ("n", "accuracy", "nll", "ece", "aurc"):
                assert found[name][metric] == pytest.approx(stages[stage][metric], abs=1e-9), (name, metric)
    assert len(found) == 2 * len(splits)


@pytest.mark.trains
def test_a_checkpoint_on_a_labelled_file_says_what_the_run_stored(calmix, run, reviews):
    code, out, err = calmix(
        "evaluate", "--model", run / "model", "--data", reviews / "test.csv", "--max-length", 64,
        "--no-intervals", "--json",
    )  # fmt: skip
    assert code == 0, err
    (found,) = json.loads(out)["files"]
    stored = json.loads((run / "metrics.json").read_text())["splits"]["test"]["calibrated"]
    assert found["file"] == f"{run / 'model'}:{reviews / 'test.csv'}"
    assert found["n"] == stored["n"]
    assert found["nll"] == pytest.approx(stored["nll"], abs=1e-5)


@pytest.mark.trains
def test_a_checkpoint_is_compared_with_a_run_on_the_same_rows(calmix, run, reviews, tmp_path):
    shutil.copy(reviews / "test.csv", tmp_path / "test.csv")
    code, out, err = calmix(
        "evaluate", run, "--model", run, "--data", tmp_path / "test.csv", "--no-intervals", "--json"
    )
    assert code == 0, err
    found = [
        one for one in json.loads(out)["differences"] if one["second"].endswith("test.csv") and one["metric"]
    ]
    assert {one["first"] for one in found} == {f"{run}:test"}
    assert {one["matched_by"] for one in found} == {"row_id"}
    nll = next(one for one in found if one["metric"] == "nll")
    assert nll["difference"] == pytest.approx(0.0, abs=1e-5)


@pytest.mark.trains
def test_columns_of_other_names(calmix, run, reviews, tmp_path):
    rows = list(csv.DictReader((reviews / "test.csv").open()))
    (tmp_path / "other.jsonl").write_text(
        "\n".join(json.dumps({"review": row["text"], "verdict": row["label"]}) for row in rows)
    )
    code, out, err = calmix(
        "evaluate", "--model", run / "model", "--data", tmp_path / "other.jsonl", "--text-column", "review",
        "--label-column", "verdict", "--no-intervals", "--json",
    )  # fmt: skip
    assert code == 0, err
    stored = json.loads((run / "metrics.json").read_text())["splits"]["test"]["calibrated"]
    assert json.loads(out)["files"][0]["accuracy"] == stored["accuracy"]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("label,logit_0,logit_1\n0,1,2\n1,0,nan\n", "a.csv, row 2, column 'logit_"),
        ("label,prob_0,prob_1\n0,0.5,0.5\n1,0.7,0.7\n", "a.csv, row 2, column 'prob_0..prob_1'"),
        (
            "label,prob_0,prob_1\n0,0.5,0.5\n2,0.7,0.3\n",
            "a.csv, row 2, column 'label': label 2 is outside 0..1",
        ),
        ("label,score\n0,0.5\n", "a.csv: no scores: expected logits, logit_0.., probs or prob_0.."),
        ("prob_0,prob_1\n0.5,0.5\n", "a.csv: no column 'label'"),
        ("", "a.csv: the file is empty"),
        ("label,prob_0,prob_1\n", "a.csv: the file has no data rows"),
    ],
)
def test_a_bad_file_is_one_line_that_names_the_place(calmix, tmp_path, monkeypatch, content, said):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.csv").write_text(content)
    code, out, err = calmix("evaluate", "a.csv", "--json")
    assert (code, out) == (2, "")
    assert said in err
    assert len(err.strip().splitlines()) == 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "nothing to evaluate"),
        (["nowhere.csv"], "no such file"),
        (["a.xlsx"], "a.xlsx: no such file"),
        (["a.csv", "--notion", "top"], "notion must be one of top_label, classwise, positive"),
        (["a.csv", "--closed", "both"], "closed must be 'right' or 'left'"),
        (["a.csv", "--bins", "0"], "bins must be a whole number above 0"),
        (["a.csv", "--bins", "many"], "--bins"),
        (["a.csv", "--bins", "10,"], "--bins"),
        (["a.csv", "--seed", "-1"], "--seed is -1"),
        (["a.csv", "--batch-size", "0"], "--batch-size is 0"),
        (["--model", "m"], "give --data too"),
        (["--data", "a.csv"], "give --model too"),
        (["--model", "m", "--data", "a.csv"], "no model of this name"),
        (["."], "not a run directory"),
    ],
)
def test_bad_input_is_one_line(calmix, tmp_path, monkeypatch, arguments, said):
    monkeypatch.chdir(tmp_path)
    write_file(tmp_path / "a.csv", rows=20)
    code, out, err = calmix("evaluate", *arguments)
    assert (code, out) == (2, "")
    assert said in err
    assert len(err.strip().splitlines()) == 1


@pytest.mark.parametrize("verb", ["evaluate", "train"])
def test_an_unclosed_quote_is_refused_alike_by_all_verbs(calmix, tmp_path, monkeypatch, verb):
    """In the last column it used to swallow the rows after it: n = 2 of 4, exit code 0."""
    monkeypatch.chdir(tmp_path)
    rows = ['0,0.9,0.1,good,a\n1,0.2,0.8,bad,"b\n0,0.7,0.3,fine,c\n1,0.4,0.6,poor,d\n']
    (tmp_path / "a.csv").write_text("".join(["label,prob_0,prob_1,text,note\n", *rows]))
    arguments = (
        ["a.csv"] if verb == "evaluate" else ["--train", "a.csv", "--model", "text-cnn", "--output", "run"]
    )
    code, out, err = calmix(verb, *arguments)
    assert (code, out) == (2, "")
    assert err == (
        "calmix: a.csv, row 2: a double quote is never closed; "
        "inside a quoted field write a double quote twice\n"
    )


def test_semicolons_are_read_with_a_note(calmix, tmp_path, monkeypatch, caplog):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "semicolons.csv").write_text("label;prob_0;prob_1\n0;0.9;0.1\n1;0.2;0.8\n")
    code, out, _ = calmix("evaluate", "semicolons.csv", "--json")
    assert (code, json.loads(out)["files"][0]["n"]) == (0, 2)
    assert "note: semicolons.csv: read as separated by semicolons" in caplog.text
