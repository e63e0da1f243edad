"""The pages of reproductions: what a reader finds in them; the committed ones are those of the numbers."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from calmix.report.reproductions.pages import claim_lines, write_pages
from calmix.report.reproductions.side_by_side import count_table, side_by_side, state_table
from calmix.reproduction.catalogue import all_presets, find_preset
from calmix.reproduction.outcome import MeasuredCell, MeasuredEffect, Outcome, judged
from calmix.reproduction.state import claim_states

COMMITTED = Path(__file__).parents[2] / "results" / "reproduction"
COMMAND = "calmix reproduce tdmixup/table2 --scale small --data-dir DATA --output OUT"


def measured(*cells):
    return Outcome("tdmixup/table2", "small", COMMAND, "0", cells=list(cells))


def cell(row, column, metric="ece"):
    return MeasuredCell(row, column, metric, 0.02, 0.01, 5, 100)


def test_the_committed_pages_are_rendered_from_the_committed_numbers(tmp_path):
    for file in COMMITTED.glob("*/*.json"):
        copy = tmp_path / file.relative_to(COMMITTED)
        copy.parent.mkdir(exist_ok=True)
        shutil.copyfile(file, copy)
    pages = [path for path in write_pages(tmp_path) if path.suffix == ".md"]
    assert {path.name for path in pages} == {path.name for path in COMMITTED.glob("*.md")}
    for page in pages:
        assert page.read_text() == (COMMITTED / page.name).read_text(), (
            f"{page.name}: run calmix reproduce --from results/reproduction"
        )


def test_a_command_stands_once_above_the_claims_it_tests():
    states = claim_states([find_preset("aum-saliency/table1")], [])
    lines = claim_lines(states)
    commands = [line for line in lines if line.startswith("    calmix")]
    assert commands == [
        f"    calmix reproduce aum-saliency/table1 --scale {scale} --data-dir DATA --output OUT"
        for scale in ("small", "full")
    ]
    tables = [line for line in lines if line.startswith("|")]
    assert sum(table.count("\n") - 1 for table in tables) == len(states)
    assert tables[1].count("untested here") == 2


def test_a_statement_stands_once_and_a_stand_in_is_named():
    preset = find_preset("tdmixup/table2")
    effects = [
        MeasuredEffect("ours-in-domain", column, -0.03, 0.0, 0.001**2, 5, (0.02, 0.05))
        for column in ("snli", "swag")
    ]
    outcome = Outcome(
        "tdmixup/table2", "small", COMMAND, "0", effects=effects,
        data={"snli": "snli", "swag": "hellaswag_activitynet"},
    )  # fmt: skip
    rows = state_table(claim_states([preset], [outcome])).rows
    statement = preset.claims[0].statement
    assert [row[0] for row in rows[:3]] == [statement, "", ""]
    assert [row[1] for row in rows[:3]] == ["SNLI", "QQP", "SWAG; here hellaswag_activitynet"]
    assert [row[3] for row in rows[:3]] == ["-1.32", "-1.18", "-0.33"]
    assert [row[5] for row in rows[:3]] == ["held", "not run yet", "held"]
    assert rows[0][4].startswith("-3.00 [-")


def test_failed_runs_leave_the_other_verdicts_as_they_will_be():
    """They are tried again: a verdict that is given without them must not change when they are there."""
    preset = find_preset("tdmixup/table2")
    effect = MeasuredEffect("ours-in-domain", "snli", -0.03, 0.0, 0.001**2, 5, (0.02, 0.05))
    whole = Outcome("tdmixup/table2", "small", COMMAND, "0", effects=[effect], finished=True)
    failed = replace(whole, failures=[{"block": "b", "run": "ours, seed 0", "reason": "died"}])
    tests = sum(len(claim.on) for claim in preset.claims)
    assert judged(preset, failed)[0].verdict.level == pytest.approx(0.05 / tests)
    assert judged(preset, replace(failed, finished=False)) == judged(preset, failed)
    assert judged(preset, whole)[0].verdict.level == pytest.approx(0.05)


def test_verdicts_are_counted_by_paper():
    states = claim_states(all_presets(), [])
    table = count_table(states, lambda state: state.preset.paper, "Paper")
    sums = [sum(int(row[place]) for row in table.rows[:-1]) for place in range(1, len(table.columns))]
    assert sums == [int(value) for value in table.rows[-1][1:]]
    assert sums[1] == len(states) == sum(sums[2:])


def test_rows_and_columns_without_a_number_are_left_out():
    trends = find_preset("aum-saliency/table1")
    (table,) = side_by_side(trends, measured(cell("BERT", "snli"), cell("BERT + ours", "mnli")))
    assert [column.title for column in table.columns] == ["", "SNLI, ours", "MNLI (OOD), ours"]
    assert table.rows == (("BERT", "2.00 ± 1.00", "–"), ("BERT + ours", "–", "2.00 ± 1.00"))
    assert "Left out: 30 rows" in table.notes[-1]
    assert side_by_side(trends, None) == []


def test_a_row_that_is_not_run_stays_with_the_numbers_of_the_paper():
    preset = find_preset("tdmixup/table2")
    accuracy, ece = side_by_side(preset, measured(cell("100 %", "snli")))
    row = next(row for row in ece.rows if row[0] == "100 % back-translation")
    assert row[1:3] == ("1.98 ± 0.6", "–")
    assert any(
        "100 % back-translation is not run: it needs translation models." in note for note in ece.notes
    )
    assert all(title.title.endswith("paper") for title in accuracy.columns[1:])


@pytest.mark.parametrize("paper", ["tdmixup", "aum-saliency"])
def test_a_page_begins_with_the_verdicts(tmp_path, paper):
    write_pages(tmp_path)
    page = (tmp_path / f"{paper}.md").read_text()
    assert page.index("| Place | Claims | Tests |") < page.index("## Table 1")
