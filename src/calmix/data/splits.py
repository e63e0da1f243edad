"""The splits of a run: training, validation and any number of test sets, all of one task and label set."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from calmix.data.columns import ColumnNames
from calmix.data.labels import check_class_count
from calmix.data.reading import read_rows
from calmix.data.rows import Rows
from calmix.data.sampling import stratified_split
from calmix.data.sources import has_split
from calmix.io.formats import file_stem
from calmix.user_error import UserError, argument

# A name becomes part of file names and row ids.
SPLIT_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
RESERVED_NAMES = ("train", "validation")
# Of the training rows, where no validation rows are given.
VALIDATION_FRACTION = 0.1


@dataclass(frozen=True)
class Splits:
    """What a run trains on, is calibrated on and is tested on."""

    train: Rows
    validation: Rows
    tests: Mapping[str, Rows]
    validation_was_split: bool


def read_splits(
    train: str | Path,
    validation: str | Path | None = None,
    tests: Sequence[str] = (),
    columns: ColumnNames | None = None,
    seed: int = 0,
) -> Splits:
    """Read and check all files of a run.

    Where `train` is a directory or a hub name, its validation and test splits replace those that
    are not given. Without any validation data a stratified fraction of the training rows is split off.
    Every test is `[NAME=]PATH`.
    """
    columns = columns or ColumnNames()
    named_tests = name_tests(tests)
    train_rows = read_rows(train, "train", columns)
    if train_rows.task != "choice":
        # In multiple choice every row holds wrong answers too: a fixed place of the right one is no harm.
        check_class_count(train_rows.label_names, train_rows.source, columns.label)

    def read_other(source: str | Path, split: str, name: str) -> Rows:
        return read_rows(source, split, columns, train_rows.label_names, task=train_rows.task, name=name)

    if validation is None and has_split(train, "validation"):
        validation = train
    if not named_tests and has_split(train, "test"):
        named_tests = {"test": train}
    test_rows = {name: read_other(source, "test", name) for name, source in named_tests.items()}
    if validation is not None:
        return Splits(train_rows, read_other(validation, "validation", "validation"), test_rows, False)
    rest, part = stratified_split(train_rows, VALIDATION_FRACTION, seed)
    if not len(part):
        raise UserError(
            "too few different rows to split validation rows off",
            file=train_rows.source,
            remedy=f"give more rows or a {argument('validation')} file",
        )
    return Splits(rest, part, test_rows, True)


def name_tests(arguments: Sequence[str]) -> dict[str, str | Path]:
    """The tests by name, in their order. The first without a name is `test`, a further one its file's stem.

    >>> name_tests(["reviews.csv", "books=b.csv", "tweets.jsonl.gz"])
    {'test': 'reviews.csv', 'books': 'b.csv', 'tweets': 'tweets.jsonl.gz'}
    """
    parsed = [split_test_argument(str(argument)) for argument in arguments]
    taken: set[str] = set()
    for name, _ in parsed:
        if name is None:
            continue
        # Compared without case: both become files, and some file systems do not distinguish them.
        if name.lower() in taken:
            raise UserError(f"two test sets are named {name!r}", remedy="give each its own NAME=PATH")
        taken.add(name.lower())
    named: dict[str, str | Path] = {}
    for name, path in parsed:
        if name is None:
            name = "test" if "test" not in taken else _free_name(file_stem(path), taken)
            taken.add(name.lower())
        named[name] = path
    return named


def name_outside(arguments: Sequence[str], inside: str = "in") -> dict[str, str]:
    """Sets of other data by name; one without a name is called by its file's stem. None may be called as the
    in-domain set, `inside`, is.

    >>> name_outside(["letters=notmnist.npz", "noise/speckle.npz"])
    {'letters': 'notmnist.npz', 'speckle': 'noise/speckle.npz'}
    """
    named: dict[str, str] = {}
    for given in arguments:
        name, path = split_test_argument(given)
        name = file_stem(path) if name is None else name
        if name.lower() in {taken.lower() for taken in (*named, inside)}:
            raise UserError(f"two sets are named {name!r}", remedy="give each its own NAME=PATH")
        named[name] = path
    return named


def split_test_argument(argument: str) -> tuple[str | None, str]:
    """(name, path) of `[NAME=]PATH`. A path that exists is a path even if it holds a `=`.

    >>> split_test_argument("imdb=reviews/imdb.csv"), split_test_argument("runs/lr=0.1/out.csv")
    (('imdb', 'reviews/imdb.csv'), (None, 'runs/lr=0.1/out.csv'))
    """
    name, equals, path = argument.partition("=")
    if not equals or Path(argument).exists():
        return None, argument
    if not SPLIT_NAME.fullmatch(name):
        if not Path(path).exists():
            return None, argument
        raise UserError(
            f"a test set cannot be named {name!r}", remedy="use letters, digits, '-', '_' and '.'"
        )
    if name.lower() in RESERVED_NAMES:
        raise UserError(f"a test set cannot be named {name!r}", remedy="that name is taken; choose another")
    if not path:
        raise UserError(f"no path after '{name}='", remedy="give NAME=PATH")
    return name, path


def _free_name(stem: str, taken: set[str]) -> str:
    """A usable name made from a stem, with a number if it is taken."""
    base = re.sub(r"[^A-Za-z0-9_.-]+", "-", stem).lstrip("-.") or "test"
    name, number = base, 2
    while name.lower() in taken or name.lower() in RESERVED_NAMES:
        name, number = f"{base}-{number}", number + 1
    return name
