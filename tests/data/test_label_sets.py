"""Training rows that have several labels, or none."""

import json

import numpy as np
import pytest

from calmix.data.checks import check_splits
from calmix.data.columns import ColumnNames
from calmix.data.reading import read_rows
from calmix.data.sampling import random_sample, stratified_sample, stratified_split
from calmix.data.splits import read_splits
from calmix.user_error import UserError

LISTS = ColumnNames(multi_label=True)
ROWS = [("a film", ["joy", "film"]), ("nothing", []), ("dull", ["anger"]), ("warm", ["joy"])]


def written(path, rows=ROWS):
    path.write_text("".join(json.dumps({"text": text, "label": labels}) + "\n" for text, labels in rows))
    return path


def test_every_form_gives_the_same_rows(tmp_path):
    lists = read_rows(written(tmp_path / "a.jsonl"), "train", LISTS)
    assert lists.label_names == ("anger", "film", "joy")
    assert lists.multi_hot.tolist() == [[0, 1, 1], [0, 0, 0], [1, 0, 0], [0, 0, 1]]
    assert lists.label_counts.tolist() == [1, 1, 2] and lists.is_labelled
    separated = tmp_path / "b.csv"
    separated.write_text("text,label\na film,joy|film\nnothing,\ndull,anger\nwarm, joy |\n")
    assert (
        read_rows(separated, "train", ColumnNames(label_separator="|")).fingerprint() == lists.fingerprint()
    )
    columns = tmp_path / "c.csv"
    columns.write_text("text,anger,film,joy\na film,0,1,1\nnothing,0,0,0\ndull,1,0,0\nwarm,0,0,true\n")
    named = ColumnNames(label_columns=("anger", "film", "joy"))
    assert read_rows(columns, "train", named).fingerprint() == lists.fingerprint()
    other_order = ColumnNames(label_columns=("joy", "anger", "film"))
    again = read_rows(columns, "test", other_order, lists.label_names)
    np.testing.assert_array_equal(again.multi_hot, lists.multi_hot)


def test_a_fingerprint_tells_labels_apart(tmp_path):
    first = read_rows(written(tmp_path / "a.jsonl"), "train", LISTS)
    moved = [("a film", ["joy"]), ("nothing", ["film"]), *ROWS[2:]]
    assert (
        read_rows(written(tmp_path / "b.jsonl", moved), "train", LISTS).fingerprint() != first.fingerprint()
    )


def test_splitting_leaves_a_row_of_every_label(tmp_path):
    generator = np.random.default_rng(0)
    rows = [
        (f"text {k}", [name for name, share in (("a", 0.5), ("b", 0.1)) if generator.random() < share])
        for k in range(200)
    ]
    splits = read_splits(written(tmp_path / "a.jsonl", rows), columns=LISTS)
    assert len(splits.validation) == 20 and len(splits.train) == 180
    shares = splits.validation.multi_hot.mean(axis=0) - splits.train.multi_hot.mean(axis=0)
    assert np.abs(shares).max() < 0.1
    for draw in (stratified_sample, random_sample):
        assert len(draw(splits.train, 30, 0)) == 30
    rest, part = stratified_split(splits.train, 0.5, 1)
    assert set(rest.row_ids) | set(part.row_ids) == set(splits.train.row_ids)


def test_the_checks_know_several_labels(tmp_path):
    rows = [*[(f"text {k}", ["a", "b"]) for k in range(10)], ("text 1", ["a"]), ("text 2", ["b", "a"])]
    train = written(tmp_path / "train.jsonl", rows)
    validation = written(tmp_path / "validation.jsonl", [("other", ["a"])])
    found = {
        finding.check: finding for finding in check_splits(read_splits(train, validation, columns=LISTS))
    }
    assert found["conflicting_label"].count == 2 and found["duplicate"].count == 1


REFUSED = [
    (
        '{"text": "x", "label": ["a", "b"]}\n{"text": "y", "label": "a"}',
        LISTS,
        "row 2, column 'label': not a",
    ),
    (
        '{"text": "x", "label": ["a", "b"]}\n{"text": "y", "label": null}',
        LISTS,
        "row 2, column 'label': no li",
    ),
    ('{"text": "x", "label": ["a", " "]}', LISTS, "row 1, column 'label': an empty name"),
    ('{"text": "x", "label": ["a", 0.5]}', LISTS, "row 1, column 'label': 0.5 is neither"),
    ('{"text": "x", "label": ["a"]}', LISTS, "the only label is 'a'"),
    ('{"text": "x", "label": []}', LISTS, "no row has a label"),
    ('{"text": "x", "label": ["a", "b"]}', ColumnNames(), "give multi_label where rows have several labels"),
    (
        '{"text": "x", "a": 1, "b": 2}',
        ColumnNames(label_columns=("a", "b")),
        "row 1, column 'b': a label is 0",
    ),
    (
        '{"text": "x", "a": 1, "b": null}',
        ColumnNames(label_columns=("a", "b")),
        "row 1, column 'b': no value",
    ),
    ('{"text": "x", "a": 0, "b": 0}', ColumnNames(label_columns=("a", "b")), "no row has a label"),
    ('{"text": "x", "a": 1}', ColumnNames(label_columns=("a", "b")), "no column 'b'"),
    ('{"text": "x", "choices": ["p", "q"], "label": ["a", "b"]}', LISTS, "multiple choice"),
]


@pytest.mark.parametrize(("content", "columns", "problem"), REFUSED, ids=[case[2] for case in REFUSED])
def test_what_cannot_be_read_is_named_in_one_line(tmp_path, content, columns, problem):
    file = tmp_path / "a.jsonl"
    file.write_text(content + "\n")
    with pytest.raises(UserError) as caught:
        read_rows(file, "train", columns)
    assert problem in str(caught.value)


def test_an_unknown_label_and_other_columns_are_refused(tmp_path):
    file = written(tmp_path / "a.jsonl")
    with pytest.raises(UserError, match="row 1, column 'label': the label 'film' does not occur in training"):
        read_rows(file, "test", LISTS, ("anger", "joy"))
    with pytest.raises(UserError, match="exclude each other"):
        ColumnNames(label_columns=("a", "b"), label_separator=";")
