"""Prediction files of every format, written by us or by someone else, and the errors that name their rows."""

from __future__ import annotations

import gzip
import json
import shutil

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

from calmix.calibration.files.prediction_files import iterate_predictions, read_predictions, write_predictions
from calmix.calibration.predictions import Predictions
from calmix.io import separated
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


@pytest.mark.parametrize(
    "name", ["numbered.csv", "records.jsonl", "records.json", "wide.parquet", "labels.npz"]
)
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


GOOD = "label,prob_0,prob_1\n0,0.5,0.5\n"
AS_LOGITS = "go under the name 'logit_0', 'logit_1', .."
SAME_KIND = "write the same kind of value in every row"
ONE_OBJECT = "write one object per row"

# A file's name and content; what is said where; what is to be done.
FLAWS = [
    ("p.csv", "prob_0,prob_1\n0.5,0.5\n", ": no column 'label'", "the columns are: prob_0, prob_1"),
    ("p.csv", "label,score\n0,0.5\n", ": no scores", "the columns are: label, score"),
    (
        "p.csv",
        "label,prob_0,prob_1,logit_0,logit_1\n0,.5,.5,1,2\n",
        "several kinds",
        "give --logit-columns logit_0,logit_1 or",
    ),
    ("p.csv", "label,prob_a\na,0.5\n", "and only one class to be seen: a", "give one column per class"),
    ("p.csv", "label,prob_0,prob_2\n0,0.5,0.5\n", "with gaps", "give --prob-columns prob_0,prob_2"),
    ("p.csv", "label,prob_0,prob_0\n0,0.5,0.5\n", ": two columns are named 'prob_0'", "rename one"),
    ("p.csv", "label,label,prob_0,prob_1\n0,0,.5,.5\n", ": two columns are named 'label'", "rename one"),
    (
        "p.csv",
        GOOD + "0,0.5,0.6\n",
        ", row 2, column 'prob_0..prob_1': probabilities must sum to 1, not 1.1",
        "divide every row by its sum; scores before a softmax " + AS_LOGITS,
    ),
    ("p.csv", GOOD + "0,1.5,-0.5\n", ", row 2, column 'prob_1': probabilities must not be neg", AS_LOGITS),
    (
        "p.csv",
        GOOD + "0,nan,0.5\n",
        ", row 2, column 'prob_0': probabilities must be finite",
        "leave the row out",
    ),
    ("p.csv", GOOD + "0,,1\n", ", row 2, column 'prob_0': a value is missing", "leave the row out"),
    (
        "p.csv",
        GOOD + "0,half,.5\n",
        ", row 2, column 'prob_0': scores must be numbers, not 'half'",
        "a number",
    ),
    ("p.csv", GOOD + "2,.5,.5\n", ", row 2, column 'label': label 2 is outside 0..1", "there are 2 classes"),
    (
        "p.csv",
        GOOD + "0.5,.5,.5\n",
        ", row 2, column 'label': labels must be class indices",
        "counted from 0",
    ),
    (
        "p.csv",
        GOOD + "nan,.5,.5\n",
        ", row 2, column 'label': labels must be class indices",
        "counted from 0",
    ),
    (
        "p.csv",
        GOOD + "0,0.5\n",
        ", row 2: 2 fields (line 3) where the header has 3",
        "quote fields that contain a comma",
    ),
    (
        "p.csv",
        "label,logit_0,logit_1\n0,0.5,inf\n",
        ", row 1, column 'logit_1': logits must be finite",
        "leave",
    ),
    (
        "p.csv",
        "label,prob_0,prob_1\nyes,0.5,0.5\n",
        ", row 1, column 'label': unknown label 'yes'",
        "are: 0, 1",
    ),
    ("p.csv", "label,probs\n0,0.5 0.5\n", ", row 1, column 'probs': not a list", "[0.2, 0.8]"),
    ("p.csv", "label,probs\n0,0.5\n", ", column 'probs': one number per row", "write lists"),
    ("p.csv", "label,probs\n0,[1.0]\n", ", column 'probs': ", "one score per class"),
    ("p.csv", "label,prob_0,prob_1\n", ": the file has no data rows", "one row per record"),
    ("p.csv", "", ": the file is empty", "one row per record"),
    ("p.csv.gz", "no gzip", ": not a whole gzip file", "remove .gz from its name"),
    (
        "p.jsonl",
        '{"label": 0, "probs": [0.5, 0.5]}\n{"label": 0, "probs": [1.0]}\n',
        ", row 2, column 'probs': 1 scores where the first row has 2",
        "one score per class",
    ),
    (
        "p.jsonl",
        '{"label": 0, "probs": [0.5, 0.5]}\n\n{"label": 0, "pro\n',
        ", row 2: line 3 is not JSON",
        ONE_OBJECT,
    ),
    (
        "p.jsonl",
        '{"label": 0, "probs": [0.5, null]}\n',
        ", row 1, column 'probs': a score is missing",
        "leave",
    ),
    ("p.jsonl", '{"label": 0, "probs": ["0.5", "0.5"]}\n', ", row 1, column 'probs': ", "write a number"),
    (
        "p.jsonl",
        '{"label": 0, "logits": [1, 2]}\n{"label": "b", "logits": [1, 2]}\n{"label": 0, "logits": [1, 2]}',
        ", row 2, column 'label': 'b' does not go with",
        SAME_KIND,
    ),
    ("p.jsonl", '{"label": 0, "logits": [1, 2], "row_id": null}\n', ", row 1, column 'row_id': ", "write it"),
    ("p.json", "[1, 2]", ", row 1: a JSON number where an object is expected", ONE_OBJECT),
    ("p.json", "[]", ": the file has no data rows", "one row per record"),
    ("p.json", "3", ": not a list of objects", ONE_OBJECT),
    ("p.json", "{", ": line 1 is not JSON", ONE_OBJECT),
    (
        "p.json",
        '{"label": [0, 1], "probs": [[1, 0]]}',
        "differ in length: label 2, probs 1",
        "one value per row",
    ),
    ("p.json.gz", "no gzip", ": not a whole gzip file", "remove .gz from its name"),
    ("p.npz", "no archive", ": not an npz archive", "numpy.savez(file, label=..., logits=...)"),
    ("p.npz.gz", "no gzip", ": not a whole gzip file", "remove .gz from its name"),
    ("p.parquet", "no parquet", ": not a whole parquet file", "copy it again"),
    ("p.parquet.gz", "no gzip", ": not a whole gzip file", "remove .gz from its name"),
    ("p.xlsx", "x", ": unknown extension '.xlsx'", "use .csv .tsv"),
]


def complaint(read, file):
    with pytest.raises(UserError) as raised:
        read(file)
    line = raised.value.on_command_line
    assert "\n" not in line
    assert str(file) in line
    return line


@pytest.mark.parametrize(("name", "content", "problem", "remedy"), FLAWS)
def test_every_flaw_is_one_line_that_names_the_place_and_the_remedy(tmp_path, name, content, problem, remedy):
    file = tmp_path / name
    file.write_text(content)
    for read in (read_predictions, lambda path: list(iterate_predictions(path, batch_rows=1))):
        line = complaint(read, file)
        assert problem in line
        assert remedy in line.partition(problem)[2].partition("; ")[2]


@pytest.mark.parametrize(
    ("arrays", "problem"),
    [
        ({"label": [0, 1], "logits": [[1.0, 2.0]]}, ", column 'logits': 2 labels but shape (1, 2); "),
        ({"label": [0, 1], "logits": np.zeros((2, 3, 4))}, ", column 'logits': an array of shape (2, 3, 4)"),
        ({"label": [0, 1], "logits": np.zeros((2, 3), complex)}, ", column 'logits': values of type complex"),
        ({"label": [[0], [1]], "logits": np.zeros((2, 3))}, ", column 'label': labels must be"),
        (
            {"label": np.array([0, "a"], dtype=object), "logits": np.zeros((2, 3))},
            ": not an npz archive of plain",
        ),
    ],
)
def test_arrays_that_are_no_columns_are_named(tmp_path, arrays, problem):
    np.savez(tmp_path / "p.npz", **arrays)
    line = complaint(read_predictions, tmp_path / "p.npz")
    assert problem in line
    assert "; " in line


def test_a_long_table_keeps_its_kinds_from_block_to_block(tmp_path, monkeypatch):
    """The first block holds whole numbers only; what follows may be fractions, but no words."""
    monkeypatch.setattr(separated, "BLOCK_BYTES", 64)
    rows = [(f"{row:03}", row % 2, 0 if row < 50 else 0.25, 1) for row in range(100)]
    file = write_table(tmp_path / "p.csv", ["row_id", "label", "logit_0", "logit_1"], rows)
    found = read_predictions(file)
    assert found.values[:, 0].tolist() == [row[2] for row in rows]
    assert found.ids[:2].tolist() == ["000", "001"]
    rows[70] = ("070", 0, "x", 1)
    write_table(file, ["row_id", "label", "logit_0", "logit_1"], rows)
    assert "p.csv, row 71, column 'logit_0': 'x' does not go with" in complaint(read_predictions, file)
    rows[70] = ("070", "yes", 0, 1)
    write_table(file, ["row_id", "label", "logit_0", "logit_1"], rows)
    assert "p.csv, row 71, column 'label': 'yes' does not go with" in complaint(read_predictions, file)
    rows[70] = ("070", 0, 1)
    write_table(file, ["row_id", "label", "logit_0", "logit_1"], rows)
    assert "p.csv, row 71: 3 fields (line 72) where the header has 4" in complaint(read_predictions, file)


def test_a_categorical_column_of_labels_is_read_like_names(tmp_path):
    labels = pa.array(["yes", "no", "yes"]).dictionary_encode()
    table = pa.table({"label": labels, "prob_no": [0.5, 0.9, 0.1], "prob_yes": [0.5, 0.1, 0.9]})
    pa.parquet.write_table(table, tmp_path / "p.parquet")
    assert read_predictions(tmp_path / "p.parquet").labels.tolist() == [1, 0, 1]


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(UserError, match=r"gone\.csv: no such file; check the path"):
        read_predictions(tmp_path / "gone.csv")


def test_a_row_far_down_a_streamed_file_is_still_named(tmp_path):
    rows = 3000
    left = np.full(rows, 0.5)
    left[2345] = 0.9
    table = pa.table({"label": np.zeros(rows, dtype=np.int64), "prob_0": left, "prob_1": np.full(rows, 0.5)})
    pa.parquet.write_table(table, tmp_path / "p.parquet")
    with pytest.raises(UserError, match="row 2346"):
        list(iterate_predictions(tmp_path / "p.parquet", batch_rows=100))


@pytest.mark.parametrize("names", [("1", "1.0"), ("1e3", "1000"), ("0x1", "1"), ("true", "True")])
def test_labels_of_a_csv_file_that_are_one_value_are_not_taken_for_either(tmp_path, names):
    file = tmp_path / "predictions.csv"
    rows = [f"{name},{0.9 if name == names[0] else 0.2},{0.1 if name == names[0] else 0.8}" for name in names]
    file.write_text("\n".join([f"label,prob_{names[0]},prob_{names[1]}", *rows]) + "\n")
    with pytest.raises(UserError, match=f"cannot tell the classes '{names[0]}' and '{names[1]}' apart"):
        read_predictions(file)
    texts = file.with_suffix(".jsonl")
    records = [{"label": name, f"prob_{names[0]}": 0.5, f"prob_{names[1]}": 0.5} for name in names]
    texts.write_text("\n".join(map(json.dumps, records)))
    assert read_predictions(texts).labels.tolist() == [0, 1]
