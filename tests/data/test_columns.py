"""Column options that contradict each other are refused before any file is read."""

from __future__ import annotations

import pytest

from calmix.data.columns import ColumnNames, find_task
from calmix.io.table import DataTable
from calmix.user_error import UserError


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (
            {"pair": "b", "choices": "c"},
            "--pair-column and --choices-column exclude each other; give one of them",
        ),
        ({"text": "label"}, "--text-column and --label-column both name 'label'"),
        ({"pair": "text"}, "--text-column and --pair-column both name 'text'"),
        ({"id": ""}, "--id-column is empty; give the name of a column"),
    ],
)
def test_contradicting_options(options, expected):
    with pytest.raises(UserError) as caught:
        ColumnNames.from_options(**options)
    assert caught.value.on_command_line == expected


@pytest.mark.parametrize(
    ("names", "columns", "task"),
    [
        (("text", "label"), ColumnNames(), "single"),
        (("text", "text_pair"), ColumnNames(), "pair"),
        (("text", "choices"), ColumnNames(), "choice"),
        (("text", "text_pair", "choices"), ColumnNames(pair="text_pair"), "pair"),
        (("text", "text_pair", "choices"), ColumnNames(choices="choices"), "choice"),
        (("text", "endings"), ColumnNames(choices="endings"), "choice"),
    ],
)
def test_the_columns_make_the_task(names, columns, task):
    assert find_task(DataTable("a.csv", names, 1, lambda _: []), columns) == task
