from __future__ import annotations

import io

import pytest
from rich.console import Console

from calmix.report.evaluation_tables import OUTSIDE_DIFFERENCE_NOTE, difference_table
from calmix.report.label_tables import label_table, overall_table
from calmix.report.pages.page import Facts, Page, Section, render
from calmix.report.tables import (
    HEADLINE_KEYS,
    IN_SAMPLE,
    OUTSIDE,
    OUTSIDE_NOTE,
    WEAK_ECE_NOTE,
    WITHIN_NOISE,
    WITHIN_NOISE_NOTE,
    Column,
    Table,
    metrics_table,
)


def markdown_rows(markdown: str) -> list[list[str]]:
    lines = [line for line in markdown.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in (lines[0], *lines[2:])]


def printed(table: Table, width: int = 240) -> str:
    console = Console(file=io.StringIO(), width=width, color_system=None)
    console.print(table.to_rich())
    return console.file.getvalue()


def numbers(values: dict) -> dict:
    """The values of a stage; each is told apart by its own digits."""
    return {
        "n": 1234, "accuracy": 0.8768, "nll": 0.34567, "brier": 0.22222, "ece": 0.04321,
        "ece_ci": [0.0301, 0.0567], "ece_noise_floor": 0.0098, "ece_noise_floor_p95": 0.0155,
        "adaptive_ece": 0.0444, "classwise_ece": 0.0555, "oe": 0.0333, "mce": 0.1999,
        "aurc": 0.05432, "augrc": 0.04567,
    } | values  # fmt: skip


def one_split(uncalibrated: dict, calibrated: dict) -> dict:
    return {"splits": {"test": {"uncalibrated": numbers(uncalibrated), "calibrated": numbers(calibrated)}}}


def test_every_metric_is_shown_in_people_s_units():
    (header, first, _) = markdown_rows(metrics_table(one_split({}, {})).to_markdown())
    shown = dict(zip(header, first, strict=True))
    assert shown == {
        "Split": "test",
        "Stage": "uncalibrated",
        "n": "1,234",
        "Accuracy %": "87.7",
        "NLL": "0.3457",
        "Brier": "0.2222",
        r"ECE % \[95 %\]": r"4.32 \[3.01, 5.67\]",
        "Noise floor % (95th)": "0.98 (1.55)",
        "Adaptive ECE %": "4.44",
        "Classwise ECE %": "5.55",
        "OE %": "3.33",
        "MCE %": "19.99",
        "AURC": "0.0543",
        "AUGRC": "0.0457",
    }


def test_markdown_cells_are_the_metrics_of_a_real_run(finished):
    metrics = finished.metrics()
    rows = markdown_rows(metrics_table(metrics).to_markdown())[1:]
    assert [row[0] for row in rows] == ["validation"] * 2 + ["test"] * 2 + ["news"] * 2
    for row in rows:
        values = metrics["splits"][row[0]][row[1].split()[0]]
        assert row[2] == str(values["n"])
        assert float(row[3]) == pytest.approx(100 * values["accuracy"], abs=0.0501)
        for cell, key in ((row[4], "nll"), (row[5], "brier"), (row[12], "aurc"), (row[13], "augrc")):
            assert float(cell) == pytest.approx(values[key], abs=0.0000501)
        low, high = (float(end) for end in row[6].split("\\[")[1].split("\\]")[0].split(", "))
        assert float(row[6].split()[0]) == pytest.approx(100 * values["ece"], abs=0.00501)
        assert [low, high] == pytest.approx([100 * end for end in values["ece_ci"]], abs=0.00501)


def test_the_three_renderings_show_the_same_cells(finished, read_page):
    table = metrics_table(finished.metrics())
    page = Page("t", "l", Facts(()), (Section("s", (table,)),))
    on_page = read_page(render(page)).tables[table.caption]
    terminal = printed(table)
    markdown = markdown_rows(table.to_markdown())
    for row, cells in zip(table.rows, markdown[1:], strict=True):
        assert [cell.replace("\\", "") for cell in cells] == list(row)
        assert all(cell in terminal for cell in row)
    # On the page the second row of a group has no cell of its own for the split.
    assert on_page[0] == [column.title for column in table.columns]
    assert on_page[1:] == [list(row[place % 2 :]) for place, row in enumerate(table.rows)]


def test_only_the_stage_that_calibration_was_fitted_on_is_marked_in_sample():
    table = metrics_table(one_split({}, {"in_sample": True}))
    assert [row[1] for row in table.rows] == ["uncalibrated", f"calibrated {IN_SAMPLE}"]
    assert any(note.startswith(IN_SAMPLE) for note in table.notes)
    assert not metrics_table(one_split({}, {})).notes


@pytest.mark.parametrize(("ece", "marked"), [(0.0155, True), (0.0156, False), (0.001, True)])
def test_an_ece_up_to_the_95th_percentile_of_the_noise_is_called_noise(ece, marked):
    table = metrics_table(one_split({}, {"ece": ece}))
    assert table.rows[1][6].endswith(WITHIN_NOISE) is marked
    assert (f"{WITHIN_NOISE} {WITHIN_NOISE_NOTE}" in table.notes) is marked


@pytest.mark.parametrize(
    ("interval", "marked"), [([0.03, 0.05], False), ([0.0, 0.04], True), ([0.0432, 0.06], False)]
)
def test_an_ece_outside_its_interval_says_why(interval, marked):
    """As shown: 4.321 and 4.32 are both 4.32."""
    table = metrics_table(one_split({"ece_ci": [0.03, 0.05]}, {"ece": 0.04321, "ece_ci": interval}))
    assert table.rows[1][6].endswith(OUTSIDE) is marked
    assert (f"{OUTSIDE} {OUTSIDE_NOTE}" in table.notes) is marked
    assert OUTSIDE not in table.rows[0][6]


def difference(metric, value, limits):
    return {"first": "a.csv", "second": "b.csv", "metric": metric, "difference": value, "ci": limits}


def test_tables_of_differences_say_that_those_in_ece_are_weak():
    likelihood = difference("nll", -0.2, [-0.3, -0.1])
    assert difference_table([likelihood]).notes == ("* the interval excludes 0",)
    table = difference_table([likelihood, difference("ece", 0.02, [-0.01, 0.03])])
    assert table.notes == ("* the interval excludes 0", WEAK_ECE_NOTE)


def test_a_difference_outside_its_interval_says_why():
    table = difference_table([difference("ece", 0.02, [-0.01, 0.015])])
    assert table.rows[0][-1] == OUTSIDE
    assert table.notes == (f"{OUTSIDE} {OUTSIDE_DIFFERENCE_NOTE}", WEAK_ECE_NOTE)


def test_the_headline_table_fits_a_terminal_of_80_columns():
    far_off = {"ece": 0.1314, "ece_ci": [0.1114, 0.1514]}
    metrics = one_split(far_off, {"in_sample": True, "ece": 0.01})
    metrics["splits"]["validation"] = metrics["splits"].pop("test")
    table = metrics_table(metrics, HEADLINE_KEYS)
    text = printed(table, width=80)
    assert "13.14 [11.14, 15.14]" in text
    assert all(cell in text for row in table.rows for cell in row)
    assert "…" not in text


def test_labels_that_look_like_markup_are_shown_as_they_are():
    table = Table("c", (Column("label", numeric=False),), (("[red]a|b*",),))
    assert "[red]a|b*" in printed(table)
    assert r"| \[red\]a\|b\* |" in table.to_markdown()


def test_a_label_that_looks_like_a_mark_brings_no_note():
    one = {"positives": 3, "nll": 0.5, "brier": 0.2, "ece": 0.05, "average_precision": 0.5, "threshold": 0.5,
           "f1": 0.5, "ece_noise_floor": 0.01}  # fmt: skip
    found = {"macro": {}, "per_label": {"§ 12": one, "–": one, "a‡": one}}
    assert label_table(found, "").notes == ()
    macro = {"f1": 0.5, "average_precision": 0.5, "nll": 0.5, "brier": 0.2, "ece": 0.05}
    whole = {"n": 9, "subset_accuracy": 0.5, "hamming_loss": 0.1, "macro": macro, "micro": macro}
    assert overall_table([(("†",), whole)], ["File"]).notes == ()
    assert overall_table([(("a",), whole | {"in_sample": True})], ["File"]).notes
