from io import StringIO

import pytest
from rich.console import Console

from calmix.report.maps.map_tables import region_table, suspect_table

SUMMARY = {
    "rows": 10,
    "scored": 8,
    "class_counts": [5, 5],
    "partition": {
        "sizes": {"easy": 4, "ambiguous": 2, "hard": 2},
        "class_balance": {"easy": [4, 0], "ambiguous": [1, 1], "hard": [0, 2]},
    },
    "sets": None,
    "median_split": {
        "median": 0.25,
        "sizes": {"low": 4, "high": 4},
        "class_balance": {"low": [1, 3], "high": [3, 1]},
    },
}


def test_every_region_has_its_share_of_the_scored_rows_and_its_classes():
    table = region_table(SUMMARY, ("no", "yes"))
    assert table.rows[0] == ("partition", "easy", "4", "50", "no 100 %, yes 0 %")
    assert table.rows[3] == ("median AUM", "low", "4", "50", "yes 75 %, no 25 %")
    assert table.rows[-1] == ("all", "", "10", "", "no 50 %, yes 50 %")
    assert table.notes == ("median AUM 0.250",)


SUSPECTS = [
    {
        "row_id": "train-7",
        "label": "[red]",
        "predicted_label": None,
        "aum": -1.5,
        "text": "a long text " * 40,
    },
    {"row_id": "train-12", "label": "yes", "predicted_label": None, "aum": -0.25, "text": "short"},
]


@pytest.mark.parametrize("width", [80, 120])
def test_a_suspect_takes_one_line_of_the_terminal(width):
    out = StringIO()
    Console(file=out, width=width).print(suspect_table(SUSPECTS, "Suspects", width).to_rich())
    lines = [line for line in out.getvalue().splitlines() if line.strip()]
    assert len(lines) == 5  # caption, titles, rule, two rows
    assert "[red]" in lines[3]
    assert lines[3].rstrip().endswith("…")
    assert "Predicted" not in lines[1]  # nobody knows it, so it has no column
