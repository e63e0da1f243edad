"""Predictions files with several labels per row: one content in every form, and what is refused."""

import json

import numpy as np
import pytest

import calmix
from calmix import (
    MultiLabelPredictions,
    UserError,
    read_multi_label_predictions,
    write_multi_label_predictions,
)
from calmix.calibration.files.column_mapping import ColumnMapping

NAMES = ("anger", "joy")
SCORES = [[0.9, 0.2], [0.4, 0.6], [0.3, 0.1]]
LABELS = [["anger"], ["joy", "anger"], []]


def records():
    return [
        {"row_id": f"r{k}", "label": labels, "prob_joy": joy, "prob_anger": anger}
        for k, (labels, (anger, joy)) in enumerate(zip(LABELS, SCORES, strict=True))
    ]


def assert_same(found):
    ordered = found.with_label_order(NAMES)
    np.testing.assert_allclose(ordered.values, SCORES)
    assert ordered.targets.astype(int).tolist() == [[1, 0], [1, 1], [0, 0]]
    assert ordered.kind == "probabilities"


def write_lines(path, lines):
    path.write_text("\n".join(lines) + "\n")
    return path


def test_lists_of_names_say_that_there_are_several(tmp_path):
    file = write_lines(tmp_path / "a.jsonl", [json.dumps(one) for one in records()])
    found = read_multi_label_predictions(file)
    assert_same(found)
    assert found.ids.tolist() == ["r0", "r1", "r2"]
    assert calmix.evaluate(file).macro["nll"] == pytest.approx(calmix.evaluate(found).macro["nll"])


def test_a_separator(tmp_path):
    lines = ["label,prob_anger,prob_joy", "anger,0.9,0.2", '"joy; anger",0.4,0.6', ",0.3,0.1"]
    file = write_lines(tmp_path / "a.csv", lines)
    assert_same(read_multi_label_predictions(file, ColumnMapping(label_separator=";")))
    assert calmix.evaluate(file, label_separator=";").subset_accuracy == pytest.approx(2 / 3)


def test_json_lists_in_a_csv(tmp_path):
    lines = [
        "label,prob_anger,prob_joy",
        '"[""anger""]",0.9,0.2',
        '"[""joy"", ""anger""]",0.4,0.6',
        "[],0.3,0.1",
    ]
    file = write_lines(tmp_path / "a.csv", lines)
    assert_same(read_multi_label_predictions(file, ColumnMapping(multi_label=True)))


@pytest.mark.parametrize("prefix", ["", "label_"])
def test_columns_of_0_and_1(tmp_path, prefix):
    head = f"{prefix}joy,{prefix}anger,prob_anger,prob_joy"
    file = write_lines(tmp_path / "a.csv", [head, "0,1,0.9,0.2", "1,1,0.4,0.6", "0,0,0.3,0.1"])
    mapping = ColumnMapping(label_columns=(f"{prefix}joy", f"{prefix}anger"))
    assert_same(read_multi_label_predictions(file, mapping))


def test_numbered_labels_in_lists(tmp_path):
    lines = [
        json.dumps({"label": [1], "logits": [-1.0, 2.0]}),
        json.dumps({"label": [], "logits": [0.0, 1.0]}),
    ]
    found = read_multi_label_predictions(write_lines(tmp_path / "a.jsonl", lines))
    assert found.kind == "logits" and found.targets.astype(int).tolist() == [[0, 1], [0, 0]]


def test_written_and_read_again(tmp_path):
    generator = np.random.default_rng(0)
    made = MultiLabelPredictions.from_logits(
        generator.normal(size=(20, 3)).astype(np.float32),
        generator.integers(0, 2, (20, 3)),
        ids=[f"id-{k}" for k in range(20)],
        label_names=("b, c", "a", "ü"),
    )
    write_multi_label_predictions(tmp_path / "p.parquet", made)
    again = read_multi_label_predictions(tmp_path / "p.parquet")
    np.testing.assert_array_equal(again.values, made.values)
    np.testing.assert_array_equal(again.targets, made.targets)
    assert again.label_names == made.label_names and again.ids.tolist() == made.ids.tolist()
    with pytest.raises(UserError, match="label"):
        calmix.read_predictions(tmp_path / "p.parquet")


REFUSED = [
    (
        "label,prob_a,prob_b\na;z,0.1,0.2\n",
        {"label_separator": ";"},
        "row 1, column 'label': unknown label 'z'",
    ),
    ("label,prob_a,prob_b\na,0.1,1.2\n", {"label_separator": ";"}, "row 1, column 'prob_b': a probability"),
    ("label,prob_a,prob_b\na,0.1,\n", {"label_separator": ";"}, "row 1, column 'prob_b': a value is missing"),
    ("label,prob_a,prob_b\na,0.1,0.2\n", {"multi_label": True}, "row 1, column 'label': not a list of names"),
    ("label,prob_a,prob_b\n,0.1,0.2\n", {"multi_label": True}, "row 1, column 'label': no list"),
    ("a,b,prob_a,prob_b\n1,2,0.1,0.2\n", {"label_columns": "a,b"}, "row 1, column 'b': a label is 0 or 1"),
    ("a,b,prob_a,prob_b\n1,1,0.1,0.2\n", {"label_columns": "a,c"}, "no column 'c'"),
    ("a,c,prob_a,prob_b\n1,1,0.1,0.2\n", {"label_columns": "a,c"}, "name the same labels"),
    ("prob_a,prob_b\n0.1,0.2\n", {"multi_label": True}, "no column of labels"),
    ("label,prob_a\na,0.1\n", {"label_separator": ";"}, "at least two labels"),
    ("label,prob_a,prob_b\na,0.1,0.2\n", {"label_separator": ""}, "label_separator is empty"),
    ("label,prob_a,prob_b\na,0.1,0.2\n", {"label_separator": ";", "label_columns": "a"}, "one way"),
    ("label,prob_a,prob_b\na,0.1,0.2\n", {"label_separator": ";", "slice": "x"}, "slice is for rows of one"),
    ("label,prob_a,prob_b\na,0.1,0.2\n", {"label_separator": ";", "ensemble": True}, "ensemble is for rows"),
    ("label,prob_a,prob_b\na,0.1,0.2\n", {"label_separator": ";", "notion": "classwise"}, "on its own"),
]


@pytest.mark.parametrize(("content", "options", "problem"), REFUSED, ids=[case[2] for case in REFUSED])
def test_what_cannot_be_read_is_named_in_one_line(tmp_path, content, options, problem):
    file = tmp_path / "a.csv"
    file.write_text(content)
    with pytest.raises(UserError) as caught:
        calmix.evaluate(file, **options)
    assert problem in str(caught.value) and "\n" not in str(caught.value)


def test_two_files_are_compared_row_by_row(tmp_path):
    generator = np.random.default_rng(1)
    logits, labels = generator.normal(size=(300, 2)), generator.integers(0, 2, (300, 2))
    ids = [str(k) for k in range(300)]
    first = MultiLabelPredictions.from_logits(logits, labels, ids=ids, label_names=NAMES)
    order = generator.permutation(300)
    better = MultiLabelPredictions.from_logits(0.5 * logits, labels, ids=ids, label_names=NAMES).select(order)
    found = calmix.evaluate({"first": first, "second": better})
    by_metric = {one["metric"]: one for one in found.differences}
    rows = first.log_losses().mean(axis=1) - better.select(np.argsort(order)).log_losses().mean(axis=1)
    assert by_metric["nll"]["difference"] == pytest.approx(rows.mean())
    assert by_metric["nll"]["matched_by"] == "row_id"
    half = 1.96 * rows.std(ddof=1) / np.sqrt(300)
    assert by_metric["nll"]["ci"] == pytest.approx([rows.mean() - half, rows.mean() + half], abs=0.2 * half)
    assert by_metric["subset_accuracy"]["difference"] == 0.0
    assert "Paired differences" in str(found)
    apart = calmix.evaluate({"first": first, "part": first.select(np.arange(10))})
    assert apart.differences[0]["reason"] == "300 and 10 rows"


def test_predictions_of_one_label_beside_several_are_refused(tmp_path):
    one = calmix.Predictions.from_probabilities([0.2, 0.7], [0, 1])
    several = MultiLabelPredictions.from_probabilities(SCORES, LABELS, label_names=NAMES)
    with pytest.raises(UserError, match="beside rows of several"):
        calmix.evaluate({"one": one, "several": several})


def test_calibrating_a_file_scales_every_label(tmp_path):
    generator = np.random.default_rng(2)
    true = generator.normal(-0.5, 1.5, (1200, 2))
    labels = generator.random((1200, 2)) < 1 / (1 + np.exp(-true))
    given = MultiLabelPredictions.from_logits(3 * true + [1.0, -1.0], labels, label_names=NAMES)
    parts = {"val": given.select(np.arange(600)), "test": given.select(np.arange(600, 1200))}
    for name, part in parts.items():
        write_multi_label_predictions(tmp_path / f"{name}.parquet", part)
    found = calmix.calibrate(
        tmp_path / "test.parquet", fit_on=tmp_path / "val.parquet", method="platt", output=tmp_path / "out"
    )
    assert found.content["scale"]["joy"] == pytest.approx(1 / 3, rel=0.25)
    held = found.held_out["test"]
    assert held.after.macro["nll"] < held.before.macro["nll"]
    assert found.held_out["val.parquet"].measured == "cross-validated"
    calibrated = found.predictions()
    np.testing.assert_allclose(calibrated.values, found.calibrator().transform(parts["test"]))
    assert held.after.macro["nll"] == pytest.approx(calmix.evaluate(calibrated).macro["nll"])
    assert "Held-out metrics" in str(found) and (tmp_path / "out" / "report.html").is_file()
    assert set(found.content["thresholds"]) == set(NAMES)
    with pytest.raises(UserError, match="isotonic calibration is not for several labels"):
        calmix.calibrate(parts["test"], fit_on=parts["val"], method="isotonic", output=tmp_path / "no")
    assert not (tmp_path / "no").exists()
