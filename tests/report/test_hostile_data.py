"""Data that somebody else made, through every verb: its texts, labels and file names stay text.

A browser opens every page that was written and counts the scripts that ran. Nothing that a terminal would
obey is printed, and no cell of a csv file for people is a formula.
"""

from __future__ import annotations

import contextlib
import csv
import io
import re
from dataclasses import dataclass
from pathlib import Path

import pytest

from calmix.cli.app import main
from calmix.io.spreadsheet import safe_cell
from calmix.printable import UNSAFE
from marking import marking
from opened_page import OpenedPage
from tiny import sentences

SCRIPTS = (
    "<script>window.hacked = 1</script>",
    "</script><script>window.hacked = 2</script>",
    "<img src=x onerror='window.hacked = 3'>",
    '"><svg onload="window.hacked = 4">',
)
LABELS = (
    "<img src=x onerror='window.hacked = 5'>",
    "=HYPERLINK(\"http://example.org\", 'x')",
    "\x1b[2J\x1b[31mred\x9b0m \u202eright to left",
)
TEXTS = (
    *SCRIPTS,
    "=cmd|' /C calc'!A0",
    "\x1b]0;title\x07",
    "\u202eabc\u2066",
    "{{ 7 * 7 }} ${x} $\\frac{$ `code` |a|b|",
)
# A name that a shell, a page and a terminal would each misread; `=` and `/` have a meaning in arguments.
NAME = "rows <img src onerror alert> $(x) \x1b[31m\u202e"


@dataclass(frozen=True)
class Session:
    directory: Path
    printed: dict[str, str]

    def pages(self) -> list[Path]:
        return sorted(self.directory.rglob("*.html"))


def write_rows(file: Path, rows: int, seed: int) -> Path:
    texts, _ = sentences(rows, seed=seed)
    with file.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream)
        writer.writerow(["text", "label"])
        for place, text in enumerate(texts):
            writer.writerow([f"{TEXTS[place % len(TEXTS)]} {text}", LABELS[place % len(LABELS)]])
    return file


def run(arguments: list[object]) -> tuple[int, str]:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
        try:
            main([str(argument) for argument in arguments])
        except SystemExit as ended:
            return int(ended.code or 0), printed.getvalue()
    return 0, printed.getvalue()


@pytest.fixture(scope="module")
@marking("trains")
def session(encoders, tmp_path_factory) -> Session:
    place = tmp_path_factory.mktemp("hostile")
    train = write_rows(place / f"{NAME}.csv", 96, seed=0)
    validation = write_rows(place / f"{NAME} validation.csv", 48, seed=1)
    test = write_rows(place / f"{NAME} test.csv", 48, seed=2)
    data = ["--train", train, "--validation", validation, "--test", f"test={test}", "--epochs", 1]
    small = ["--model", encoders("bert", layers=3), "--batch-size", 16, "--max-length", 32]
    run_of, student = place / f"{NAME} run", place / "student"
    verbs: dict[str, list[object]] = {
        "train": ["train", *data, *small, "--output", run_of],
        "evaluate": ["evaluate", run_of],
        "predict": ["predict", run_of, "--input", test, "--output", place / "answers.csv"],
        "evaluate answers": ["evaluate", place / "answers.csv"],
        "calibrate": ["calibrate", run_of, "--fit-on", "validation", "--output", place / "calibrated"],
        "map": ["map", run_of, "--output", place / "map"],
        "ood": ["ood", run_of, "--in", test, "--out", f"other={validation}"],
        "adapt": ["adapt", run_of, "--labelled", validation, "--output", place / "adapted"],
        "distill": ["distill", "--teacher", run_of, "--student-layers", 1, *data, "--output", student],
        "compare": [
            "compare", "--methods", "plain,erl", "--seeds", "0,1", "--executor", "inline",
            "--keep-models", "all", *data, *small, "--output", place / "compared",
        ],
        "ood of a comparison": ["ood", place / "compared", "--in", test, "--out", f"other={validation}"],
        "an unknown label": ["train", *data, "--output", place / "x", "--label-column", LABELS[2]],
        "an unknown file": ["evaluate", place / f"{NAME} nothing.csv"],
    }  # fmt: skip
    printed = {}
    for name, arguments in verbs.items():
        code, text = run(arguments)
        assert code == (2 if name.startswith("an unknown") else 0), (name, text)
        printed[name] = text
    return Session(place, printed)


def test_nothing_that_a_terminal_obeys_is_printed(session):
    for verb, text in session.printed.items():
        assert not UNSAFE.search(re.sub(r"[\n\r\t]", "", text)), verb
        assert text.strip(), verb
    assert "\\x1b[2J" in session.printed["evaluate answers"] + session.printed["map"], "spelled out"


def test_no_text_runs_in_any_page(session, browser):
    pages = session.pages()
    assert {page.name for page in pages} == {"report.html", "ood.html", "datamap.html"}
    assert len(pages) >= 7, "of the run, its ood, calibrated, map, student, comparison and its ood"
    for file in pages:
        page = OpenedPage(browser, file)
        page.script("for (const one of document.querySelectorAll('details')) one.open = true")
        assert page.script("return window.hacked ?? 0") == 0, file
        strange = "return document.querySelectorAll('img, iframe, svg[onload]').length"
        assert page.script(strange) == 0, file
        assert not UNSAFE.search(re.sub(r"[\n\r\t]", "", page.script("return document.body.innerText"))), file
        assert page.errors() == [], file


def test_the_labels_are_shown_as_they_are(session, browser):
    (file,) = [
        one for one in session.pages() if one.parent.name == f"{NAME} run" and one.name == "report.html"
    ]
    page = OpenedPage(browser, file)
    heads = "return [...document.querySelectorAll('#class-table tbody th')].map((one) => one.textContent)"
    shown = page.script(heads)
    assert set(LABELS[:2]) <= set(shown)
    assert any("\\u001b[2J" in one or "\\x1b[2J" in one for one in shown)


def test_no_cell_for_people_is_a_formula(session):
    for name in ("suspects.csv", "issues.csv", "datamap.csv"):
        with (session.directory / "map" / name).open(newline="", encoding="utf-8") as lines:
            for row in csv.reader(lines):
                assert [safe_cell(cell) for cell in row] == row, name


def test_what_is_for_programs_holds_every_text_unchanged(session):
    with (session.directory / "answers.csv").open(newline="", encoding="utf-8") as lines:
        rows = list(csv.DictReader(lines))
    assert {row["label"] for row in rows} == set(LABELS)
    assert {row["predicted_label"] for row in rows} <= set(LABELS)
    assert all(row["text"].startswith(TEXTS) for row in rows)
