"""Labels and classes meet by name: in one file, and from file to file."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calmix.calibration.class_names import ClassLookup, DifferentClasses, class_order
from calmix.calibration.files.prediction_files import read_predictions
from calmix.user_error import UserError
from evaluated_files import evaluate_files


def drawn(rows=300, seed=0):
    """Probabilities of being true, and what came true: right in about four rows of five."""
    generator = np.random.default_rng(seed)
    truth = generator.random(rows) < 0.5
    sure = generator.uniform(0.5, 1.0, rows)
    agrees = generator.random(rows) < 0.8
    return np.where(truth == agrees, sure, 1 - sure), truth


def write_rows(folder, suffix, columns):
    file = folder / f"p.{suffix}"
    table = pa.table(columns)
    if suffix == "parquet":
        pa.parquet.write_table(table, file)
    elif suffix == "jsonl":
        file.write_text("\n".join(map(json.dumps, table.to_pylist())))
    else:
        rows = [",".join(map(str, row.values())) for row in table.to_pylist()]
        file.write_text("\n".join([",".join(columns), *rows]) + "\n")
    return file


@pytest.mark.parametrize("suffix", ["csv", "parquet", "jsonl"])
@pytest.mark.parametrize(
    ("names", "labels"),
    [
        (("True", "False"), (True, False)),
        (("true", "FALSE"), (True, False)),
        (("True", "False"), ("TRUE", "false")),
        (("True", "False"), (1, 0)),
        (("1.0", "0.0"), (1.0, 0.0)),
        (("1.0", "0.0"), (1, 0)),
        (("1", "0"), (1.0, 0.0)),
        (("1", "0"), (True, False)),
        (("1", "-1"), (1, -1)),
        (("yes", "no"), ("yes", "no")),
    ],
)
def test_a_label_is_the_class_of_its_name_wherever_its_column_stands(tmp_path, suffix, names, labels):
    probability, truth = drawn()
    right = ((probability > 0.5) == truth).mean()
    file = write_rows(
        tmp_path,
        suffix,
        {
            "label": [labels[0] if is_true else labels[1] for is_true in truth],
            f"prob_{names[0]}": probability,
            f"prob_{names[1]}": 1 - probability,
        },
    )
    found = read_predictions(file)
    positive = ClassLookup(found.class_names).find(names[0])
    assert np.array_equal(found.labels == positive, truth)
    assert found.correct().mean() == pytest.approx(right)
    assert right > 0.7


def test_an_index_is_not_taken_for_a_class_that_has_a_name(tmp_path):
    file = tmp_path / "p.csv"
    file.write_text("label,prob_dog,prob_cat\n0,0.3,0.7\n")
    with pytest.raises(
        UserError, match=r"row 1, column 'label': unknown label 0; the classes of this file are: dog"
    ):
        read_predictions(file)


def test_a_truth_value_is_none_of_three_classes(tmp_path):
    file = tmp_path / "p.csv"
    file.write_text("label,prob_0,prob_1,prob_2\nTrue,0.3,0.4,0.3\n")
    with pytest.raises(UserError, match="row 1, column 'label': unknown label True"):
        read_predictions(file)


def test_a_spelling_that_two_classes_share_names_neither():
    assert ClassLookup(("1", "1.0", "x")).find("1.00") is None
    with pytest.raises(DifferentClasses):
        class_order(("1", "1.0"), ("1.00", "1.000"))


@given(st.permutations(["a", "b", "1", "2.0", "True"]))
def test_an_order_leads_back(names):
    ours = ("True", "1.0", "2", "b", "a")
    order = class_order(names, ours)
    assert [ClassLookup(ours).find(names[place]) for place in order] == list(range(5))


def animals(folder, name, order, seed, rows=200, ids=True):
    """A file of three classes in any order of its columns; the truth does not depend on the order."""
    generator = np.random.default_rng(seed)
    logits = generator.normal(size=(rows, 3)) * 2
    logits[:, 1] += 1.5  # a bias that only vector scaling finds
    probabilities = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    honest = np.exp(logits - [0, 1.5, 0])
    honest /= honest.sum(1, keepdims=True)
    labels = (honest.cumsum(1) > generator.random((rows, 1))).argmax(1)
    names = ("cat", "dog", "fox")
    columns = {"row_id": [str(row) for row in range(rows)]} if ids else {}
    columns |= {"label": [names[label] for label in labels]}
    columns |= {f"prob_{name}": probabilities[:, names.index(name)] for name in order}
    file = folder / f"{name}.parquet"
    pa.parquet.write_table(pa.table(columns), file)
    return file


@pytest.mark.parametrize("ids", [True, False])
def test_evaluate_compares_classes_by_name(tmp_path, ids):
    first = animals(tmp_path, "first", ("cat", "dog", "fox"), 1, ids=ids)
    second = animals(tmp_path, "second", ("fox", "cat", "dog"), 1, ids=ids)
    found = evaluate_files([first, second], intervals=False)
    assert {one["difference"] for one in found["differences"]} == {0.0}
    assert found["differences"][0]["matched_by"] == ("row_id" if ids else "position")


def test_evaluate_names_both_sets_of_classes_where_they_differ(tmp_path):
    first = animals(tmp_path, "first", ("cat", "dog", "fox"), 1)
    other = pa.parquet.read_table(first)
    names = [name.replace("dog", "cow") for name in other.column_names]
    labels = [label.replace("dog", "cow") for label in other["label"].to_pylist()]
    renamed = other.rename_columns(names).set_column(1, "label", pa.array(labels))
    pa.parquet.write_table(renamed, tmp_path / "second.parquet")
    (found,) = evaluate_files([first, tmp_path / "second.parquet"], intervals=False)["differences"]
    assert found["reason"] == "the classes differ: cat, dog, fox and cat, cow, fox"


def test_an_ensemble_means_the_same_classes(tmp_path):
    from calmix.calibration.files.ensemble import ensemble

    first, second, turned = (
        read_predictions(animals(tmp_path, "m", order, 1))
        for order in (("cat", "dog", "fox"), ("cat", "dog", "fox"), ("fox", "cat", "dog"))
    )
    assert np.array_equal(ensemble([first, turned]).values, ensemble([first, second]).values)
