"""Files written by others, several at once, and runs."""

import csv
import gzip
import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from calmix.calibration.evaluation import evaluate
from calmix.calibration.files import file_evaluation
from calmix.calibration.files.prediction_files import write_predictions
from calmix.calibration.predictions import Predictions
from calmix.calibration.uncertainty.paired_accuracy import accuracy_difference_limits
from calmix.user_error import UserError
from evaluated_files import evaluate_files

ROWS, CLASSES = 400, 3


@pytest.fixture(scope="module")
def scores():
    generator = np.random.default_rng(0)
    logits = generator.normal(scale=2, size=(ROWS, CLASSES)).round(6)
    probabilities = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    labels = np.array([generator.choice(CLASSES, p=row) for row in probabilities])
    return {"logits": logits, "probs": probabilities}, labels


def slow_metrics(probabilities, labels, bins=15):
    """From the formulas, row by row."""
    log_loss, held = 0.0, {}
    for row, label in zip(probabilities, labels, strict=True):
        log_loss -= np.log(row[label])
        confidence = max(row)
        place = next(m for m in range(bins) if confidence <= (m + 1) / bins)
        held.setdefault(place, []).append((confidence, float(list(row).index(confidence) == label)))
    gaps = {m: abs(sum(c - y for c, y in rows)) for m, rows in held.items()}
    return {
        "nll": log_loss / len(labels),
        "ece": sum(gaps.values()) / len(labels),
        "mce": max(gap / len(held[m]) for m, gap in gaps.items()),
        "accuracy": sum(y for rows in held.values() for _, y in rows) / len(labels),
    }


def records(values, labels, name, spread):
    singular = {"logits": "logit", "probs": "prob"}[name]
    for label, row in zip(labels.tolist(), values.tolist(), strict=True):
        if spread:
            yield {"label": label} | {f"{singular}_{k}": value for k, value in enumerate(row)}
        else:
            yield {"label": label, name: row}


def write(file, values, labels, name):
    kind = file.name.removeprefix("p.")
    if kind.startswith(("csv", "tsv")):
        rows = list(records(values, labels, name, spread=True))
        opened = gzip.open if kind.endswith("gz") else open
        with opened(file, "wt", newline="") as stream:
            writer = csv.DictWriter(stream, rows[0], delimiter="\t" if kind.startswith("tsv") else ",")
            writer.writeheader()
            writer.writerows(rows)
    elif kind.startswith("jsonl"):
        text = "\n".join(json.dumps(record) for record in records(values, labels, name, spread=False))
        file.write_bytes(gzip.compress(text.encode()) if kind.endswith("gz") else text.encode())
    elif kind.startswith("json"):
        text = json.dumps(list(records(values, labels, name, spread=True)))
        file.write_bytes(gzip.compress(text.encode()) if kind.endswith("gz") else text.encode())
    elif kind == "npz":
        np.savez(file, **{"label": labels, name: values})
    else:
        columns = {"label": labels, name: values.tolist()}
        pq.write_table(pa.table(columns), file)


@pytest.mark.parametrize("name", ["logits", "probs"])
@pytest.mark.parametrize(
    "extension", ["csv", "csv.gz", "tsv", "jsonl", "jsonl.gz", "json", "json.gz", "npz", "parquet"]
)
def test_files_of_every_format_give_the_metrics_of_the_formulas(scores, tmp_path, extension, name):
    values, labels = scores
    file = tmp_path / f"p.{extension}"
    write(file, values[name], labels, name)
    result = evaluate_files([file], intervals=False)
    assert result["differences"] == []
    (found,) = result["files"]
    assert found["file"] == str(file)
    assert found["n"] == ROWS
    for metric, value in slow_metrics(values["probs"], labels).items():
        assert found[metric] == pytest.approx(value, abs=1e-9), metric


def test_the_options_reach_the_metrics(scores, tmp_path):
    values, labels = scores
    write(tmp_path / "p.npz", values["probs"], labels, "probs")
    (found,) = evaluate_files(
        [tmp_path / "p.npz"], bins=7, closed="left", notion="classwise", intervals=False
    )["files"]
    predictions = Predictions.from_probabilities(values["probs"], labels)
    expected = evaluate(predictions, bins=7, closed="left", notion="classwise", intervals=False)
    assert found == {"file": str(tmp_path / "p.npz")} | expected
    assert "ece_ci" not in found


def test_two_models_on_the_same_rows_are_compared_metric_by_metric(scores, tmp_path):
    values, labels = scores
    for name, sharpness in {"plain": 1.0, "sharp": 2.5}.items():
        write_rows(tmp_path / f"{name}.csv", values["logits"] * sharpness, labels)
    result = evaluate_files([tmp_path / "plain.csv", tmp_path / "sharp.csv"])
    first, second = result["files"]
    found = {one["metric"]: one for one in result["differences"]}
    assert found.keys() >= {
        "accuracy",
        "nll",
        "brier",
        "ece",
        "adaptive_ece",
        "classwise_ece",
        "oe",
        "mce",
        "aurc",
    }
    for metric, one in found.items():
        assert one["first"] == first["file"]
        assert one["second"] == second["file"]
        assert one["matched_by"] == "position"
        assert one["difference"] == pytest.approx(first[metric] - second[metric], abs=1e-12)
        assert one["ci"][0] <= one["ci"][1]
    # Sharper logits do not change the answers, and do change how sure they are.
    assert found["accuracy"]["difference"] == 0.0
    assert found["accuracy"]["ci"] == pytest.approx(accuracy_difference_limits(0, 0, len(labels)))
    assert found["ece"]["ci"][1] < 0
    assert found["nll"]["ci"][1] < 0


def write_rows(file, logits, labels, ids=None):
    with file.open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow([*([] if ids is None else ["row_id"]), "label", "logit_0", "logit_1", "logit_2"])
        for place, (label, row) in enumerate(zip(labels, logits, strict=True)):
            writer.writerow([*([] if ids is None else [ids[place]]), label, *row])


def test_the_interval_of_a_paired_difference_holds_the_truth_and_is_narrower_than_an_unpaired_one(tmp_path):
    generator = np.random.default_rng(1)
    logits = generator.normal(scale=2, size=(2000, 3))
    probabilities = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    labels = (generator.random((2000, 1)) > np.cumsum(probabilities, axis=1)[:, :2]).sum(axis=1)
    write_rows(tmp_path / "a.csv", logits, labels)
    write_rows(tmp_path / "b.csv", logits + generator.normal(scale=0.3, size=logits.shape), labels)
    result = evaluate_files([tmp_path / "a.csv", tmp_path / "b.csv"])
    nll = next(one for one in result["differences"] if one["metric"] == "nll")
    low, high = nll["ci"]
    assert low <= nll["difference"] <= high
    widths = [one["nll_ci"][1] - one["nll_ci"][0] for one in result["files"]]
    assert high - low < min(widths) / 2


def test_rows_in_another_order_are_matched_by_id(scores, tmp_path):
    values, labels = scores
    generator = np.random.default_rng(2)
    other = values["logits"] + generator.normal(size=(ROWS, CLASSES))
    ids = np.array([f"row {i}" for i in range(ROWS)])
    shuffled = generator.permutation(ROWS)
    write_rows(tmp_path / "a.csv", values["logits"], labels, ids)
    write_rows(tmp_path / "b.csv", other, labels, ids)
    write_rows(tmp_path / "c.csv", other[shuffled], labels[shuffled], ids[shuffled])
    in_order = evaluate_files([tmp_path / "a.csv", tmp_path / "b.csv"])["differences"]
    matched = evaluate_files([tmp_path / "a.csv", tmp_path / "c.csv"])["differences"]
    assert len(in_order) == len(matched) > 10
    for one, same in zip(in_order, matched, strict=True):
        assert same["matched_by"] == "row_id"
        assert same["difference"] == pytest.approx(one["difference"], abs=1e-12)
        assert same["ci"] == pytest.approx(one["ci"], abs=1e-9)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda x, y, ids: (x[:-1], y[:-1], ids[:-1]), "400 and 399 rows"),
        (lambda x, y, ids: (x, (y + 1) % 3, None), "the labels differ"),
        (lambda x, y, ids: (x, (y + 1) % 3, ids), "the labels differ"),
        (lambda x, y, ids: (x, y, [f"other {i}" for i in ids]), "not in the second"),
        (lambda x, y, ids: (x, y, [*ids[:-1], ids[0]]), "more than once"),
    ],
)
def test_where_rows_do_not_match_the_reason_stands_in_place_of_the_difference(
    scores, tmp_path, change, reason
):
    values, labels = scores
    ids = [str(i) for i in range(ROWS)]
    write_rows(tmp_path / "a.csv", values["logits"], labels, ids)
    write_rows(tmp_path / "b.csv", *change(values["logits"], labels, ids))
    result = evaluate_files([tmp_path / "a.csv", tmp_path / "b.csv"], intervals=False)
    assert len(result["files"]) == 2
    (none,) = result["differences"]
    assert (none["metric"], none["difference"], none["ci"]) == (None, None, None)
    assert reason in none["reason"]


def test_files_too_large_to_be_put_in_order_say_so(scores, tmp_path, monkeypatch):
    values, labels = scores
    monkeypatch.setattr(file_evaluation, "MOST_REORDERED", 100)
    for name, order in {"a": np.arange(ROWS), "b": np.arange(ROWS)[::-1]}.items():
        write_rows(tmp_path / f"{name}.csv", values["logits"][order], labels[order], order)
    (none,) = evaluate_files([tmp_path / "a.csv", tmp_path / "b.csv"], intervals=False)["differences"]
    assert "more than 100 rows" in none["reason"]


def test_classes_of_other_names_are_not_compared(tmp_path):
    for name, columns in {"a": ("cat", "dog"), "b": ("cat", "cow")}.items():
        rows = [f"{columns[0]},0.9,0.1", f"{columns[1]},0.2,0.8"]
        (tmp_path / f"{name}.csv").write_text(
            "\n".join([f"label,prob_{columns[0]},prob_{columns[1]}", *rows])
        )
    (none,) = evaluate_files([tmp_path / "a.csv", tmp_path / "b.csv"], intervals=False)["differences"]
    assert none["reason"] == "the classes differ: cat, dog and cat, cow"


def test_three_files_make_three_pairs(scores, tmp_path):
    values, labels = scores
    for name in "abc":
        write_rows(tmp_path / f"{name}.csv", values["logits"] * (1 + ord(name) % 5), labels)
    found = evaluate_files([tmp_path / f"{name}.csv" for name in "abc"], intervals=False)["differences"]
    pairs = {(one["first"][-5], one["second"][-5]) for one in found}
    assert pairs == {("a", "b"), ("a", "c"), ("b", "c")}
    assert all(one["ci"] is None for one in found)


@pytest.fixture
def run(scores, tmp_path):
    """What a finished run leaves, with a temperature of 2."""
    values, labels = scores
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "config.yaml").write_text(yaml.safe_dump({"method": "plain"}))
    stage = {"uncalibrated": {}, "calibrated": {}}
    splits = {"validation": {**stage, "calibrated": {"in_sample": True}}, "test": stage}
    (folder / "metrics.json").write_text(json.dumps({"temperature": 2.0, "splits": splits}))
    for split, part in {"validation": slice(0, 150), "test": slice(150, ROWS)}.items():
        ids = [f"{split}-{i + 1}" for i in range(len(labels[part]))]
        write_predictions(
            folder / "predictions" / f"{split}.parquet",
            Predictions.from_logits(values["logits"][part], labels[part], ids=ids),
        )
    return folder


def test_a_run_shows_every_split_before_and_after_its_temperature(run, scores):
    values, labels = scores
    result = evaluate_files([run], intervals=False)
    named = {one["file"]: one for one in result["files"]}
    assert list(named) == [
        f"{run}:validation", f"{run}:validation (uncalibrated)", f"{run}:test", f"{run}:test (uncalibrated)",
    ]  # fmt: skip
    stored = Predictions.from_logits(values["logits"][150:], labels[150:])
    calibrated, uncalibrated = named[f"{run}:test"], named[f"{run}:test (uncalibrated)"]
    assert (calibrated["stage"], uncalibrated["stage"]) == ("calibrated", "uncalibrated")
    assert uncalibrated["nll"] == pytest.approx(evaluate(stored)["nll"], abs=1e-12)
    assert calibrated["nll"] == pytest.approx(evaluate(stored.with_temperature(2.0))["nll"], abs=1e-12)
    assert named[f"{run}:validation"]["in_sample"] is True
    assert "in_sample" not in calibrated
    pairs = {(one["first"], one["second"]) for one in result["differences"]}
    assert pairs == {(f"{run}:{s}", f"{run}:{s} (uncalibrated)") for s in ("validation", "test")}


def test_a_file_is_compared_with_what_the_saved_model_of_a_run_says(run, scores, tmp_path):
    values, labels = scores
    ids = [f"test-{i + 1}" for i in range(ROWS - 150)]
    write_rows(tmp_path / "mine.csv", values["logits"][150:] * 3, labels[150:], ids)
    found = evaluate_files([tmp_path / "mine.csv", run], intervals=False)["differences"]
    mine = [one for one in found if one["first"] == str(tmp_path / "mine.csv")]
    assert {one["second"] for one in mine if one["metric"]} == {f"{run}:test"}
    assert [one["second"] for one in mine if one["metric"] is None] == [f"{run}:validation"]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("label,logit_0,logit_1\n0,1,2\n1,0,x\n", "row 2, column 'logit_1'"),
        ("label,logit_0,logit_1\n0,1,2\n1,0,inf\n", "row 2, column 'logit_1': logits must"),
        ("label,prob_0,prob_1\n0,0.5,0.5\n1,0.7,0.7\n", "row 2, column 'prob_0..prob_1': probabilities must"),
        ("label,prob_0,prob_1\n0,-0.5,1.5\n", "row 1, column 'prob_0': probabilities must not"),
        ("label,prob_0,prob_1\n0,0.5,0.5\n2,0.7,0.3\n", "row 2, column 'label': label 2 is outside 0..1"),
        ("label,score\n0,0.5\n", "the columns are: label, score"),
        ("prob_0,prob_1\n0.5,0.5\n", "no column 'label'"),
        ("", "the file is empty"),
        ("label,prob_0,prob_1\n", "the file has no data rows"),
    ],
)  # fmt: skip
def test_a_bad_file_is_refused_with_its_place(tmp_path, content, said):
    file = tmp_path / "bad.csv"
    file.write_text(content)
    with pytest.raises(UserError) as refused:
        evaluate_files([file])
    assert str(refused.value).startswith(str(file))
    assert said in str(refused.value)


def test_what_cannot_be_evaluated_is_said(scores, tmp_path):
    values, labels = scores
    write_rows(tmp_path / "a.csv", values["logits"], labels)
    (tmp_path / "checkpoint").mkdir()
    (tmp_path / "checkpoint" / "config.json").write_text("{}")
    for arguments, options, said in [
        ([], {}, "nothing to evaluate"),
        ([tmp_path / "a.xlsx"], {}, "no such file"),
        ([tmp_path / "nowhere.csv"], {}, "no such file"),
        ([tmp_path / "checkpoint"], {}, "data=FILE"),
        ([tmp_path], {}, "not a run directory"),
        ([tmp_path / "a.csv"], {"notion": "positive"}, "needs two classes"),
        ([tmp_path / "a.csv"], {"notion": "top"}, "notion must be one of"),
        ([tmp_path / "a.csv"], {"bins": 0}, "bins must be"),
        ([tmp_path / "a.csv"], {"closed": "both"}, "closed must be"),
    ]:
        with pytest.raises(UserError, match=said):
            evaluate_files(arguments, **options)
