"""Published datasets, each on a few rows in the schema of its authors; what is missing says how to get it."""

import gzip
import struct

import numpy as np
import pytest
from PIL import Image

from calmix.data.checks import check_splits
from calmix.data.columns import ColumnNames
from calmix.data.images.stored import decode
from calmix.data.published.catalogue import arranged, published_datasets, published_table
from calmix.data.reading import read_rows
from calmix.data.splits import read_splits
from calmix.io.table import DataTable
from calmix.training.configuration import TrainConfig
from calmix.user_error import UserError
from published_sources import SOURCES

IMAGES = {
    "mnist": ((28, 28), ("1", "4")),
    "fashion_mnist": ((28, 28), ("1", "4")),
    "cifar10": ((32, 32, 3), ("automobile", "deer")),
    "cifar100": ((32, 32, 3), ("1", "4")),
    "stl10": ((96, 96, 3), ("airplane", "cat")),
}


def write(directory, files):
    for name, content in files.items():
        file = directory / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
    return directory


def test_every_dataset_is_tested_here():
    assert {*SOURCES, *IMAGES, "notmnist"} == set(published_datasets())


@pytest.mark.parametrize("name", SOURCES)
def test_the_rows_of_a_text_dataset_are_those_of_its_authors_files(name, tmp_path):
    files, expected, dropped = SOURCES[name]
    rows = read_rows(f"published:{name}@{write(tmp_path, files)}", "train")
    column = {"pair": "text_pair", "choice": "choices"}.get(rows.task)
    second = rows.table[column].to_pylist() if column else [None] * len(rows)
    labels = [rows.label_names[label] for label in rows.labels]
    assert list(zip(rows.table["text"].to_pylist(), second, labels, strict=True)) == expected
    assert rows.dropped == dropped


def image_files(name, pixels, labels):
    """uint8 [n, height, width(, 3)] in the format of a dataset."""
    if name in ("mnist", "fashion_mnist"):
        head = b"\x00\x00\x08"
        images = head + b"\x03" + struct.pack(">3I", *pixels.shape) + pixels.tobytes()
        classes = head + b"\x01" + struct.pack(">I", len(labels)) + bytes(labels)
        return {
            "train-images-idx3-ubyte.gz": gzip.compress(images),
            "train-labels-idx1-ubyte.gz": gzip.compress(classes),
        }
    if name == "stl10":
        return {"train_X.bin": pixels.transpose(0, 3, 2, 1).tobytes(), "train_y.bin": bytes(labels)}
    before = [bytes([label]) if name == "cifar10" else bytes([7, label]) for label in labels]
    records = [b + image.transpose(2, 0, 1).tobytes() for b, image in zip(before, pixels, strict=True)]
    if name == "cifar100":
        return {"train.bin": b"".join(records)}
    more = {f"data_batch_{number}.bin": records[-1] for number in range(2, 6)}
    return {"data_batch_1.bin": b"".join(records), **more}


@pytest.mark.parametrize("name", IMAGES)
def test_the_images_of_a_dataset_are_those_of_its_authors_files(name, tmp_path):
    shape, (first, second) = IMAGES[name]
    pixels = np.random.default_rng(0).integers(0, 256, (3, *shape), dtype=np.uint8)
    source = f"published:{name}@{write(tmp_path, image_files(name, pixels, [1, 4, 1]))}"
    stored = published_table(source, "train").read_column("image")
    rows = read_rows(source, "train")
    assert [rows.label_names[label] for label in rows.labels[:3]] == [first, second, first]
    for one, image in zip(stored[:3], pixels, strict=True):
        found = np.asarray(decode(one))
        np.testing.assert_array_equal(found if found.ndim == image.ndim else found[..., 0], image)


def test_notmnist_is_a_folder_of_images_per_class(tmp_path):
    for name in ("A", "B"):
        (tmp_path / "notMNIST_small" / name).mkdir(parents=True)
        Image.new("L", (28, 28), 9).save(tmp_path / "notMNIST_small" / name / "x.png")
    rows = read_rows(f"published:notmnist@{tmp_path}", "test")
    assert rows.label_names == ("A", "B") and rows.task == "image"


def test_the_columns_of_the_hub_are_known_too():
    """The hub writes -1 for a missing label, which comes as None, and classes by their names."""
    columns = {"premise": ["a", "b"], "hypothesis": ["c", "d"], "label": ["neutral", None]}
    table = DataTable("hub", tuple(columns), 2, columns.__getitem__)
    made = arranged(table, published_datasets()["snli"])
    assert made.names == ("text", "text_pair", "label")
    assert made.read_column("text_pair") == ["c", "d"]


def test_of_several_emotions_the_same_one_is_drawn_everywhere(tmp_path):
    content = "".join(f"text {number}\t2,17\t{number}\n" for number in range(40)).encode()
    places = [write(tmp_path / name, {"train.tsv": content}) for name in ("a", "b")]
    first, second = (read_rows(f"published:goemotions@{place}", "train") for place in places)
    assert first.labels.tolist() == second.labels.tolist()
    assert 5 < first.labels.sum() < 35  # both are drawn


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("published:snil", "did you mean published:snli"),
        ("published:xyzzy", "there are: snli"),
        ("published:meld", "meld is not on the hub.*published:meld@DIRECTORY"),
        ("published:snli@EMPTY", r"no train file of snli.*put snli_1.0_train.jsonl there"),
        ("published:snli@NOWHERE", "no such directory"),
        ("published:snli/dev@EMPTY", "no split 'dev'.*train, validation, test"),
        ("published:mnist@EMPTY", "train-images-idx3-ubyte and train-labels-idx1-ubyte"),
        ("published:imdb@EMPTY", "unpack the authors' archive there: train/"),
    ],
)
def test_what_is_not_there_says_how_to_get_it(source, message, tmp_path):
    (tmp_path / "empty").mkdir()
    source = source.replace("EMPTY", str(tmp_path / "empty")).replace("NOWHERE", str(tmp_path / "nowhere"))
    with pytest.raises(UserError, match=message):
        read_rows(source, "train")


@pytest.mark.parametrize(
    ("name", "files", "message"),
    [
        ("yelp", {"train.csv": b'"3","text"\n'}, "no label map knows the label '3'"),
        ("yelp", {"train.csv": b'"1","a","b"\n'}, "3 columns where the source has 2"),
        ("mnist", {"train-images-idx3-ubyte": b"x" * 30, "train-labels-idx1-ubyte": b"y"}, "not an idx file"),
        ("cifar100", {"train.bin": b"x" * 100}, "not records of 3074 bytes"),
        ("trec", {"train_5500.label": b"what\n"}, "not a row of this dataset"),
    ],
)
def test_files_that_are_something_else_are_refused(name, files, message, tmp_path):
    with pytest.raises(UserError, match=message):
        read_rows(f"published:{name}@{write(tmp_path, files)}", "train")


@pytest.mark.parametrize("given", [{"0": True}, {"": "a"}, {"a": None}, ["0=a"]])
def test_a_label_map_is_one_of_names(given):
    with pytest.raises(UserError, match="label_map"):
        TrainConfig(train="a.csv", output="out", label_map=given)


def test_a_label_map_and_rows_without_a_label_are_for_any_file(tmp_path):
    file = tmp_path / "train.csv"
    file.write_text("text,label\n" + "".join(f"row {i},{i % 3 - 1}\n" for i in range(30)) + "last,\n")
    columns = ColumnNames().with_labels({"0": "bad", "1": "good"}, drop_unlabelled=True)
    splits = read_splits(str(file), columns=columns)
    assert splits.train.label_names == ("bad", "good")
    assert len(splits.train) + len(splits.validation) == 20
    (finding,) = [found for found in check_splits(splits) if found.check == "unlabelled"]
    assert finding.count == 11 and finding.split == "train"
    without = ColumnNames().with_labels({"0": "bad", "1": "good"}, drop_unlabelled=False)
    with pytest.raises(UserError, match="no label map knows the label '-1'"):
        read_splits(str(file), columns=without)
    empty = tmp_path / "empty.csv"
    empty.write_text("text,label\na,\nb,-1\n")
    with pytest.raises(UserError, match="no row has a label"):
        read_rows(str(empty), columns=columns)
