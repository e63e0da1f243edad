"""Runs whose rows have weights or soft labels: every command counts the rows as training did."""

import csv
import json

import numpy as np
import pytest

from calmix.calibration.calibrators.temperature import TemperatureScaling
from calmix.calibration.files.prediction_files import read_predictions
from tiny import sentences

pytestmark = pytest.mark.trains


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Texts with weights, with the labels of several annotators, and with a group."""
    folder = tmp_path_factory.mktemp("files")
    for seed, (name, rows, noise) in enumerate((("train", 300, 0.02), ("val", 120, 0.2), ("test", 100, 0.2))):
        texts, labels = sentences(rows, seed=seed, noise=noise)
        draw = np.random.default_rng(seed)
        other = {"positive": "negative", "negative": "positive"}
        annotations = [
            json.dumps([label] * 3 + [other[label]] * int(draw.integers(0, 3))) for label in labels
        ]
        with (folder / f"{name}.csv").open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["text", "label", "weight", "annotators", "shop"])
            weights = draw.uniform(0.05, 1, rows) ** (0.1 if name == "train" else 3)
            shops = [("a", "b", "")[place % 3] for place in range(rows)]
            writer.writerows(zip(texts, labels, weights, annotations, shops, strict=True))
    return folder


@pytest.fixture(scope="module", params=["weights", "annotators"])
def run(request, files, encoders, tmp_path_factory):
    from calmix.training.configuration import TrainConfig
    from calmix.training.pipeline.stages import train_staged

    column = {"weights": "weight_column", "annotators": "annotations_column"}[request.param]
    config = TrainConfig(
        train=str(files / "train.csv"),
        validation=str(files / "val.csv"),
        test=(str(files / "test.csv"),),
        model=str(encoders("bert")),
        output=str(tmp_path_factory.mktemp("run") / "run"),
        learning_rate=3e-3,
        epochs=2,
        slice="shop",
        **{column: {"weights": "weight", "annotators": "annotators"}[request.param]},
    )
    return train_staged(config).path


def test_fitting_again_on_the_same_rows_changes_nothing(calmix, run, tmp_path):
    """The run's temperature was fitted with the weights: so is this one, and it is 1."""
    code, out, err = calmix(
        "calibrate", run, "--fit-on", "validation", "--output", tmp_path / "again", "--json"
    )
    assert code == 0, err
    found = json.loads(out)
    assert found["temperature"] == pytest.approx(1.0, abs=1e-6) and found["already_calibrated"]
    stored = json.loads((run / "metrics.json").read_text())["splits"]["validation"]["calibrated"]
    assert found["nll_before"] == pytest.approx(stored["nll"], rel=1e-9)
    repeated = found["held_out"]["validation"]
    assert repeated["after"]["effective_n"] == repeated["before"]["effective_n"] == stored["effective_n"]


def test_the_rows_of_a_fit_are_not_called_held_out(calmix, run, files, tmp_path):
    lines = (files / "test.csv").read_text().splitlines(keepends=True)
    half = tmp_path / "half.csv"
    half.write_text("".join(lines[:51]))
    texts = [row["text"] for row in csv.DictReader((files / "test.csv").open())]
    left = sum(text not in set(texts[:50]) for text in texts)
    for verb, data in (("calibrate", "--fit-on"), ("adapt", "--labelled")):
        asked = (verb, run, data, files / "test.csv", "--output", tmp_path / f"{verb}-all", "--json")
        code, out, err = calmix(*asked)
        assert code == 0, err
        found = json.loads(out)
        assert set(found["held_out"]) == {"test.csv", "validation"}
        assert found["held_out"]["test.csv"]["measured"] == "cross-validated"
        assert any("100 of the 100 rows of 'test' are among the rows of the fit" in n for n in found["notes"])
        code, out, err = calmix(verb, run, data, half, "--output", tmp_path / f"{verb}-half", "--json")
        assert code == 0, err
        found = json.loads(out)
        assert found["held_out"]["test"]["after"]["n"] == left < 100
        assert found["held_out"]["test"]["after"]["ci_includes_fit"]
        assert any(f"{100 - left} of the 100 rows of 'test'" in note for note in found["notes"])


def test_labelled_rows_of_another_domain_need_no_weights(calmix, run, files, tmp_path):
    texts, labels = sentences(60, seed=9, noise=0.4)
    plain = tmp_path / "plain.csv"
    with plain.open("w", newline="") as file:
        csv.writer(file).writerows([("text", "label"), *zip(texts, labels, strict=True)])
    code, out, err = calmix("adapt", run, "--labelled", plain, "--output", tmp_path / "a")
    assert code == 0, err
    assert "intervals after calibration include the uncertainty of the fit" in " ".join(out.split())
    assert "effective_n" not in json.loads((tmp_path / "a" / "calibration.json").read_text())["held_out"][
        "plain.csv"
    ]["before"]  # fmt: skip


def test_perturbed_rows_and_dropout_count_the_rows_as_well(calmix, run, tmp_path):
    code, out, err = calmix("adapt", run, "--perturbed", "--output", tmp_path / "robust", "--json")
    assert code == 0, err
    found = json.loads(out)
    assert found["held_out"]["test"]["after"]["ci_includes_fit"]
    from calmix.inference.adaptation.perturbed import perturbed_predictions
    from calmix.inference.run_rows import rows_of_run
    from calmix.io.run_directory import RunDirectory

    rows = rows_of_run(RunDirectory.open(run), remedy="")["validation"]
    damaged = perturbed_predictions(run / "model", rows, seed=0, max_length=256, trust_remote_code=False)
    stored = read_predictions(run / "predictions" / "validation.parquet")
    for name in ("weights", "targets"):
        own, copied = getattr(stored, name), getattr(damaged, name)
        assert (own is None) == (copied is None)
        if own is not None:
            np.testing.assert_allclose(copied, np.concatenate([own] * 4))
    assert found["temperature"] == pytest.approx(TemperatureScaling().fit(damaged).temperature_, rel=1e-5)
    code, out, err = calmix("evaluate", run, "--mc-dropout", 2, "--no-intervals", "--json")
    assert code == 0, err
    effective = {(one.get("mc_dropout"), one["n"]): one["effective_n"] for one in json.loads(out)["files"]}
    assert len(effective) == 4
    assert effective[2, 100] == pytest.approx(effective[None, 100])


def test_slices_of_a_run_include_the_fit_of_its_calibrator(calmix, run, files):
    splits = json.loads((run / "metrics.json").read_text())["splits"]
    for name, is_included in (("validation", False), ("test", True)):
        parts = splits[name]["calibrated"]["slices"]["slices"]
        assert len(parts) == 3
        assert all(("ci_includes_fit" in part) == is_included for part in parts)
    weight = ("--weight-column", "weight") if splits["test"]["calibrated"]["is_weighted"] else ()
    asked = ("evaluate", "--model", run, "--data", files / "test.csv", "--slice", "shop", *weight, "--json")
    code, out, err = calmix(*asked)
    assert code == 0, err
    found = json.loads(out)
    assert found["files"][0]["ci_includes_fit"]
    assert all(part["ci_includes_fit"] for part in found["slices"][0]["slices"])
    if weight:
        again = {part["value"]: part for part in found["slices"][0]["slices"]}
        for part in splits["test"]["calibrated"]["slices"]["slices"]:
            assert part["confidence_gap"] == pytest.approx(again[part["value"]]["confidence_gap"], abs=1e-5)
            assert part["nll_ci"] == pytest.approx(again[part["value"]]["nll_ci"], abs=1e-4)


def test_guarantees_say_that_every_row_counts_once(calmix, run, files, tmp_path):
    asked = ("predict", run, "--input", files / "test.csv", "--target-accuracy", 0.55, "--coverage", 0.8)
    code, out, err = calmix(*asked, "--output", tmp_path / "p.csv", "--json")
    assert code == 0, err
    found = json.loads(out)
    assert "weights and soft labels have no part in it" in found["limit"]
    assert "weights and soft labels have no part in it" in found["set_limit"]
