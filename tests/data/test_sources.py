"""Files, directories of splits and hub names are told apart without asking anybody."""

from __future__ import annotations

from pathlib import Path

import pytest

from calmix.data.sources import has_split, is_hub_name, read_source
from calmix.user_error import UserError


def message(source) -> str:
    with pytest.raises(UserError) as caught:
        read_source(source, "train")
    return str(caught.value)


@pytest.mark.parametrize("name", ["imdb", "stanfordnlp/imdb", "nyu-mll/glue:sst2", "rajpurkar/squad-2.0"])
def test_hub_names(name):
    assert is_hub_name(name)


@pytest.mark.parametrize(
    "name",
    [
        "a.csv",
        "dir/a.jsonl.gz",
        "a.txt",
        "dir/a.xlsx",
        "./imdb",
        "../imdb",
        "/imdb",
        "a/b/c",
        "a b",
        "",
        Path("x"),
    ],
)
def test_what_can_only_be_a_file(name):
    assert not is_hub_name(name)


def test_what_is_on_disk_is_no_hub_name(write):
    write("imdb/train.csv", "text,label\na,0\n")
    assert not is_hub_name("imdb")
    assert read_source("imdb", "train").source == "imdb/train.csv"


def test_a_directory_without_the_split(write):
    write("reviews/training.csv", "text,label\na,0\n")
    write("reviews/README.md", "about")
    assert message("reviews") == (
        "reviews: no train file in this directory; it holds: README.md, training.csv; "
        "name it train with one of .csv .tsv .json .jsonl .parquet .npz, each also .gz; "
        "or one folder of images per class"
    )
    assert not has_split("reviews", "train")


def test_a_directory_with_the_split_twice(write):
    write("reviews/train.csv", "text,label\na,0\n")
    write("reviews/train.jsonl.gz", b"")
    assert message("reviews") == "reviews: several train files: train.csv, train.jsonl.gz; keep one of them"


def test_a_plain_file_brings_no_other_split(write):
    name = write("train.csv", "text,label\na,0\n")
    assert not has_split(name, "validation")
    assert read_source(name, "validation").row_count == 1


def test_a_missing_file(write):
    assert message("reviews/train.csv") == "reviews/train.csv: no such file; check the path"
    assert message(Path("reviews")) == "reviews: no such file; check the path"
