"""What is suspicious about the data of a run, found before training.

Nothing here stops a run: every function gives findings to print. Two inputs are the same if they agree
but for case and blanks; the choices of a question may stand in any order. Two images are the same if their
files are.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from calmix.data.image_sources import passed_over
from calmix.data.rows import Rows
from calmix.data.splits import Splits
from calmix.data.table import shorten

SMALL_VALIDATION = 200
RARE_CLASS = 5
MUCH_TRUNCATED = 0.1

Severity = Literal["note", "warning"]
InputKey = tuple[str, ...]


@dataclass(frozen=True)
class Finding:
    """One line about a split; `count` says how many rows, or classes, it is about."""

    severity: Severity
    split: str
    message: str
    count: int

    def __str__(self) -> str:
        return f"{self.severity}: {self.split}: {self.message}"


def check_splits(splits: Splits) -> list[Finding]:
    """All findings about the rows of a run; truncation is known only after tokenising."""
    others: Mapping[str, Rows] = {"validation": splits.validation, **splits.tests}
    train_keys = input_keys(splits.train)
    keys = {name: input_keys(rows) for name, rows in others.items()}
    found = [
        *rare_classes(splits.train),
        *conflicting_duplicates(splits.train, keys=train_keys),
        *exact_duplicates(splits.train, keys=train_keys),
        *small_validation(splits.validation),
    ]
    for name, rows in others.items():
        found += shared_with_training(splits.train, rows, name, train_keys=train_keys, keys=keys[name])
    for name in splits.tests:
        found += validation_in_test(keys["validation"], keys[name], name)
    for name, rows in with_sources(splits).items():
        found += files_passed_over(rows, name)
    return found


def with_sources(splits: Splits) -> dict[str, Rows]:
    """The splits that were read from somewhere: a validation set that was split off came with training."""
    own = {} if splits.validation_was_split else {"validation": splits.validation}
    return {"train": splits.train, **own, **splits.tests}


def input_keys(rows: Rows) -> list[InputKey]:
    """What makes two rows the same input.

    >>> one = Rows.from_columns(["a"], ["Good  film"], source="a.csv")
    >>> input_keys(one)
    [('good film',)]
    """
    if rows.task == "image":
        return [(digest,) for digest in rows.digests()]
    texts = [fold(text) for text in rows.texts()]
    if rows.task == "pair":
        return list(zip(texts, map(fold, rows.pairs()), strict=True))
    if rows.task == "choice":
        return [
            (text, *sorted(map(fold, choices))) for text, choices in zip(texts, rows.choices(), strict=True)
        ]
    return [(text,) for text in texts]


def fold(text: str) -> str:
    """A text without its case and with single blanks.

    >>> fold(" A  Film\\n")
    'a film'
    """
    return " ".join(text.casefold().split())


def shared_with_training(
    train: Rows,
    other: Rows,
    split: str,
    *,
    train_keys: Sequence[InputKey] | None = None,
    keys: Sequence[InputKey] | None = None,
) -> list[Finding]:
    """Rows whose input also stands in training: a result on them says nothing about new data."""
    seen = set(input_keys(train) if train_keys is None else train_keys)
    own = input_keys(other) if keys is None else keys
    shared = sum(key in seen for key in own)
    if not shared:
        return []
    aside = "" if other.task == "image" else " (case and blanks aside)"
    message = f"{_share(shared, len(other))} also stand in training{aside}"
    return [Finding("warning", split, message, shared)]


def validation_in_test(keys: Sequence[InputKey], test_keys: Sequence[InputKey], test: str) -> list[Finding]:
    """Validation rows that a test set holds too: the epoch and the temperature were then chosen by it."""
    tested = set(test_keys)
    shared = sum(key in tested for key in keys)
    if not shared:
        return []
    message = f"{_share(shared, len(keys))} also stand in the test set {test!r}"
    return [Finding("warning", "validation", message, shared)]


def files_passed_over(rows: Rows, split: str) -> list[Finding]:
    """Files in a folder of images that are no row of it: of another kind, or in a folder too deep."""
    folder = Path(rows.source)
    if rows.task != "image" or not folder.is_dir():
        return []
    files = passed_over(folder)
    if not files:
        return []
    noun = "file was" if len(files) == 1 else "files were"
    message = f"{len(files)} {noun} passed over, not being images of a class, such as {shorten(files[0])}"
    return [Finding("warning", split, message, len(files))]


def conflicting_duplicates(
    train: Rows, split: str = "train", *, keys: Sequence[InputKey] | None = None
) -> list[Finding]:
    """Rows with one input and different labels: at least one of them is wrong, or the task is ambiguous."""
    answers = _answers(train)
    conflicting = [
        position
        for positions in _repeated(input_keys(train) if keys is None else keys)
        if len({answers[position] for position in positions}) > 1
        for position in positions
    ]
    if not conflicting:
        return []
    message = f"{_share(len(conflicting), len(train))} have the input of another row but a different label"
    return [Finding("warning", split, message, len(conflicting))]


def exact_duplicates(
    train: Rows, split: str = "train", *, keys: Sequence[InputKey] | None = None
) -> list[Finding]:
    """Rows that repeat the input and the label of an earlier row; the first of them is not counted."""
    answers = _answers(train)
    repeats = []
    for positions in _repeated(input_keys(train) if keys is None else keys):
        seen: set[str] = set()
        for position in positions:
            if answers[position] in seen:
                repeats.append(position)
            seen.add(answers[position])
    if not repeats:
        return []
    message = f"{_share(len(repeats), len(train))} repeat an earlier row"
    return [Finding("note", split, message, len(repeats))]


def small_validation(validation: Rows, split: str = "validation") -> list[Finding]:
    """A validation set too small to choose an epoch and fit a temperature on."""
    if len(validation) >= SMALL_VALIDATION:
        return []
    message = (
        f"only {len(validation)} rows; below {SMALL_VALIDATION} the temperature and the choice of the epoch "
        "are unsure"
    )
    return [Finding("warning", split, message, len(validation))]


def rare_classes(train: Rows, split: str = "train") -> list[Finding]:
    """Classes with too few rows to be learnt. A choice has no class of its own, only a place."""
    if train.task == "choice":
        return []
    counts = train.label_counts
    rare = np.flatnonzero(counts < RARE_CLASS)
    if not rare.size:
        return []
    listed = ", ".join(f"{shorten(train.label_names[index])} ({counts[index]})" for index in rare[:10])
    more = f" and {rare.size - 10} more" if rare.size > 10 else ""
    message = f"fewer than {RARE_CLASS} rows of: {listed}{more}"
    return [Finding("warning", split, message, int(rare.size))]


def truncated_share(truncated: ArrayLike, max_length: int, split: str = "train") -> Finding:
    """How many rows lose their end; `truncated` says it for every row.

    >>> print(truncated_share([True, False, False, False], 128))
    warning: train: 1 of 4 rows (25.0 %) are longer than 128 tokens and lose their end
    """
    cut, total = int(np.count_nonzero(truncated)), int(np.size(truncated))
    severity: Severity = "warning" if cut > MUCH_TRUNCATED * total else "note"
    message = f"{_share(cut, total)} are longer than {max_length} tokens and lose their end"
    return Finding(severity, split, message, cut)


def _answers(rows: Rows) -> list[str]:
    """What the label of a row says: its class, or the text of the right choice."""
    labels = rows.labels.tolist()
    if rows.task == "choice":
        return [fold(choices[label]) for choices, label in zip(rows.choices(), labels, strict=True)]
    return [rows.label_names[label] for label in labels]


def _repeated(keys: Sequence[InputKey]) -> list[list[int]]:
    """The positions of every key that occurs more than once."""
    positions: defaultdict[InputKey, list[int]] = defaultdict(list)
    for position, key in enumerate(keys):
        positions[key].append(position)
    return [group for group in positions.values() if len(group) > 1]


def _share(count: int, total: int) -> str:
    """
    >>> _share(3, 200)
    '3 of 200 rows (1.5 %)'
    """
    return f"{count} of {total} rows ({100 * count / max(total, 1):.1f} %)"
