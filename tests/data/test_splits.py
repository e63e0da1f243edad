"""The files of a run: one task, one label set, names for the tests, validation split off if none is given."""

from __future__ import annotations

import pytest

from calmix.data.columns import ColumnNames
from calmix.data.splits import name_tests, read_splits, split_test_argument
from calmix.user_error import UserError


def csv(count: int = 20, labels: tuple[str, ...] = ("neg", "pos")) -> str:
    rows = (f"text {n},{labels[n % len(labels)]}\n" for n in range(count))
    return "text,label\n" + "".join(rows)


def message(*arguments, **options) -> str:
    with pytest.raises(UserError) as caught:
        read_splits(*arguments, **options)
    return caught.value.on_command_line


def test_a_stratified_tenth_is_split_off_without_validation(write):
    splits = read_splits(write("train.csv", csv(40)))
    assert splits.validation_was_split
    assert splits.validation.label_counts.tolist() == [2, 2]
    assert splits.train.label_counts.tolist() == [18, 18]
    assert {row_id.split("-")[0] for row_id in splits.validation.row_ids} == {"train"}
    assert splits.tests == {}


def test_the_seed_draws_the_split(write):
    name = write("train.csv", csv(40))
    parts = [tuple(read_splits(name, seed=seed).validation.row_ids) for seed in (0, 0, 1)]
    assert parts[0] == parts[1] != parts[2]


def test_given_files_are_read_with_the_labels_of_training(write):
    splits = read_splits(
        write("train.csv", csv()),
        write("validation.csv", "text,label\na,pos\n"),
        [write("test.csv", "text,label\na,pos\nb,neg\n"), "far=" + write("far.csv", "text,label\nc,pos\n")],
    )
    assert not splits.validation_was_split
    assert len(splits.train) == 20
    assert splits.validation.labels.tolist() == [1]
    assert {name: rows.labels.tolist() for name, rows in splits.tests.items()} == {"test": [1, 0], "far": [1]}
    assert splits.tests["far"].row_ids.tolist() == ["far-1"]
    assert splits.tests["far"].label_names == ("neg", "pos")


def test_a_directory_brings_its_own_splits(write):
    write("reviews/train.jsonl", '{"text": "a", "label": "x"}\n{"text": "b", "label": "y"}\n')
    write("reviews/validation.csv", "text,label\nc,x\n")
    write("reviews/test.tsv", "text\tlabel\nd\ty\n")
    splits = read_splits("reviews")
    assert (splits.train.texts(), splits.validation.texts()) == (["a", "b"], ["c"])
    assert splits.tests["test"].texts() == ["d"]
    assert not splits.validation_was_split
    other = write("other.csv", "text,label\ne,x\n")
    explicit = read_splits("reviews", other, [other])
    assert (explicit.validation.texts(), explicit.tests["test"].texts()) == (["e"], ["e"])


def test_a_directory_given_as_test_gives_its_test_file(write):
    write("far/train.csv", csv())
    write("far/test.csv", "text,label\nd,neg\n")
    splits = read_splits(write("train.csv", csv()), tests=["books=far"])
    assert splits.tests["books"].row_ids.tolist() == ["books-1"]


def test_unknown_label_in_a_test_file(write):
    train = write("train.csv", csv())
    test = write("test.csv", "text,label\na,pos\nb,neutral\n")
    assert message(train, tests=[test]) == (
        "test.csv, row 2, column 'label': the label 'neutral' does not occur in training; "
        "the labels are: neg, pos"
    )
    assert message(train, test).startswith("test.csv, row 2, column 'label': the label 'neutral'")


def test_one_class_only(write):
    assert message(write("train.csv", csv(labels=("pos",)))) == (
        "train.csv, column 'label': every row has the label 'pos'; training needs at least two classes"
    )


def test_the_right_answer_may_always_stand_first(write):
    rows = [f'{{"text": "q{n}", "choices": ["right", "wrong"], "label": 0}}\n' for n in range(20)]
    splits = read_splits(write("train.jsonl", "".join(rows)))
    assert splits.train.label_names == ("0", "1")
    assert (len(splits.train), len(splits.validation)) == (18, 2)


def test_task_kinds_must_agree(write):
    train = write("train.csv", "text,text_pair,label\na,b,0\nc,d,1\n")
    test = write("test.csv", csv())
    assert message(train, tests=[test]).startswith("test.csv: no column 'text_pair'")
    assert message(test, tests=[train]).startswith("train.csv: text pairs where single texts are expected")


def test_too_few_rows_to_split(write):
    assert message(write("train.csv", csv(2))) == (
        "train.csv: too few different rows to split validation rows off; "
        "give more rows or a --validation file"
    )


def test_equal_rows_cannot_be_split(write):
    assert "too few different rows" in message(write("train.csv", "text,label\n" + "q,0\nr,1\n" * 20))


def test_column_names_hold_for_all_files(write):
    columns = ColumnNames(text="review", label="stars")
    content = "review,stars\na,5\nb,1\n"
    splits = read_splits(
        write("train.csv", content), write("v.csv", content), [write("t.csv", content)], columns
    )
    assert splits.train.label_names == ("1", "5")
    assert splits.tests["test"].texts() == ["a", "b"]


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        ([], []),
        (["a.csv"], ["test"]),
        (["a.csv", "b.csv.gz", "dir/c"], ["test", "b", "c"]),
        (["x=a.csv", "b.csv", "c.csv"], ["x", "test", "c"]),
        (["a.csv", "test=b.csv"], ["a", "test"]),
        (["a.csv", "p/test.csv", "q/test.csv"], ["test", "test-2", "test-3"]),
        (["a.csv", "train.csv", "validation.csv"], ["test", "train-2", "validation-2"]),
        (["a.csv", "my file (1).csv"], ["test", "my-file-1-"]),
        (["a.csv", "B.csv", "b=c.csv"], ["test", "B-2", "b"]),
    ],
)
def test_names_of_tests(arguments, names):
    assert list(name_tests(arguments)) == names


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["x=a.csv", "x=b.csv"], "two test sets are named 'x'; give each its own NAME=PATH"),
        (["x=a.csv", "X=b.csv"], "two test sets are named 'X'; give each its own NAME=PATH"),
        (["train=a.csv"], "a test set cannot be named 'train'; that name is taken; choose another"),
        (["Validation=a.csv"], "a test set cannot be named 'Validation'; that name is taken; choose another"),
        (["x="], "no path after 'x='; give NAME=PATH"),
    ],
)
def test_names_that_cannot_be(arguments, expected):
    with pytest.raises(UserError) as caught:
        name_tests(arguments)
    assert caught.value.on_command_line == expected


def test_an_equals_sign_in_a_path(write):
    existing = write("lr=0.1.csv", csv())
    assert split_test_argument(existing) == (None, existing)
    assert split_test_argument("x=lr=0.1.csv") == ("x", "lr=0.1.csv")
    assert split_test_argument("C:\\runs\\lr=0.1.csv") == (None, "C:\\runs\\lr=0.1.csv")
    assert split_test_argument("./lr=0.2.csv") == (None, "./lr=0.2.csv")
    with pytest.raises(UserError, match="cannot be named 'my test'; use letters, digits"):
        split_test_argument("my test=lr=0.1.csv")
