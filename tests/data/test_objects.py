"""Data that is given as objects goes through the checks that files go through."""

import gc

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from datasets import ClassLabel, Dataset, DatasetDict, Features, Value

from calmix.data.columns import ColumnNames
from calmix.data.objects import hold_data
from calmix.data.reading import read_rows
from calmix.data.splits import read_splits
from calmix.user_error import UserError

TEXTS, LABELS = ["good", "bad", "fine"], ["pos", "neg", "pos"]
COLUMNS = {"text": TEXTS, "label": LABELS}


def named_classes():
    features = Features({"text": Value("string"), "label": ClassLabel(names=["neg", "pos"])})
    return Dataset.from_dict({"text": TEXTS, "label": [1, 0, 1]}, features=features)


FORMS = {
    "frame": lambda: pd.DataFrame(COLUMNS),
    "frame of pandas strings": lambda: pd.DataFrame(COLUMNS, dtype="string"),
    "frame with an index of its own": lambda: pd.DataFrame(COLUMNS, index=[7, 7, 2]),
    "categories": lambda: pd.DataFrame({"text": TEXTS, "label": pd.Categorical(LABELS)}),
    "arrow": lambda: pa.table(COLUMNS),
    "dataset": lambda: Dataset.from_dict(COLUMNS),
    "dataset with named classes": named_classes,
    "columns": lambda: COLUMNS,
    "arrays": lambda: {"text": np.array(TEXTS), "label": np.array(LABELS, dtype=object)},
    "rows": lambda: [{"text": text, "label": label} for text, label in zip(TEXTS, LABELS, strict=True)],
    "texts and labels": lambda: (TEXTS, LABELS),
    "series": lambda: (pd.Series(TEXTS), pd.Series(LABELS)),
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_gives_the_rows_that_a_file_gives(form, tmp_path):
    file = tmp_path / "train.csv"
    pd.DataFrame(COLUMNS).to_csv(file, index=False)
    held = hold_data(FORMS[form](), "train")
    rows = read_rows(held.name, "train")
    assert rows.fingerprint() == read_rows(file, "train").fingerprint()
    assert held.name.startswith("in memory: 3 rows, fingerprint ")


def test_equal_content_has_one_name_and_other_content_another():
    first, again = hold_data((TEXTS, LABELS), "train"), hold_data(pd.DataFrame(COLUMNS), "validation")
    other = hold_data((TEXTS, [*LABELS[:2], "neg"]), "train")
    assert first.name == again.name != other.name
    split_elsewhere = hold_data({"text": ["ab", "c"]}, "x"), hold_data({"text": ["a", "bc"]}, "x")
    assert split_elsewhere[0].name != split_elsewhere[1].name


def test_rows_are_there_as_long_as_somebody_holds_them():
    first = hold_data((TEXTS, LABELS), "train")
    again = hold_data((TEXTS, LABELS), "train")
    name = first.name
    del again
    gc.collect()
    assert len(read_rows(name, "a")) == 3
    del first
    gc.collect()
    with pytest.raises(UserError, match="not in memory any more; give the same rows again"):
        read_rows(name, "b")


def test_a_dataset_dict_brings_its_splits():
    splits = DatasetDict({name: named_classes() for name in ("train", "validation", "test")})
    held = hold_data(splits, "train")
    read = read_splits(held.name)
    assert not read.validation_was_split
    assert list(read.tests) == ["test"]
    assert held.name.startswith("in memory: 3 splits, 9 rows")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (
            pd.DataFrame({"text": ["a", None], "label": [0, 1]}),
            r"train \(in memory\), row 2, column 'text'",
        ),
        (pd.DataFrame({"text": ["a", np.nan], "label": [0, 1]}), "row 2, column 'text': empty text"),
        (pd.DataFrame({"text": ["a", pd.NA], "label": [0, 1]}), "row 2, column 'text': empty text"),
        (pd.DataFrame({"text": ["a", "b"], "label": [0, np.nan]}), "row 2, column 'label'"),
        (pd.DataFrame({"text": ["a", "b"], "label": [0.5, 1]}), "row 1, column 'label'"),
        ([{"text": "a", "label": 0}, {"text": "b"}], "row 2, column 'label'"),
        (([1, 2], [0, 1]), "row 1, column 'text': not a text: 1"),
        ((["a", "b"], [0]), "columns of different lengths: 'text' 2, 'label' 1"),
        (pd.DataFrame([["a", "b"]], columns=["text", "text"]), "two columns are named 'text'"),
        (pd.DataFrame({"review": ["a"], "label": [0]}), "no column 'text'; the columns are: review, label"),
        (pd.DataFrame(), "no rows"),
        ([], "no rows"),
        ([{"text": "a"}, 3], "row 2: int 3 where a row is expected"),
        ({"text": "a", "label": [0]}, "column 'text': str a, not a list"),
        (3, "train is int 3; give a file name, a DataFrame"),
        (None, "train is None"),
    ],
)
def test_what_is_wrong_is_said_with_the_argument_and_the_row(data, message):
    with pytest.raises(UserError, match=message):
        held = hold_data(data, "train")
        read_rows(held.name, "train")


def test_pairs_choices_and_images_come_in_too():
    pair = hold_data({"text": ["a"], "text_pair": ["b"], "label": [0]}, "train")
    choice = hold_data([{"text": "a", "choices": ("b", "c"), "label": 1}], "train")
    pixels = np.arange(12, dtype=np.uint8).reshape(2, 2, 3)
    image = hold_data({"image": [pixels, pixels], "label": [0, 1]}, "train")
    assert read_rows(pair.name).task == "pair"
    assert read_rows(choice.name).choices() == [["b", "c"]]
    assert read_rows(image.name).image_sizes() == [(2, 2), (2, 2)]


def test_texts_and_labels_get_the_names_that_the_options_give():
    columns = ColumnNames(text="review", label="stars")
    held = hold_data((TEXTS, LABELS), "train", columns)
    assert len(read_rows(held.name, "train", columns)) == 3
