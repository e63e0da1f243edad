"""Prediction files as people have them: what their columns are, and what is asked where that is open."""

from __future__ import annotations

import csv
import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

from calmix.calibration.files.column_mapping import ColumnMapping
from calmix.calibration.files.prediction_files import iterate_predictions, read_predictions
from calmix.user_error import UserError

ROWS = 40
GENERATOR = np.random.default_rng(5)
LOGITS = GENERATOR.normal(size=(ROWS, 3)) * 2
PROBS = np.exp(LOGITS) / np.exp(LOGITS).sum(1, keepdims=True)
LABELS = GENERATOR.integers(0, 3, ROWS)
ANIMALS = np.array(["cat", "dog", "fox"])
NAMED = ANIMALS[LABELS]
BINARY = GENERATOR.uniform(size=ROWS)
TRUE = GENERATOR.integers(0, 2, ROWS)


def write(folder, columns, name="p.parquet"):
    file = folder / name
    if name.endswith(".npz"):
        np.savez(file, **columns)
        return file
    table = pa.table(
        {key: value.tolist() if hasattr(value, "tolist") else value for key, value in columns.items()}
    )
    if name.endswith(".jsonl"):
        file.write_text("\n".join(map(json.dumps, table.to_pylist())))
    elif name.endswith(".csv"):
        with file.open("w", newline="") as opened:
            writer = csv.writer(opened)
            writer.writerow(columns)
            writer.writerows(row.values() for row in table.to_pylist())
    else:
        pa.parquet.write_table(table, file)
    return file


def wide(prefix, values=PROBS, names=ANIMALS):
    return {f"{prefix}{name}": values[:, k] for k, name in enumerate(names)}


# Columns, the mapping that goes with them, the classes that are found.
THREE = {
    "target": ({"target": NAMED, **wide("prob_")}, {}, ("cat", "dog", "fox")),
    "y_true": ({"y_true": NAMED, **wide("proba_")}, {}, ("cat", "dog", "fox")),
    "labels": ({"labels": LABELS, "probabilities": PROBS}, {}, ("0", "1", "2")),
    "plain names": ({"label": NAMED, **wide("")}, {}, ("cat", "dog", "fox")),
    "plain numbers": ({"label": LABELS, **wide("", names=range(3))}, {}, ("0", "1", "2")),
    "one-based": ({"label": LABELS + 1, **wide("prob_", names=(1, 2, 3))}, {}, ("1", "2", "3")),
    "one-based, any order": (
        {"label": LABELS + 1, **dict(reversed(wide("prob_", names=(1, 2, 3)).items()))},
        {},
        ("1", "2", "3"),
    ),
    "trainer": ({"predictions": LOGITS, "label_ids": LABELS}, {}, ("0", "1", "2")),
    "mapped": (
        {"truth": NAMED, **wide("p_")},
        {"label_column": "truth", "prob_columns": ("p_cat", "p_dog", "p_fox"), "class_names": ANIMALS},
        ("cat", "dog", "fox"),
    ),
    "mapped by place": (
        {"label": LABELS, **wide("p_")},
        {"prob_columns": "p_cat,p_dog,p_fox"},
        ("p_cat", "p_dog", "p_fox"),
    ),
    "mapped logits": (
        {"y": NAMED, **wide("", LOGITS)},
        {"label_column": "y", "logit_columns": "cat,dog,fox"},
        ("cat", "dog", "fox"),
    ),
    "mapped list": ({"label": LABELS, "scores": PROBS}, {"prob_columns": "scores"}, ("0", "1", "2")),
    "named list": ({"label": LABELS + 1, "probs": PROBS}, {"class_names": "1,2,3"}, ("1", "2", "3")),
    "gaps that are meant": (
        {"label": LABELS * 2, **wide("prob_", names=(0, 2, 4))},
        {"prob_columns": "prob_0,prob_2,prob_4"},
        ("0", "2", "4"),
    ),
    "predicted labels beside them": (
        {"label": LABELS, "predictions": PROBS.argmax(1), "probs": PROBS},
        {},
        ("0", "1", "2"),
    ),
    "other numbers beside them": (
        {"label": NAMED, **wide(""), "confidence": PROBS.max(1)},
        {},
        ("cat", "dog", "fox"),
    ),
}


@pytest.mark.parametrize("suffix", ["parquet", "csv", "jsonl"])
@pytest.mark.parametrize("case", THREE)
def test_three_classes_are_found_whatever_they_are_called(tmp_path, case, suffix):
    columns, options, names = THREE[case]
    file = write(tmp_path, columns, f"p.{suffix}")
    mapping = ColumnMapping.from_options(**options)
    found = read_predictions(file, mapping)
    order = [found.class_names.index(name) for name in names]
    assert sorted(found.class_names) == sorted(names)
    assert found.probabilities()[:, order] == pytest.approx(PROBS, abs=1e-9)
    assert np.array_equal(np.argsort(order)[found.labels], LABELS)
    streamed = list(iterate_predictions(file, mapping, batch_rows=7))
    assert np.array_equal(np.concatenate([part.labels for part in streamed]), found.labels)


@pytest.mark.parametrize(
    ("arrays", "labels"),
    [
        ({"predictions": LOGITS, "label_ids": LABELS}, LABELS),
        ({"probs": PROBS, "label": LABELS, "class_names": ANIMALS}, LABELS),
        ({"probs": PROBS, "label": NAMED, "class_names": ANIMALS}, LABELS),
        ({"probs": PROBS[:, ::-1], "label": LABELS + 1, "class_names": np.array([3, 2, 1])}, 2 - LABELS),
    ],
)
def test_arrays_of_npz_files_with_class_names(tmp_path, arrays, labels):
    found = read_predictions(write(tmp_path, arrays, "p.npz"))
    assert np.array_equal(found.labels, labels)
    if "class_names" in arrays:
        assert found.class_names == tuple(map(str, arrays["class_names"].tolist()))


TWO = {
    "0 and 1": ({"label": TRUE, "prob": BINARY}, {}, "1"),
    "booleans": ({"label": TRUE.astype(bool), "proba": BINARY}, {}, "True"),
    "-1 and 1": ({"label": 2 * TRUE - 1, "probability": BINARY}, {}, "1"),
    "named column": ({"label": np.array(["no", "yes"])[TRUE], "prob_yes": BINARY}, {}, "yes"),
    "column of the first": ({"label": TRUE, "prob_0": 1 - BINARY}, {}, "1"),
    "column 1": ({"target": TRUE, "proba_1": BINARY}, {}, "1"),
    "asked for": ({"label": TRUE + 1, "prob": BINARY}, {"positive_class": "2"}, "2"),
    "mapped": ({"label": TRUE, "score": BINARY}, {"prob_columns": "score"}, "1"),
    "log-odds": ({"label": TRUE, "logit": np.log(BINARY / (1 - BINARY))}, {}, "1"),
}


@pytest.mark.parametrize("suffix", ["parquet", "csv"])
@pytest.mark.parametrize("case", TWO)
def test_one_column_for_two_classes(tmp_path, case, suffix):
    columns, options, positive = TWO[case]
    found = read_predictions(write(tmp_path, columns, f"p.{suffix}"), ColumnMapping.from_options(**options))
    place = found.class_names.index(positive)
    assert found.probabilities()[:, place] == pytest.approx(BINARY, abs=1e-9)
    assert np.array_equal(found.labels == place, TRUE == 1)


REFUSED = [
    (
        {"label": np.array(["no", "yes"])[TRUE], "prob": BINARY},
        "give --positive-class no or --positive-class yes",
    ),
    ({"label": TRUE + 1, "prob": BINARY}, "give --positive-class 1 or --positive-class 2"),
    ({"label": TRUE, "prob_spam": BINARY}, "give --positive-class 0 or --positive-class 1"),
    ({"label": LABELS, "prob": BINARY}, "one column of scores, 'prob', for 3 classes: 0, 1, 2"),
    (
        {"label": LABELS, "predictions": LOGITS},
        "give --logit-columns predictions or --prob-columns predictions",
    ),
    ({"label_ids": LABELS, "predictions": PROBS}, "give --prob-columns predictions"),
    (
        {"label": LABELS, "target": LABELS, "probs": PROBS},
        "give --label-column label or --label-column target",
    ),
    (
        {"predicted_label": NAMED, **wide("prob_")},
        "no column 'label' with the true classes ('predicted_label' holds",
    ),
    ({"prediction": NAMED, **wide("prob_")}, "name it with --label-column"),
    ({"label": NAMED, **wide("", LOGITS)}, "give --logit-columns cat,dog,fox"),
    ({"label": NAMED, **wide("", PROBS * 0.5), "cow": PROBS.sum(1) / 2}, "--prob-columns cat,dog,fox,cow"),
    ({"label": LABELS + 1, "probs": PROBS}, "if they are called 1..3, give --class-names 1,2,3"),
    (
        {"label": LABELS, **wide("prob_")},
        "or give --prob-columns prob_cat,prob_dog,prob_fox if labels count them",
    ),
    (
        {"label": LABELS, "probs": PROBS, "logits": LOGITS},
        "give --logit-columns logits or --prob-columns probs",
    ),
    ({"label": LABELS, "score": BINARY}, "name them with --prob-columns or --logit-columns"),
    ({"label": TRUE, "prob": BINARY * 2 + 0.5}, "must lie in [0, 1]"),
]


@pytest.mark.parametrize(("columns", "remedy"), REFUSED)
def test_what_could_be_two_things_is_refused_with_the_option_that_settles_it(tmp_path, columns, remedy):
    file = write(tmp_path, columns)
    for read in (read_predictions, lambda path: list(iterate_predictions(path, batch_rows=3))):
        with pytest.raises(UserError) as refused:
            read(file)
        assert remedy in refused.value.on_command_line
        assert refused.value.on_command_line.startswith(str(file))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"label_column": "truth"}, "no column 'truth'; label_column names one of: label, prob_cat"),
        ({"prob_columns": "p_cat,p_dog"}, "no column 'p_cat'; prob_columns names one of"),
        ({"id_column": "key"}, "no column 'key'; id_column names one of"),
        (
            {"class_names": "cat,dog,cow"},
            "the columns are those of cat, dog, fox, the class names cat, dog, cow",
        ),
    ],
)
def test_options_that_name_what_is_not_there(tmp_path, options, said):
    file = write(tmp_path, {"label": NAMED, **wide("prob_")})
    with pytest.raises(UserError, match=said):
        read_predictions(file, ColumnMapping.from_options(**options))


def test_contradicting_options_are_refused():
    with pytest.raises(UserError, match="both prob_columns and logit_columns"):
        ColumnMapping.from_options(prob_columns="a,b", logit_columns="c,d")
    with pytest.raises(UserError, match="class_names=a,a; give every name once"):
        ColumnMapping.from_options(class_names="a,a")


def test_ids_go_by_any_name(tmp_path):
    file = write(tmp_path, {"key": [f"r{k}" for k in range(ROWS)], "label": LABELS, "probs": PROBS})
    assert read_predictions(file).ids is None
    assert read_predictions(file, ColumnMapping(id_column="key")).ids[0] == "r0"
