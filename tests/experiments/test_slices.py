"""`--slice` in train and compare: the metrics of each value of a column, under every split."""

import csv
import json
import statistics

import numpy as np
import pytest

from calmix.calibration.calibrators.temperature import TemperatureScaling
from calmix.calibration.evaluation import evaluate
from calmix.calibration.files.run_predictions import predictions_of_run
from calmix.calibration.fit_uncertainty import FitUncertainty
from calmix.calibration.slices import evaluate_slices
from calmix.experiments.slices import combined_p, slice_sentences
from calmix.io.run_directory import RunDirectory
from tiny import read_json, sentences


def write(path, rows, seed, column="source"):
    """Three sources, and rows without one."""
    texts, labels = sentences(rows, seed=seed)
    sources = np.array(["web", "shop", "forum", ""])[np.arange(rows) % 4]
    with path.open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(["text", "label", column])
        writer.writerows(zip(texts, labels, sources, strict=True))
    return path


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sliced")
    return {
        name: write(folder / f"{name}.csv", 200, seed) for seed, name in enumerate(("train", "dev", "test"))
    }


def arguments(files, encoders, output):
    shared = ["--train", files["train"], "--validation", files["dev"], "--test", files["test"]]
    shared += ["--model", encoders("bert", layers=1), "--epochs", "1", "--learning-rate", "5e-3"]
    return [*shared, "--slice", "source", "--output", output]


@pytest.mark.trains
def test_a_run_measures_every_slice_of_every_split(calmix, files, encoders, tmp_path):
    code, out, err = calmix("train", *arguments(files, encoders, tmp_path / "run"))
    assert code == 0, err
    metrics = read_json(tmp_path / "run" / "metrics.json")
    found = metrics["splits"]["test"]["calibrated"]["slices"]
    assert {one["value"] for one in found["slices"]} == {"web", "shop", "forum", "(missing)"}
    assert "slices" in metrics["splits"]["validation"]["calibrated"]
    held = predictions_of_run(RunDirectory(tmp_path / "run"), "test", calibrated=True)
    groups = np.array(["web", "shop", "forum", ""])[np.arange(200) % 4]
    again = evaluate_slices(held, groups, column="source")
    assert found["sentences"] == again.explain() and "Holm" in found["sentences"][0]
    chosen = np.arange(200) % 4 == 2
    expected = evaluate(held.select(np.flatnonzero(chosen)))
    (forum,) = [one for one in found["slices"] if one["value"] == "forum"]
    assert forum["nll"] == pytest.approx(expected["nll"], rel=1e-6)
    raw = {name: predictions_of_run(RunDirectory(tmp_path / "run"), name) for name in ("validation", "test")}
    fit = FitUncertainty.of(TemperatureScaling().fit(raw["validation"]), raw["validation"])
    widened = fit.widened(expected, raw["test"].select(np.flatnonzero(chosen)))
    assert forum["ece_ci"] == pytest.approx(widened["ece_ci"], rel=1e-6)
    assert widened["ece_ci"] != expected["ece_ci"]
    for sentence in found["sentences"]:
        assert f"test: {sentence}" in " ".join(out.split())
    page = (tmp_path / "run" / "report.html").read_text()
    assert "test, calibrated, by source" in page


@pytest.mark.trains
def test_a_comparison_names_the_worst_slice_of_every_arm(calmix, files, encoders, tmp_path):
    output = tmp_path / "cmp"
    code, out, err = calmix(
        "compare", *arguments(files, encoders, output),
        "--methods", "plain,cls-mixup", "--seeds", "0,1", "--executor", "inline", "--json",
    )  # fmt: skip
    assert code == 0, err
    data = json.loads(out)
    (forum,) = [
        one
        for one in data["slices"]
        if (one["arm"], one["split"], one["value"]) == ("plain", "test", "forum")
    ]
    accuracies, p_values = [], []
    for run in (output / "runs").iterdir():
        metrics = read_json(run / "metrics.json") if (run / "metrics.json").is_file() else None
        if metrics and metrics["method"] == "plain":
            parts = metrics["splits"]["test"]["calibrated"]["slices"]["slices"]
            (own,) = [part for part in parts if part["value"] == "forum"]
            accuracies.append(own["accuracy"])
            p_values.append(own["accuracy_p_holm"])
    assert forum["accuracy_mean"] == pytest.approx(statistics.fmean(accuracies))
    assert forum["accuracy_p"] == pytest.approx(min(1, 2 * 2 * statistics.median(p_values)))
    text = (output / "summary.md").read_text()
    assert "## Slices" in text
    assert "test, temperature-scaled, by source" in text
    assert "test, temperature-scaled, by source" in (output / "report.html").read_text()
    assert data["slice_sentences"] == slice_sentences(data["slices"])
    code, out, err = calmix("compare", "--from", output)
    assert code == 0, err
    for sentence in data["slice_sentences"]:
        assert f"slices: {sentence}" in " ".join(out.split())


@pytest.mark.trains
def test_runs_measured_by_another_column_are_not_taken_for_those_of_this_one(
    calmix, files, encoders, tmp_path
):
    """The runs are those that are there already: what they are measured by is no part of their name."""

    def compare(*more):
        given = ["compare", *arguments(files, encoders, tmp_path / "cmp"), "--methods", "plain"]
        code, out, err = calmix(*given, "--executor", "inline", "--json", *more)
        assert code == 0, err
        return json.loads(out)

    assert compare("--seeds", "0")["slices"]
    other = compare("--seeds", "0", "--slice", "label")
    assert other["slices"] == []
    assert other["slice_sentences"] == [
        "1 of 1 runs were measured without the column 'label' and are not among the slices; a comparison in "
        "a new directory measures them"
    ]
    both = compare("--seeds", "0,1", "--slice", "label")
    assert {(one["column"], one["seeds"]) for one in both["slices"]} == {("label", 1)}
    assert both["slice_sentences"][-1].startswith("1 of 2 runs were measured without the column 'label'")


def test_a_test_file_without_the_column_is_refused_before_training(calmix, files, encoders, tmp_path):
    other = write(tmp_path / "other.csv", 20, 9, column="place")
    given = arguments(files, encoders, tmp_path / "run")
    code, _, err = calmix("train", *given, "--test", f"other={other}")
    assert code == 2
    assert "no column 'source'" in err and "--slice" in err
    assert not (tmp_path / "run").exists()


def test_too_many_values_are_refused_before_training(calmix, files, encoders, tmp_path):
    given = arguments(files, encoders, tmp_path / "run")
    code, _, err = calmix("train", *given, "--slice", "text")
    assert code == 2
    assert "values of 'text'" in err and "more than 100" in err
    assert not (tmp_path / "run").exists()


def test_p_values_of_seeds_are_combined_to_twice_their_median():
    assert combined_p([0.01, 0.5]) == pytest.approx(0.51)
    assert combined_p([0.01]) == 0.01


def test_nothing_that_stands_out_is_said_as_such():
    record = {
        "split": "test", "arm": "plain", "value": "a", "n": 10, "accuracy_mean": 0.5,
        "confidence_gap_mean": 0.1, "accuracy_p": 1.0, "calibration_p": 0.6,
    }  # fmt: skip
    assert slice_sentences([record]) == ["no slice differs significantly in accuracy or calibration"]


def test_the_worst_slice_is_named_with_its_p_value():
    shared = {"split": "test", "arm": "plain", "n": 50, "calibration_p": 0.5, "confidence_gap_mean": 0.1}
    records = [
        {**shared, "value": "web", "accuracy_mean": 0.9, "accuracy_p": 0.001},
        {**shared, "value": "shop", "accuracy_mean": 0.7, "accuracy_p": 0.2},
        {**shared, "value": "forum", "accuracy_mean": 0.75, "accuracy_p": 0.01, "calibration_p": 0.02},
    ]
    first, second = slice_sentences(records)
    assert first == "plain on test: 'forum' is predicted worst, accuracy 75.0% against 78.3% (p = 0.01)"
    assert second == "plain on test: 'forum' is calibrated worst, overconfident by 10.0% (p = 0.02)"
