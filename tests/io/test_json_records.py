"""JSON in its shapes; what is malformed is named by its row."""

from __future__ import annotations

import json

import pytest

from calmix.io.tables import read_arrow, read_table
from calmix.user_error import UserError

RECORDS = [{"text": "a", "label": 0}, {"text": "b", "label": 1}]
REMEDY = 'write one object per row, such as {"text": "...", "label": "..."}'


@pytest.mark.parametrize(
    "text",
    [
        json.dumps(RECORDS),
        json.dumps(RECORDS, indent=2),
        json.dumps({"text": ["a", "b"], "label": [0, 1]}),
        json.dumps({"data": RECORDS, "version": 1}),
        json.dumps({"data": {"text": ["a", "b"], "label": [0, 1]}}),
        "\n".join(json.dumps(record) for record in RECORDS),
        "\r\n".join(json.dumps(record) for record in RECORDS) + "\r\n\r\n",
    ],
    ids=["list", "indented list", "columns", "data", "columns of data", "lines", "lines of another system"],
)
def test_every_shape_gives_the_same_table(text, read, write):
    assert read(write("a.json", text)) == {"text": ["a", "b"], "label": [0, 1]}


def test_a_single_record_with_choices_is_a_record(read, write):
    text = '{"text": "q", "choices": ["a", "b"], "label": 0}'
    assert read(write("a.json", text))["choices"] == [["a", "b"]]


def test_other_line_separators_stay_inside_the_text(read, write):
    assert read(write("a.jsonl", '{"text": "a\u2028b\x85c"}\n')) == {"text": ["a\u2028b\x85c"]}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"text": "a"}\n\n{"text": b}\n', "row 2: line 3 is not JSON (Expecting value at character 10)"),
        ('{"text": "a"}\n  {"text": b}\n', "row 2: line 2 is not JSON (Expecting value at character 12)"),
        ('{"text": "a"} {}\n', "row 1: line 1 is not JSON (Extra data at character 14)"),
        ('{"text": "a"}\n["a", 0]\n', "row 2: a JSON list where an object is expected"),
        ('{"text": "a"}\nnull\n', "row 2: a JSON null where an object is expected"),
        ("3\n", "row 1: a JSON number where an object is expected"),
        ('{"text": ' + "[" * 100_000, "row 1: line 1 is not JSON (nested too deeply)"),
        ('{"text": ' + "9" * 5000 + "}", "row 1: line 1 is not JSON (an integer of thousands of digits)"),
    ],
    ids=range(8),
)
def test_malformed_lines_are_named(text, expected, message, write):
    assert message(write("a.jsonl", text)) == f"a.jsonl, {expected}; {REMEDY}"


def test_a_missing_key_is_named(write):
    name = write("a.jsonl", '{"text": "a", "label": 0}\n{"text": "b"}\n')
    with pytest.raises(UserError) as caught:
        read_table(name).read_column("label")
    assert str(caught.value) == f"a.jsonl, row 2, column 'label': missing key; {REMEDY}"
    assert read_arrow(name)["label"].to_pylist() == [0, None]


@pytest.mark.parametrize("extension", [".json", ".jsonl"])
def test_half_a_surrogate_pair_is_named(extension, message, write):
    name = write(f"a{extension}", '{"text": "a", "label": "b\\ud800"}')
    assert message(name) == (
        f"{name}, row 1, column 'label': a broken character (half of a surrogate pair); "
        "write the text as UTF-8"
    )
    assert "a broken character" in message(write("b.json", '{"text": ["a", "\\udfff"]}'))


def test_a_whole_surrogate_pair_is_a_character(read, write):
    assert read(write("a.jsonl", '{"text": "\\ud83c\\udfac"}')) == {"text": ["🎬"]}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            '[{"text": "a"},\n {"text": "b"},\n {"text" "c"}]',
            "a.json, row 3: line 3 is not JSON (Expecting ':' delimiter at character 10)",
        ),
        ('[{"text": "a"}, {"text": ', "a.json, row 2: line 1 is not JSON (Expecting value at character "),
        ('[{"text": "a"} {"text": "b"}]', "a.json, row 1: line 1 is not JSON"),
        ('[{"text": "a"}, 4]', "a.json, row 2: a JSON number where an object is expected"),
        ("hello", "a.json: line 1 is not JSON (Expecting value at character 1)"),
        ('"hello"', "a.json: not a list of objects"),
        ('{"text": ["a", "b"], "label": [0]}', "a.json: the columns differ in length: text 2, label 1"),
        ("[" * 100_000, "a.json, row 1: not JSON (nested too deeply)"),
        ('[{"text": ' + "9" * 5000 + "}]", "a.json, row 1: not JSON (an integer of thousands of digits)"),
    ],
    ids=range(9),
)
def test_malformed_json_is_named(text, expected, message, write):
    assert message(write("a.json", text)).startswith(expected)


def test_the_kinds_of_values_stay_from_batch_to_batch(monkeypatch, write):
    from calmix.io import tables

    monkeypatch.setattr(tables, "JSON_ROWS", 2)
    rows = [{"label": n, "probs": [n, 1], "note": None} for n in range(5)] + [
        {"label": 5, "probs": [0.5, 0.5]}
    ]
    name = write("a.jsonl", "\n".join(map(json.dumps, rows)))
    table = read_arrow(name)
    assert table["probs"].to_pylist()[-1] == [0.5, 0.5]
    assert table["label"].to_pylist() == list(range(6))
    write(name, "\n".join(map(json.dumps, [*rows, {"label": "x", "probs": [0, 1]}])))
    with pytest.raises(UserError) as caught:
        read_arrow(name)
    assert str(caught.value) == (
        "a.jsonl, row 7, column 'label': 'x' does not go with the values before it; "
        "write the same kind of value in every row"
    )


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.jsonl", '{"text": "a", "label": "x", "label": "y"}\n'),
        ("a.json", '[{"text": "a", "label": "x", "label": "y"}]'),
        ("a.json", '{"text": ["a"], "label": ["x"], "label": ["y"]}'),
    ],
)
def test_a_key_that_is_there_twice_is_refused(name, text, write, message):
    assert "the key 'label' is there twice" in message(write(name, text))
