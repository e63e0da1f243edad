"""Prediction files of every format, written by us or by someone else, and the errors that name their rows."""

from __future__ import annotations

import gzip
import json
import shutil

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

from calmix.calibration.prediction_files import iterate_predictions, read_predictions, write_predictions
from calmix.calibration.predictions import Predictions
from calmix.user_error import UserError


@pytest.fixture
def predictions() -> Predictions:
    generator = np.random.default_rng(3)
    logits = generator.standard_normal((30, 3)).astype(np.float32)
    ids = [f"test-{row + 1}" for row in range(30)]
    return Predictions.from_logits(logits, generator.integers(0, 3, 30), ids=ids, class_names=["a", "b", "ü"])


def write_table(path, header, rows, delimiter=","):
    lines = [delimiter.join(header)] + [delimiter.join(str(value) for value in row) for row in rows]
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.mark.parametrize("kind", ["logits", "probabilities"])
def test_what_is_written_is_read_back_to_the_bit(tmp_path, predictions, kind):
    if kind == "probabilities":
        predictions = Predictions.from_probabilities(
            predictions.probabilities(), predictions.labels, class_names=predictions.class_names
        )
    write_predictions(tmp_path / "deep" / "test.parquet", predictions)
    again = read_predictions(tmp_path / "deep" / "test.parquet")
    assert again.kind == kind
    assert again.class_names == ("a", "b", "ü")
    assert np.array_equal(again.values, predictions.values)
    assert again.values.dtype == predictions.values.dtype
    assert np.array_equal(again.labels, predictions.labels)
    assert (again.ids is None) == (predictions.ids is None)
    assert predictions.ids is None or again.ids.tolist() == predictions.ids.tolist()


def files_of_others(folder, predictions):
    """The same predictions as anyone might write them."""
    logits, labels = predictions.values.astype(np.float64), predictions.labels
    probabilities = predictions.probabilities()
    header = ["label", *(f"logit_{k}" for k in range(3))]
    numbered = [(label, *map(repr, map(float, row))) for label, row in zip(labels, logits, strict=True)]
    yield write_table(folder / "numbered.csv", header, numbered)
    yield write_table(folder / "numbered.tsv", header, numbered, "\t")
    # Columns in any order, classes told by number.
    yield write_table(
        folder / "mixed.csv",
        ["prob_2", "label", "prob_0", "prob_1"],
        [
            (repr(float(p[2])), y, repr(float(p[0])), repr(float(p[1])))
            for y, p in zip(labels, probabilities, strict=True)
        ],
    )
    names = ["no", "maybe", "yes"]
    yield write_table(
        folder / "named.csv",
        ["label", *(f"prob_{name}" for name in names)],
        [(names[y], *map(repr, map(float, p))) for y, p in zip(labels, probabilities, strict=True)],
    )
    quoted = [
        (y, '"' + json.dumps([float(x) for x in row]) + '"') for y, row in zip(labels, logits, strict=True)
    ]
    yield write_table(folder / "lists.csv", ["label", "logits"], quoted)
    records = [
        {"label": int(y), "probs": [float(x) for x in p]} for y, p in zip(labels, probabilities, strict=True)
    ]
    (folder / "records.jsonl").write_text("\n".join(map(json.dumps, records)) + "\n\n")
    yield folder / "records.jsonl"
    (folder / "records.json").write_text(json.dumps(records))
    yield folder / "records.json"
    columns = {name: [record[name] for record in records] for name in ("label", "probs")}
    (folder / "columns.json").write_text(json.dumps(columns))
    yield folder / "columns.json"
    np.savez(folder / "labels.npz", labels=labels, logits=logits)
    yield folder / "labels.npz"
    np.savez_compressed(folder / "float32.npz", label=labels.astype(np.int32), probs=probabilities)
    yield folder / "float32.npz"
    table = pa.table({"label": labels, "logits": logits.tolist(), "note": ["x"] * 30})
    pa.parquet.write_table(table, folder / "lists.parquet", row_group_size=7)
    yield folder / "lists.parquet"
    wide = pa.table({"label": labels} | {f"prob_{k}": probabilities[:, k] for k in range(3)})
    pa.parquet.write_table(wide, folder / "wide.parquet")
    yield folder / "wide.parquet"


def test_files_of_others_say_the_same_whatever_their_format(tmp_path, predictions):
    seen = 0
    for file in files_of_others(tmp_path, predictions):
        found = read_predictions(file)
        assert np.array_equal(found.labels, predictions.labels), file.name
        assert found.probabilities() == pytest.approx(predictions.probabilities(), abs=1e-12), file.name
        assert found.kind == ("logits" if "logit" in open_text(file) else "probabilities"), file.name
        streamed = list(iterate_predictions(file, batch_rows=4))
        assert np.array_equal(np.concatenate([part.values for part in streamed]), found.values), file.name
        seen += 1
    assert seen == 12


def open_text(file) -> str:
    if file.suffix == ".npz":
        return " ".join(np.load(file).files)
    if file.suffix == ".parquet":
        return " ".join(pa.parquet.read_schema(file).names)
    return file.read_text()[:2000].split("\n")[0]


@pytest.mark.parametrize("name", ["numbered.csv", "records.jsonl", "records.json", "wide.parquet"])
def test_gzipped_files_are_read_like_the_plain_ones(tmp_path, predictions, name):
    list(files_of_others(tmp_path, predictions))
    with gzip.open(tmp_path / f"{name}.gz", "wb") as packed, (tmp_path / name).open("rb") as plain:
        shutil.copyfileobj(plain, packed)
    again, first = read_predictions(tmp_path / f"{name}.gz"), read_predictions(tmp_path / name)
    assert np.array_equal(again.values, first.values)


def test_named_columns_name_the_classes(tmp_path):
    file = write_table(
        tmp_path / "p.csv", ["label", "prob_no", "prob_yes"], [("yes", 0.25, 0.75), ("no", 0.5, 0.5)]
    )
    found = read_predictions(file)
    assert found.class_names == ("no", "yes")
    assert found.labels.tolist() == [1, 0]


def test_large_parquet_batches_have_bounded_size(tmp_path):
    rows = 5000
    table = pa.table(
        {"label": np.zeros(rows, dtype=np.int64), "prob_0": np.full(rows, 0.5), "prob_1": np.full(rows, 0.5)}
    )
    pa.parquet.write_table(table, tmp_path / "p.parquet")
    sizes = [len(part) for part in iterate_predictions(tmp_path / "p.parquet", batch_rows=512)]
    assert sum(sizes) == rows
    assert max(sizes) <= 512


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("p.csv", "prob_0,prob_1\n0.5,0.5\n", ["no column 'label'", "prob_0, prob_1"]),
        ("p.csv", "label,score\n0,0.5\n", ["no scores", "label, score"]),
        ("p.csv", "label,prob_0,prob_1,logit_0,logit_1\n0,.5,.5,1,2\n", ["several kinds of scores"]),
        ("p.csv", "label,prob_0\n0,0.5\n", ["only one class"]),
        ("p.csv", "label,prob_0,prob_2\n0,0.5,0.5\n", ["without gaps"]),
        ("p.csv", "label,prob_0,prob_1\n0,0.5,0.5\n0,0.5,0.6\n", ["row 2", "sum to 1"]),
        ("p.csv", "label,prob_0,prob_1\n0,0.5,0.5\n0,1.5,-0.5\n", ["row 2", "negative"]),
        ("p.csv", "label,prob_0,prob_1\n0,0.5,0.5\n0,,1\n", ["row 2", "missing", "prob_0"]),
        ("p.csv", "label,prob_0,prob_1\n0,0.5,0.5\n0,half,0.5\n", ["row 2", "prob_0", "numbers"]),
        ("p.csv", "label,logit_0,logit_1\n0,0.5,0.5\n2,1,2\n", ["row 2", "label", "outside 0..1"]),
        ("p.csv", "label,logit_0,logit_1\n0,0.5,nan\n", ["row 1", "finite"]),
        ("p.csv", "label,prob_0,prob_1\nyes,0.5,0.5\n", ["row 1", "unknown label 'yes'"]),
        ("p.csv", "label,probs\n0,0.5 0.5\n", ["row 1", "not a list"]),
        ("p.csv", "label,probs\n0,0.5\n", ["list"]),
        ("p.csv", "label,prob_0,prob_1\n0,0.5\n", ["malformed"]),
        ("p.csv", "label,prob_0,prob_1\n", ["no rows"]),
        ("p.csv", "", ["empty"]),
        (
            "p.jsonl",
            '{"label": 0, "probs": [0.5, 0.5]}\n{"label": 0, "probs": [1.0]}\n',
            ["row 2", "1 scores"],
        ),
        ("p.jsonl", '{"label": 0, "probs": [0.5, 0.5]}\n{"label": 0, "pro\n', ["row 2", "JSON"]),
        ("p.jsonl", '{"label": 0, "probs": [0.5, null]}\n', ["row 1", "missing"]),
        ("p.json", "[1, 2]", ["row 1", "object"]),
        ("p.json", "{", ["JSON"]),
        ("p.npz", "no archive", ["npz"]),
        ("p.parquet", "no parquet", ["parquet"]),
        ("p.xlsx", "x", ["unknown file type", ".xlsx", ".parquet"]),
    ],
)
def test_every_flaw_is_one_line_that_names_the_place(tmp_path, name, content, words):
    file = tmp_path / name
    file.write_text(content)
    for read in (read_predictions, lambda path: list(iterate_predictions(path, batch_rows=1))):
        with pytest.raises(UserError) as raised:
            read(file)
        line = str(raised.value)
        assert "\n" not in line
        assert name in line
        for word in words:
            assert word in line


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(UserError, match=r"gone\.csv: no such file"):
        read_predictions(tmp_path / "gone.csv")


def test_a_row_far_down_a_streamed_file_is_still_named(tmp_path):
    rows = 3000
    left = np.full(rows, 0.5)
    left[2345] = 0.9
    table = pa.table({"label": np.zeros(rows, dtype=np.int64), "prob_0": left, "prob_1": np.full(rows, 0.5)})
    pa.parquet.write_table(table, tmp_path / "p.parquet")
    with pytest.raises(UserError, match="row 2346"):
        list(iterate_predictions(tmp_path / "p.parquet", batch_rows=100))
