"""What is suspicious about the data of a run, found before training.

Nothing here stops a run: every function gives findings, to be printed before training begins and written with
their row ids to `RUN/data_checks.csv`.
"""

from __future__ import annotations

import unicodedata
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Literal

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray

from calmix.data.duplicates import InputKeys, first_places, input_keys, repeated, without_case
from calmix.data.images.sources import passed_over
from calmix.data.rows import Rows
from calmix.data.splits import Splits
from calmix.io.table import shorten

SMALL_VALIDATION = 200
RARE_CLASS = 5
MUCH_TRUNCATED = 0.1

Severity = Literal["note", "warning"]


@dataclass(frozen=True)
class Finding:
    """One line about a split; `count` says how many rows, or classes, it is about."""

    severity: Severity
    split: str
    message: str
    count: int
    check: str = ""
    """What was looked for, in one word."""
    rows: tuple[tuple[str, str], ...] = ()
    """(row id, id of the row it is the same as, or nothing)."""

    def __str__(self) -> str:
        return f"{self.severity}: {self.split}: {self.message}"


def check_splits(splits: Splits) -> list[Finding]:
    """All findings about the rows of a run; truncation is known only after tokenising."""
    others: Mapping[str, Rows] = {"validation": splits.validation, **splits.tests}
    train_keys = input_keys(splits.train)
    keys = {name: input_keys(rows) for name, rows in others.items()}
    found = [
        *label_spellings(splits.train),
        *rare_classes(splits.train),
        *conflicting_duplicates(splits.train, keys=train_keys),
        *exact_duplicates(splits.train, keys=train_keys),
        *small_validation(splits.validation),
    ]
    for name, rows in others.items():
        found += shared_with_training(splits.train, rows, name, train_keys=train_keys, keys=keys[name])
    for name, rows in splits.tests.items():
        found += validation_in_test(
            splits.validation, rows, name, keys=keys["validation"], test_keys=keys[name]
        )
    for name, rows in with_sources(splits).items():
        found += files_passed_over(rows, name)
        found += dropped_rows(rows, name)
    return found


def dropped_rows(rows: Rows, name: str) -> list[Finding]:
    """Rows without a label that were left out."""
    if not rows.dropped:
        return []
    message = f"{rows.dropped:,} rows without a label are left out"
    return [Finding("note", name, message, rows.dropped, "unlabelled")]


def findings_table(findings: Sequence[Finding]) -> pa.Table:
    """One line for every row that a finding is about, and one for a finding that is about no row."""
    lines = [
        {
            "check": finding.check,
            "severity": finding.severity,
            "split": finding.split,
            "row_id": row_id,
            "same_as": other,
            "message": finding.message,
        }
        for finding in findings
        for row_id, other in finding.rows or (("", ""),)
    ]
    names = ("check", "severity", "split", "row_id", "same_as", "message")
    return pa.table({name: pa.array([line[name] for line in lines], pa.string()) for name in names})


def with_sources(splits: Splits) -> dict[str, Rows]:
    """The splits that were read from somewhere: a validation set that was split off came with training."""
    own = {} if splits.validation_was_split else {"validation": splits.validation}
    return {"train": splits.train, **own, **splits.tests}


def shared_with_training(
    train: Rows,
    other: Rows,
    split: str,
    *,
    train_keys: InputKeys | None = None,
    keys: InputKeys | None = None,
) -> list[Finding]:
    """Rows whose input also appears in the training set: a result on them says nothing about new data."""
    rows = _same_as(other, keys, train, train_keys)
    if not rows:
        return []
    aside = "" if other.task == "image" else " (case and blanks aside)"
    message = f"{_share(len(rows), len(other))} also appear in the training set{aside}"
    return [Finding("warning", split, message, len(rows), "in_training", rows)]


def _same_as(
    rows: Rows, keys: InputKeys | None, others: Rows, other_keys: InputKeys | None
) -> tuple[tuple[str, str], ...]:
    """The rows whose input is among others, each with the first of those."""
    found = first_places(
        input_keys(rows) if keys is None else keys, input_keys(others) if other_keys is None else other_keys
    )
    shared = np.flatnonzero(found >= 0)
    return tuple(zip(rows.ids_at(shared), others.ids_at(found[shared]), strict=True))


def validation_in_test(
    validation: Rows,
    tested: Rows,
    test: str,
    *,
    keys: InputKeys | None = None,
    test_keys: InputKeys | None = None,
) -> list[Finding]:
    """Validation rows that a test set holds too: the epoch and the temperature were then chosen by it."""
    rows = _same_as(validation, keys, tested, test_keys)
    if not rows:
        return []
    message = f"{_share(len(rows), len(validation))} also appear in the test set {test!r}"
    return [Finding("warning", "validation", message, len(rows), "in_test", rows)]


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
    return [Finding("warning", split, message, len(files), "passed_over")]


def _repeating(train: Rows, keys: InputKeys | None) -> tuple[Rows, list[list[int]]]:
    """The rows whose input occurs more than once, and which of them belong together."""
    groups = repeated(input_keys(train) if keys is None else keys)
    places = np.array([position for group in groups for position in group], dtype=np.int64)
    ends = np.cumsum([0, *map(len, groups)]).tolist()
    return train.select(places), [list(range(*one)) for one in pairwise(ends)]


def conflicting_duplicates(train: Rows, *, keys: InputKeys | None = None) -> list[Finding]:
    """Rows with one input and different labels: at least one of them is wrong, or the task is ambiguous."""
    repeating, groups = _repeating(train, keys)
    answers, ids = _answers(repeating), repeating.row_ids.tolist()
    rows = []
    for positions in groups:
        first = {answers[position]: position for position in reversed(positions)}
        if len(first) > 1:
            one, other = sorted(first.values())[:2]
            rows += [(ids[p], ids[other if answers[p] == answers[one] else one]) for p in positions]
    if not rows:
        return []
    message = f"{_share(len(rows), len(train))} have the input of another row but a different label"
    return [Finding("warning", "train", message, len(rows), "conflicting_label", tuple(rows))]


def exact_duplicates(train: Rows, *, keys: InputKeys | None = None) -> list[Finding]:
    """Rows that repeat the input and the label of an earlier row; the first of them is not counted."""
    repeating, groups = _repeating(train, keys)
    answers, ids = _answers(repeating), repeating.row_ids.tolist()
    rows = []
    for positions in groups:
        first: dict[str, str] = {}
        for position in positions:
            if answers[position] in first:
                rows.append((ids[position], first[answers[position]]))
            first.setdefault(answers[position], ids[position])
    if not rows:
        return []
    message = f"{_share(len(rows), len(train))} repeat an earlier row"
    return [Finding("note", "train", message, len(rows), "duplicate", tuple(rows))]


def small_validation(validation: Rows) -> list[Finding]:
    """A validation set too small to choose an epoch and fit a temperature on."""
    if len(validation) >= SMALL_VALIDATION:
        return []
    message = (
        f"only {len(validation)} rows; below {SMALL_VALIDATION} the temperature and the choice of the epoch "
        "are unreliable"
    )
    return [Finding("warning", "validation", message, len(validation), "small_validation")]


def rare_classes(train: Rows) -> list[Finding]:
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
    return [
        Finding("warning", "train", message, int(rare.size), "rare_class", _rows_with(train, rare.tolist()))
    ]


def label_spellings(train: Rows) -> list[Finding]:
    """Classes whose names differ by case, blanks, separators, the spelling of a number or what nobody sees
    alone: probably one class.

    The rows of the rarer spellings are named; the commonest is taken for the right one.
    """
    if train.task == "choice":
        return []
    spellings: defaultdict[str, list[int]] = defaultdict(list)
    for index, name in enumerate(train.label_names):
        spellings[_plain_spelling(name)].append(index)
    counts = train.label_counts
    found = []
    for indices in spellings.values():
        if len(indices) < 2:
            continue
        ordered = sorted(indices, key=lambda index: -int(counts[index]))
        listed = ", ".join(f"{shorten(train.label_names[index])!r} ({counts[index]})" for index in ordered)
        rows = _rows_with(train, ordered[1:])
        message = f"labels that differ only in spelling are classes of their own: {listed}"
        found.append(Finding("warning", "train", message, len(indices), "label_spelling", rows))
    return found


def _plain_spelling(name: str) -> str:
    """
    >>> {_plain_spelling(name) for name in ("caf\u00e9", "Cafe\u0301", "caf\u00e9\u200b")} == {"caf\u00e9"}
    True
    >>> _plain_spelling("not_sure"), _plain_spelling("Not sure"), _plain_spelling("01"), _plain_spelling("1")
    ('not sure', 'not sure', '1.0', '1.0')
    """
    try:
        return str(float(name))
    except ValueError:
        pass
    # Letters made of two characters as one, and without characters that have no width.
    letters = unicodedata.normalize("NFKC", name)
    seen = "".join(one for one in letters if unicodedata.category(one) not in ("Cf", "Cc"))
    return " ".join(without_case(seen).replace("_", " ").replace("-", " ").split())


def truncated_share(
    truncated: ArrayLike,
    max_length: int,
    split: str = "train",
    row_ids: Sequence[str] | NDArray[np.str_] | None = None,
) -> Finding:
    """How many rows lose their end; `truncated` says it for every row.

    >>> print(truncated_share([True, False, False, False], 128))
    warning: train: 1 of 4 rows (25.0 %) are longer than 128 tokens and are truncated
    """
    cut, total = int(np.count_nonzero(truncated)), int(np.size(truncated))
    severity: Severity = "warning" if cut > MUCH_TRUNCATED * total else "note"
    message = f"{_share(cut, total)} are longer than {max_length} tokens and are truncated"
    rows = () if row_ids is None else tuple((str(row_ids[p]), "") for p in np.flatnonzero(truncated).tolist())
    return Finding(severity, split, message, cut, "truncated", rows)


def _rows_with(rows: Rows, classes: Sequence[int]) -> tuple[tuple[str, str], ...]:
    """The ids of the rows with one of these labels."""
    if rows.is_multi_label:
        found = np.array([bool(set(places) & set(classes)) for places in rows.label_sets], dtype=np.bool_)
    else:
        found = np.isin(rows.labels, classes)
    return tuple((str(row_id), "") for row_id in rows.row_ids[found])


def _answers(rows: Rows) -> list[str]:
    """What the label of a row says: its class, or the text of the right choice."""
    if rows.is_multi_label:
        return [" ".join(map(str, places)) for places in rows.label_sets]
    labels = rows.labels.tolist()
    if rows.task == "choice":
        return [without_case(choices[label]) for choices, label in zip(rows.choices(), labels, strict=True)]
    return [rows.label_names[label] for label in labels]


def _share(count: int, total: int) -> str:
    """
    >>> _share(3, 200)
    '3 of 200 rows (1.5 %)'
    """
    return f"{count} of {total} rows ({100 * count / max(total, 1):.1f} %)"
