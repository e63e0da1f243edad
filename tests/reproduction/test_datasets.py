"""Where the rows of a task come from: calmix's files, the authors' own, samples and halves of them."""

import json

import pytest

from calmix.data.sources import read_source
from calmix.reproduction.datasets import datasets, sample, task_files
from calmix.reproduction.preset import Scale, Task
from calmix.user_error import UserError

TASK = Task("snli", "SNLI", "snli", {"hellaswag": "hellaswag"})


def write(file, rows):
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))


def snli(count, **more):
    """Rows as the authors publish them; every fifth has no gold label."""
    labels = ("entailment", "neutral", "contradiction", "neutral", "-")
    return [
        {"sentence1": f"premise {n}", "sentence2": f"hypothesis {n}", "gold_label": labels[n % 5], **more}
        for n in range(count)
    ]


@pytest.fixture
def data(tmp_path):
    for name, count in (("train", 50), ("dev", 20), ("test", 30)):
        write(tmp_path / "data" / "snli" / f"snli_1.0_{name}.jsonl", snli(count))
    choices = [
        {"ctx": f"context {n}", "endings": [f"{n} a", f"{n} b", f"{n} c", f"{n} d"], "label": n % 4}
        for n in range(21)
    ]
    write(tmp_path / "data" / "hellaswag" / "hellaswag_train.jsonl", choices)
    write(tmp_path / "data" / "hellaswag" / "hellaswag_val.jsonl", choices)
    return tmp_path / "data"


def values(source, split, column):
    return list(read_source(source, split).column(column, column))


def test_the_authors_own_files_are_read_with_their_labels(data, tmp_path):
    found = task_files(TASK, Scale("full", (0,)), data, tmp_path / "copies")
    assert set(values(found.train, "train", "label")) == {"entailment", "neutral", "contradiction"}
    assert len(values(found.train, "train", "text")) == 40
    assert len(values(found.tests["snli"], "test", "text_pair")) == 24


def test_half_of_the_validation_rows_are_test_rows_where_there_are_none(data, tmp_path):
    task = Task("hellaswag", "HellaSWAG", "hellaswag")
    found = task_files(task, Scale("full", (0,)), data, tmp_path / "copies")
    validation = values(found.validation, "validation", "text")
    test = values(found.tests["hellaswag"], "test", "text")
    assert (len(validation), len(test)) == (10, 11)
    assert not set(validation) & set(test)
    # Out of domain it is the same half.
    other = task_files(TASK, Scale("full", (0,)), data, tmp_path / "copies")
    assert values(other.tests["hellaswag"], "test", "text") == test


def test_caps_draw_a_sample_that_stays_the_same(data, tmp_path):
    scale = Scale("small", (0,), validation_rows=5, test_rows=7)
    first = task_files(TASK, scale, data, tmp_path / "a")
    second = task_files(TASK, scale, data, tmp_path / "b")
    for split, one, other, rows in (
        ("validation", first.validation, second.validation, 5),
        ("test", first.tests["snli"], second.tests["snli"], 7),
        ("test", first.tests["hellaswag"], second.tests["hellaswag"], 7),
    ):
        texts = values(one, split, "text")
        assert len(texts) == rows
        assert texts == values(other, split, "text")
        assert one != other


def test_validation_rows_come_from_training_where_there_are_none(tmp_path):
    for split, count in (("train", 40), ("test", 10)):
        rows = [{"text": f"{split} {n}", "label": n % 2} for n in range(count)]
        write(tmp_path / "data" / "mr" / f"{split}.jsonl", rows)
    scale = Scale("small", (0,), validation_rows=12)
    found = task_files(Task("mr", "MR", "mr"), scale, tmp_path / "data", tmp_path / "copies")
    train, validation = values(found.train, "train", "text"), values(found.validation, "validation", "text")
    assert (len(train), len(validation)) == (28, 12)
    assert not set(train) & set(validation)


def test_columns_that_are_not_read(tmp_path):
    for split in ("train", "validation", "test"):
        rows = [{"text": f"a {n}", "text_pair": f"b {n}", "label": n % 2} for n in range(6)]
        write(tmp_path / "data" / "mine" / f"{split}.jsonl", rows)
    task = Task("mine", "Mine", "mine", without=("text_pair",))
    found = task_files(task, Scale("small", (0,)), tmp_path / "data", tmp_path / "copies")
    for source in (found.train, found.validation, *found.tests.values()):
        assert read_source(source, "train").names == ("text", "label")


def test_without_a_directory_data_comes_from_the_hub(tmp_path):
    found = task_files(Task("snli", "SNLI", "snli", {"mnli": "mnli"}), Scale("full", (0,)), None, tmp_path)
    assert (found.train, found.validation) == ("published:snli/train", "published:snli/validation")
    assert found.tests == {"snli": "published:snli/test", "mnli": "published:mnli/test"}


def test_what_is_not_on_the_hub_is_said(tmp_path):
    task = Task("epitome", "EPITOME", "epitome_emotional_reactions")
    with pytest.raises(UserError, match=r"on the hub; get it .* and give data_dir=DIR"):
        task_files(task, Scale("full", (0,)), None, tmp_path)


def test_samples_are_without_replacement_and_in_order():
    drawn = sample(100, 30, "x")
    assert drawn == sorted(set(drawn))
    assert len(drawn) == 30


def test_every_data_set_says_where_it_can_be_had():
    assert all(dataset.source for dataset in datasets().values())


def test_a_file_that_changed_is_sampled_again(tmp_path):
    """The copy of a file of the same name would be that of the data before."""
    scale = Scale("small", (0,), validation_rows=4, test_rows=5)
    task = Task("mine", "Mine", "mine")

    def texts_of(word, count):
        for split in ("train", "validation", "test"):
            rows = [{"text": f"{word} {n}", "label": n % 2} for n in range(count)]
            write(tmp_path / "data" / "mine" / f"{split}.jsonl", rows)
        found = task_files(task, scale, tmp_path / "data", tmp_path / "copies")
        return [*values(found.validation, "validation", "text"), *values(found.tests["mine"], "test", "text")]

    assert {text.split()[0] for text in texts_of("old", 20)} == {"old"}
    assert {text.split()[0] for text in texts_of("newer", 30)} == {"newer"}
    assert texts_of("newer", 30) == texts_of("newer", 30)
