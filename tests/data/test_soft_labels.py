"""Soft labels and weights from files: shares, ties, and what is refused."""

import json

import numpy as np
import pytest

from calmix.data.columns import ColumnNames
from calmix.data.reading import read_rows
from calmix.user_error import UserError

ANNOTATED = ColumnNames(annotations="votes")
COLUMNS = ColumnNames(label_probs=("label_prob_*",))


def write(path, rows):
    path.write_text("\n".join(json.dumps(row) for row in rows) + "\n")
    return path


def test_annotations_become_shares_and_ties_go_to_the_first_class(tmp_path):
    votes = [["yes", "no", "yes"], ["no", "yes"], ["no"], ["maybe", None, "yes", "yes", "yes"]]
    file = write(tmp_path / "a.jsonl", [{"text": "x", "votes": given} for given in votes])
    rows = read_rows(file, "train", ANNOTATED)
    assert rows.label_names == ("maybe", "no", "yes")
    assert rows.soft_labels == pytest.approx(
        np.array([[0, 1 / 3, 2 / 3], [0, 0.5, 0.5], [0, 1, 0], [0.25, 0, 0.75]])
    )
    assert rows.labels.tolist() == [2, 1, 1, 2]
    assert rows.select([3]).soft_labels.tolist() == [[0.25, 0, 0.75]]


def test_annotations_of_csv_are_lists_in_json(tmp_path):
    file = tmp_path / "a.csv"
    file.write_text('text,votes\nx,"[1, 0, 1]"\ny,"[""0""]"\n')
    rows = read_rows(file, "train", ANNOTATED)
    assert rows.label_names == ("0", "1")
    assert rows.soft_labels.tolist() == [[pytest.approx(1 / 3), pytest.approx(2 / 3)], [1, 0]]


def test_columns_of_probabilities_are_matched_by_class(tmp_path):
    train = tmp_path / "train.csv"
    train.write_text("text,label_prob_yes,label_prob_no\nx,0.8,0.2\ny,0.333,0.666\n")
    rows = read_rows(train, "train", COLUMNS)
    assert rows.label_names == ("no", "yes")
    assert rows.soft_labels[0].tolist() == [0.2, 0.8]
    assert rows.soft_labels.sum(axis=1) == pytest.approx(1, abs=1e-15)
    assert rows.labels.tolist() == [1, 0]


def test_a_test_file_may_have_hard_labels(tmp_path):
    file = tmp_path / "test.csv"
    file.write_text("text,label\nx,yes\n")
    rows = read_rows(file, "test", COLUMNS, ("no", "yes"))
    assert rows.soft_labels is None and rows.labels.tolist() == [1]
    with pytest.raises(UserError, match=r"label_prob_\*"):
        read_rows(file, "train", COLUMNS)


def test_weights_are_kept_and_are_part_of_the_fingerprint(tmp_path):
    file = tmp_path / "w.csv"
    file.write_text("text,label,w\nx,a,0\ny,b,2.5\n")
    rows = read_rows(file, "train", ColumnNames(weight="w"))
    plain = read_rows(file, "train", ColumnNames())
    assert rows.weights.tolist() == [0, 2.5] and plain.weights is None
    assert rows.fingerprint() != plain.fingerprint()
    assert rows.without_labels().fingerprint() == plain.without_labels().fingerprint()


@pytest.mark.parametrize(
    ("columns", "header", "cells", "message"),
    [
        (COLUMNS, "label_prob_a,label_prob_b", "0.5,0.2", "the probabilities of the classes sum to 0.7"),
        (COLUMNS, "label_prob_a,label_prob_b", "1.5,-0.5", "a probability must lie in [0, 1], not 1.5"),
        (COLUMNS, "label_prob_a,label_prob_b", "0.5,", "no value"),
        (COLUMNS, "label_prob_a,label_prob_b", "0.5,nan", "not a number: nan"),
        (COLUMNS, "label_prob_a", "1", "1 columns of probabilities; name one column for each class"),
        (ANNOTATED, "votes", "[]", "row 1, column 'votes': no annotations"),
        (ANNOTATED, "votes", "yes", "not a list: 'yes'"),
        (ANNOTATED, "votes", "[[1]]", "the annotation"),
        (ANNOTATED, "other", "1", "no column 'votes'"),
        (ColumnNames(weight="w"), "label,w", "a,-1", "row 1, column 'w': a negative weight, -1"),
        (ColumnNames(weight="w"), "label,w", "a,inf", "not a number: inf"),
        (ColumnNames(weight="w"), "label,w", "a,", "row 1, column 'w': no value"),
        (ColumnNames(weight="w"), "label,w", "a,0", "all weights are 0"),
        (ColumnNames(weight="v"), "label,w", "a,0", "no column 'v'"),
    ],
)  # fmt: skip
def test_what_makes_no_sense_is_refused_with_its_place(tmp_path, columns, header, cells, message):
    file = tmp_path / "bad.csv"
    file.write_text(f"text,{header}\nx,{cells}\n")
    with pytest.raises(UserError) as caught:
        read_rows(file, "train", columns)
    assert message in str(caught.value)


def test_an_unknown_annotation_of_another_file_is_named(tmp_path):
    file = write(tmp_path / "t.jsonl", [{"text": "x", "votes": ["maybe"]}])
    with pytest.raises(UserError, match="the annotation 'maybe' does not occur in training"):
        read_rows(file, "test", ANNOTATED, ("no", "yes"))


def test_both_kinds_of_soft_labels_are_refused():
    with pytest.raises(UserError, match="exclude each other"):
        ColumnNames(annotations="votes", label_probs=("p_*",))


def test_classes_that_are_numbers_have_one_spelling(tmp_path):
    file = tmp_path / "a.csv"
    file.write_text("text,p_1.0,p_0.0\nx,0.8,0.2\ny,0.3,0.7\n")
    rows = read_rows(file, "train", ColumnNames(label_probs=("p_*",)))
    assert rows.label_names == ("0", "1")
    assert rows.soft_labels[0].tolist() == pytest.approx([0.2, 0.8])


@pytest.mark.parametrize("wanted", [("label_prob_*", "yes"), ("label_prob_*", "p_*")])
def test_two_columns_for_one_class_are_refused(tmp_path, wanted):
    file = tmp_path / "a.csv"
    file.write_text("text,label_prob_yes,label_prob_no,yes,p_yes\nx,0.8,0.2,1,1\n")
    with pytest.raises(UserError, match="are both the probability of the class 'yes'"):
        read_rows(file, "train", ColumnNames(label_probs=wanted))


@pytest.mark.parametrize("value", ["1_0", "True", "inf", ""])
def test_what_is_no_number_in_a_file_is_no_weight(tmp_path, value):
    file = tmp_path / "a.csv"
    file.write_text(f"text,label,w\nx,a,1\ny,b,{value}\n")
    with pytest.raises(UserError, match=r"row 2, column 'w': (not a number|no value)"):
        read_rows(file, "train", ColumnNames(weight="w"))
