"""The page of `calmix ood comparison`: spreads over seeds, intervals of single ones, what is missing."""

import pytest

from calmix.report.ood.ood_comparison import (
    auroc_forest,
    bar_lengths,
    best_lines,
    headline_table,
    ood_comparison_page,
)
from calmix.report.ood.ood_report import READING
from calmix.report.pages.page import render

NOTE = "2 of 5 runs have no saved model and are left out"


@pytest.fixture
def result(detected_by_method):
    return detected_by_method


def test_one_seed_shows_its_interval_over_rows(result):
    table = headline_table(result)
    assert [row[:3] for row in table.rows] == [
        ("letters", "plain", "90.0 ± 2.0"),
        ("letters", "erl", "90.0 [85.0, 93.0]"),
    ]
    assert "1 to 2 seeds; of one seed, [95 % interval over rows]" in table.caption
    assert [bar_lengths(one) for one in result["summary"] if one["score"] == "mc_msp"] == [
        pytest.approx((2.0, 2.0)),
        pytest.approx((5.0, 3.0)),
    ]
    cells = [row[2][0][1] for row in auroc_forest(result, "letters").rows]
    assert cells == [("90.0 ± 2.0",), ("90.0 [85.0, 93.0]",)]


def test_the_page_says_what_is_missing_and_what_stage_it_shows(result):
    page = render(ood_comparison_page(result))
    assert NOTE in page
    assert page.count("MC dropout, raw") >= 2, "for AUROC and for confidence"
    assert READING[-1] in page


def test_without_single_seeds_there_is_no_talk_of_intervals(result):
    result["summary"] = [one for one in result["summary"] if one["seeds"] > 1]
    page = render(ood_comparison_page(result))
    assert READING[-1] not in page
    assert "interval over rows" not in page


def test_a_best_method_below_55_percent_is_called_guessing(result):
    for one in result["summary"]:
        one["auroc_mean"] = 0.54
    (line,) = best_lines(result)
    assert line.endswith("54.0 ± 2.0 %: no method is better than guessing.")
    assert "better than guessing" in render(ood_comparison_page(result))
