"""Findings about the data, each against rows in which the answer can be seen."""

from __future__ import annotations

import time

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from calmix.data import checks
from calmix.data.duplicates import first_places, repeated
from calmix.data.rows import Rows
from calmix.data.splits import Splits


def make(texts: list[str], labels: list[int] | None = None, prefix: str = "train", **columns) -> Rows:
    return Rows.from_columns(
        [f"{prefix}-{n}" for n in range(1, len(texts) + 1)],
        texts,
        labels=[0] * len(texts) if labels is None else labels,
        label_names=("neg", "pos"),
        **columns,
    )


def test_test_rows_that_stand_in_training():
    train = make(["A good film", "bad", "fine"])
    test = make(["new", "a  GOOD\tfilm ", "bad", "bad"], prefix="test")
    (finding,) = checks.shared_with_training(train, test, "test")
    assert (finding.severity, finding.split, finding.count) == ("warning", "test", 3)
    assert finding.message == "3 of 4 rows (75.0 %) also appear in the training set (case and blanks aside)"
    assert checks.shared_with_training(train, make(["new"]), "test") == []


def test_validation_rows_that_stand_in_a_test_set():
    train = make([f"train {n}" for n in range(300)], labels=[n % 2 for n in range(300)])
    validation = make([f"validation {n}" for n in range(200)], prefix="validation")
    test = make(["Validation 7", "new"], prefix="test")
    (finding,) = checks.check_splits(Splits(train, validation, {"far": make(["x"]), "test": test}, False))
    assert str(finding) == ("warning: validation: 1 of 200 rows (0.5 %) also appear in the test set 'test'")


def test_both_texts_of_a_pair_count():
    train = make(["a", "a"], pairs=["b", "c"])
    test = make(["a", "a", "b"], pairs=["B", "d", "a"], prefix="test")
    (finding,) = checks.shared_with_training(train, test, "test")
    assert finding.count == 1


def test_the_order_of_choices_does_not_count():
    train = make(["q"], choices=[["Yes", "no"]])
    test = make(["q", "q"], choices=[["no", "yes"], ["no", "maybe"]], prefix="test")
    (finding,) = checks.shared_with_training(train, test, "test")
    assert finding.count == 1


def test_conflicting_duplicates():
    train = make(["a", "b", "A ", "b", "c"], labels=[0, 1, 1, 1, 0])
    (finding,) = checks.conflicting_duplicates(train)
    assert finding.message == "2 of 5 rows (40.0 %) have the input of another row but a different label"


def test_a_question_with_its_choices_turned_round_conflicts_only_in_its_answer():
    choices = [["yes", "no"], ["no", "yes"], ["yes", "no"]]
    same_answer = make(["q", "q", "r"], labels=[0, 1, 0], choices=choices)
    assert checks.conflicting_duplicates(same_answer) == []
    other_answer = make(["q", "q", "r"], labels=[0, 0, 0], choices=choices)
    assert checks.conflicting_duplicates(other_answer)[0].count == 2


def test_exact_duplicates_leave_the_first_row_out():
    train = make(["a", "b", "a", "a", "b"], labels=[0, 1, 0, 1, 1])
    (finding,) = checks.exact_duplicates(train)
    assert (finding.severity, finding.count) == ("note", 2)
    assert checks.exact_duplicates(make(["a", "b"])) == []


@given(st.lists(st.tuples(st.sampled_from("abcA"), st.integers(0, 1)), min_size=1, max_size=12))
def test_duplicates_agree_with_a_slow_loop(pairs):
    texts, labels = [text for text, _ in pairs], [label for _, label in pairs]
    train = make(texts, labels=labels)
    folded = [(text.lower(), label) for text, label in pairs]
    repeats = sum(row in folded[:n] for n, row in enumerate(folded))
    conflicts = sum((text, 1 - label) in folded for text, label in folded)
    assert sum(finding.count for finding in checks.exact_duplicates(train)) == repeats
    assert sum(finding.count for finding in checks.conflicting_duplicates(train)) == conflicts


def test_small_validation():
    assert checks.small_validation(make(["a"] * 200)) == []
    (finding,) = checks.small_validation(make(["a"] * 199))
    assert (finding.count, finding.message) == (
        199,
        "only 199 rows; below 200 the temperature and the choice of the epoch are unreliable",
    )


def test_rare_classes():
    train = make(["a"] * 12, labels=[0] * 8 + [1] * 4)
    (finding,) = checks.rare_classes(train)
    assert (finding.count, finding.message) == (1, "fewer than 5 rows of: pos (4)")
    assert checks.rare_classes(make(["a"] * 10, labels=[0] * 5 + [1] * 5)) == []


def test_the_places_of_right_choices_are_no_classes():
    assert checks.rare_classes(make(["q"] * 3, choices=[["a", "b"]] * 3)) == []


def test_truncated_share():
    lengths = np.array([10, 128, 129, 500])
    finding = checks.truncated_share(lengths > 128, 128, "test")
    assert (finding.severity, finding.count) == ("warning", 2)
    assert str(finding) == (
        "warning: test: 2 of 4 rows (50.0 %) are longer than 128 tokens and are truncated"
    )
    assert checks.truncated_share([False] * 9 + [True], 128).severity == "note"
    assert checks.truncated_share([False], 128).count == 0


def test_all_checks_of_a_run():
    train = make(["a", "b", "a", "b", "c"], labels=[0, 1, 0, 0, 1])
    splits = Splits(train, make(["c"], prefix="validation"), {"far": make(["A"], prefix="far")}, False)
    found = [(finding.split, finding.count) for finding in checks.check_splits(splits)]
    assert found == [
        ("train", 2),
        ("train", 2),
        ("train", 1),
        ("validation", 1),
        ("validation", 1),
        ("far", 1),
    ]


def test_clean_data_give_no_findings():
    train = make([f"train {n}" for n in range(300)], labels=[n % 2 for n in range(300)])
    validation = make([f"validation {n}" for n in range(200)])
    assert checks.check_splits(Splits(train, validation, {}, False)) == []


def test_a_hundred_thousand_rows_are_checked_in_seconds():
    train = make([f"a sentence with a number {n} in it" for n in range(100_000)])
    test = make([f"A sentence with a number {n} in it" for n in range(50_000, 150_000)], prefix="test")
    start = time.process_time()
    found = checks.check_splits(Splits(train, test, {"test": test}, False))
    assert [finding.count for finding in found] == [1, 50_000, 50_000, 100_000]
    # About a second of the processor's time; the margin is for a slow one.
    assert time.process_time() - start < 8


def test_findings_name_their_rows_and_what_they_are_the_same_as():
    train = make(["a", "b", "A ", "b", "c"], labels=[0, 1, 1, 1, 0])
    (conflict,) = checks.conflicting_duplicates(train)
    assert conflict.rows == (("train-1", "train-3"), ("train-3", "train-1"))
    (repeat,) = checks.exact_duplicates(train)
    assert repeat.rows == (("train-4", "train-2"),)
    (shared,) = checks.shared_with_training(train, make(["new", "B"], prefix="test"), "test")
    assert shared.rows == (("test-2", "train-2"),)
    cut = checks.truncated_share([False, True], 128, "train", ["x", "y"])
    assert cut.rows == (("y", ""),)


def test_the_table_of_findings_has_a_line_for_every_row():
    train = make(["a", "a", "b"], labels=[0, 0, 1])
    findings = [*checks.exact_duplicates(train), *checks.small_validation(train)]
    table = checks.findings_table(findings).to_pylist()
    assert [(line["check"], line["row_id"], line["same_as"]) for line in table] == [
        ("duplicate", "train-2", "train-1"),
        ("small_validation", "", ""),
    ]
    assert checks.findings_table([]).num_rows == 0


def test_labels_that_differ_in_case_blanks_or_separators_are_pointed_out():
    names = ("Very good", "bad", "very  good", "very_good")
    rows = Rows.from_columns(
        [f"r{n}" for n in range(6)],
        list("abcdef"),
        labels=[0, 1, 0, 2, 3, 0],
        label_names=names,
    )
    (finding,) = checks.label_spellings(rows)
    assert finding.message == (
        "labels that differ only in spelling are classes of their own: "
        "'Very good' (3), 'very  good' (1), 'very_good' (1)"
    )
    assert finding.rows == (("r3", ""), ("r4", ""))
    assert checks.label_spellings(make(["a", "b"], labels=[0, 1])) == []


@given(st.lists(st.integers(0, 6), max_size=30), st.lists(st.integers(0, 9), max_size=10))
def test_repeated_and_first_places_are_those_of_a_dictionary(known, wanted):
    places = {}
    for position, key in enumerate(known):
        places.setdefault(key, []).append(position)
    keys = np.array([b"%d" % key for key in known], dtype="S16")
    others = np.array([b"%d" % key for key in wanted], dtype="S16")
    assert repeated(keys) == [group for group in places.values() if len(group) > 1]
    assert first_places(others, keys).tolist() == [places.get(key, [-1])[0] for key in wanted]


def test_labels_that_look_alike_are_probably_one_class():
    names = ("01", "1", "caf\u00e9", "cafe\u0301", "no", "no\u200b")
    rows = Rows.from_columns(
        list("abcdef"), [f"text {n}" for n in range(6)], labels=list(range(6)), label_names=names
    )
    assert [finding.count for finding in checks.label_spellings(rows)] == [2, 2, 2]
