"""JSON in its three shapes; what is malformed is named by its row."""

from __future__ import annotations

import json

import pytest

from calmix.data.json_records import json_lines_table, json_table
from calmix.user_error import UserError

RECORDS = [{"text": "a", "label": 0}, {"text": "b", "label": 1}]
REMEDY = 'write one object per row, such as {"text": "...", "label": "..."}'


def message(read, text: str, column: str | None = None) -> str:
    with pytest.raises(UserError) as caught:
        table = read(text, "a.json")
        if column is not None:
            table.column(column, "")
    return str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        json.dumps(RECORDS),
        json.dumps(RECORDS, indent=2),
        json.dumps({"text": ["a", "b"], "label": [0, 1]}),
        "\n".join(json.dumps(record) for record in RECORDS),
        "\r\n".join(json.dumps(record) for record in RECORDS) + "\r\n\r\n",
    ],
    ids=["list", "indented list", "columns", "lines", "lines of another system"],
)
def test_every_shape_gives_the_same_table(text):
    table = json_table(text, "a.json")
    assert (table.names, table.row_count) == (("text", "label"), 2)
    assert (table.column("text", ""), table.column("label", "")) == (["a", "b"], [0, 1])


def test_a_single_record_with_choices_is_a_record():
    table = json_table('{"text": "q", "choices": ["a", "b"], "label": 0}', "a.json")
    assert table.column("choices", "") == [["a", "b"]]


def test_other_line_separators_stay_inside_the_text():
    table = json_lines_table('{"text": "a\u2028b\x85c"}\n', "a.jsonl")
    assert table.column("text", "") == ["a\u2028b\x85c"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"text": "a"}\n\n{"text": b}\n', "row 2: line 3 is not JSON (Expecting value at character 10)"),
        ('{"text": "a"}\n["a", 0]\n', "row 2: a JSON list where an object is expected"),
        ('{"text": "a"}\nnull\n', "row 2: a JSON null where an object is expected"),
        ("3\n", "row 1: a JSON number where an object is expected"),
    ],
)
def test_malformed_lines_are_named(text, expected):
    assert message(json_lines_table, text) == f"a.json, {expected}; {REMEDY}"


def test_a_missing_key_is_named():
    text = '{"text": "a", "label": 0}\n{"text": "b"}\n'
    assert message(json_lines_table, text, "label") == f"a.json, row 2, column 'label': missing key; {REMEDY}"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            '[{"text": "a"},\n {"text": "b"},\n {"text" "c"}]',
            "a.json, row 3: line 3 is not JSON (Expecting ':' delimiter at character 10)",
        ),
        ('[{"text": "a"}, {"text": ', "a.json, row 2: line 1 is not JSON (Expecting value at character 26)"),
        ('[{"text": "a"} {"text": "b"}]', "a.json, row 1: line 1 is not JSON"),
        ('[{"text": "a"}, 4]', "a.json, row 2: a JSON number where an object is expected"),
        ("hello", "a.json: line 1 is not JSON (Expecting value at character 1)"),
        ('"hello"', "a.json: not a list of objects"),
        ('{"text": ["a", "b"], "label": [0]}', "a.json: the columns differ in length: text 2, label 1"),
    ],
)
def test_malformed_json_is_named(text, expected):
    assert message(json_table, text).startswith(expected)
