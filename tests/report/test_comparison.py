"""The report of a comparison shows the numbers it was given, and nothing a name could smuggle in."""

from __future__ import annotations

import re

import pytest

from calmix.report.comparison.comparison_report import comparison_page, write_comparison_report
from calmix.report.comparison.comparison_tables import (
    difference_tables,
    markdown_summary,
    side_by_side_table,
    summary_tables,
)
from calmix.report.comparison.effects import difference_forest, headline_forest
from calmix.report.pages.page import render
from calmix.report.tables import WEAK_ECE_NOTE
from recorded_results import NASTY

METRICS = ("accuracy", "nll", "brier", "ece")


@pytest.fixture
def data(compared):
    return compared


def test_a_cell_is_mean_and_deviation_and_the_best_is_marked(data):
    test, validation = summary_tables(data)
    assert test.caption == "test: 1,234 rows, mean ± standard deviation over 3 seeds"
    assert [column.title for column in test.columns] == [
        "Method", "Stage", "Accuracy %", "NLL", "Brier", "ECE %",
    ]  # fmt: skip
    assert test.rows[0] == (
        "plain", "raw", "50.0 ± 1.0", "0.5000 ± 0.0100", "0.5000 ± 0.0100", "50.00 ± 1.00",
    )  # fmt: skip
    assert test.rows[3][3] == "0.2000 ± 0.0100*"
    assert [row[1] for row in validation.rows[:2]] == ["raw", "+ TS †"]


def test_one_seed_has_no_deviation_and_says_so(data):
    for record in data["summary"]:
        record |= {f"{metric}_std": None for metric in METRICS} | {"seeds": 1}
    for record in data["differences"]:
        record["seeds"] = 1
    assert summary_tables(data)[0].rows[0][2] == "50.0"
    assert any("one seed only" in note for note in difference_tables(data, "calibrated")["test"].notes)


def test_differences_are_shown_with_their_intervals_and_clear_ones_are_marked(data):
    table = difference_tables(data, "calibrated")["test"]
    assert table.caption == "test: difference to plain + TS [95 %]"
    assert table.rows[0][:2] == (NASTY, "raw")
    assert table.rows[0][2:4] == ("−1.5 [−5.0, +2.0]", "−0.0300 [−0.0500, −0.0100]*")
    assert (WEAK_ECE_NOTE in table.notes) is any("ECE" in column.title for column in table.columns)


def test_the_forest_draws_the_intervals_it_was_given(data):
    forest = difference_forest(data, "test", "calibrated", "caption")
    name, stage, (accuracy, nll, *_) = forest.rows[1]
    assert (name, stage) == (NASTY, "+ TS")
    assert nll[1] == ("−0.0300 [−0.0500, −0.0100]*",)
    assert 'class="blue circle"' in nll[0], "significant: filled"
    assert 'class="blue ring"' in accuracy[0], "the interval holds 0"
    assert accuracy[1] == ("−1.5 [−5.0, +2.0]",), "in points"
    # All rows and the origin, with 6 % of room: from -0.0530 to 0.0030 for the NLL.
    (line,) = re.findall(r'<line x1="([\d.]+)%" x2="([\d.]+)%"[^>]*class="blue"', nll[0])
    assert [float(end) for end in line] == pytest.approx([100 * 3 / 56, 100 * 43 / 56], abs=0.01)


def test_the_first_screen_sets_each_stage_against_plain_of_that_stage(data):
    forest = headline_forest(data, "test")
    (row,) = forest.rows
    assert forest.columns == ("Δ Accuracy % better →", "Δ NLL ← better", "Δ ECE % ← better")
    assert [len(words) for _, words in row[2]] == [2, 2, 2]
    words = [entry[-1] for entry in forest.legend.entries]
    assert words == ["raw against plain raw", "+ TS against plain + TS"]


def test_raw_and_scaled_stand_side_by_side_with_the_cost(data):
    table = side_by_side_table(data, "test")
    assert table.sortable
    assert [column.title for column in table.columns] == [
        "Method", "Accuracy %", "NLL raw", "NLL + TS", "Brier raw", "Brier + TS", "ECE % raw", "ECE % + TS",
        "Seconds per run",
    ]  # fmt: skip
    assert table.rows[1][2:4] == ("0.3000 ± 0.0100", "0.2000 ± 0.0100*")
    assert table.rows[1][-1] == "75"


def test_the_page_holds_recommendation_paths_tables_failures_and_command(data, read_page, tmp_path):
    page = read_page(write_comparison_report(data, tmp_path / "report.html").read_text())
    for text in (
        "mix lowers NLL by 0.2.", "Chosen: mix.", "compared/runs/abc/model", "compared/runs/def/model",
        "calmix compare --from runs/compared", "out of <memory>", NASTY, "1 min 15 s",
    ):  # fmt: skip
        assert text in page.text
    assert "b" not in page.tags
    assert "code" in page.tags  # `mix`
    assert any("plain + TS" in caption for caption in page.tables)
    assert page.charts == [], "its runs are not there: no curves"
    assert not [address for address in page.addresses if address.startswith(("http", "//"))]


def test_a_comparison_that_cannot_tell_is_a_warning(data):
    data["recommendation"] |= {"verdict": "cannot_tell", "sentence": "One seed cannot tell.", "choice": ""}
    assert '<p class="warning">One seed cannot tell.</p>' in render(comparison_page(data))


def test_the_markdown_holds_the_same_tables(data):
    text = markdown_summary(data)
    for table in (*summary_tables(data, METRICS), *difference_tables(data, "calibrated").values()):
        assert table.to_markdown() in text
    assert "out of \\<memory\\>" in text
    assert "<b>" not in text.replace("\\<b\\>", "")


def test_without_plain_nothing_is_compared_with(data, read_page, tmp_path):
    """`cells.json` can be edited, and a report of what is left is still one."""
    arms = [{**arm, "reference": None} for arm in data["arms"]]
    write_comparison_report({**data, "arms": arms}, tmp_path / "report.html")
    assert "What was run" in (tmp_path / "report.html").read_text()
