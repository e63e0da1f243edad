"""Files of every format become the same rows; bad values are named by row and column."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import numpy as np
import pandas
import pytest

from calmix.data import sources
from calmix.data.columns import ColumnNames
from calmix.data.reading import read_rows
from calmix.data.splits import read_splits
from calmix.io.tables import read_table
from calmix.user_error import UserError

FORMATS = [
    extension + gzipped
    for extension in (".csv", ".tsv", ".json", ".jsonl", ".parquet")
    for gzipped in ("", ".gz")
]
LABEL_NAMES = {"single": ("neg", "pos"), "pair": ("2", "9", "10"), "choice": ("0", "1", "2")}
LABELS = {"single": [1, 0, 0, 1, 0, 0], "pair": [2, 1, 2, 0, 0, 1], "choice": [0, 2, 1, 1, 0, 2]}


def message(*arguments, **options) -> str:
    with pytest.raises(UserError) as caught:
        read_rows(*arguments, **options)
    return caught.value.on_command_line


@pytest.mark.parametrize("task", ["single", "pair", "choice"])
@pytest.mark.parametrize("extension", FORMATS)
def test_every_format_gives_the_frame_that_was_written(extension, task, frames, write_frame, tmp_path):
    frame = frames[task]
    rows = read_rows(write_frame(frame, tmp_path / f"data{extension}"), "train")
    assert rows.task == task
    assert rows.texts() == frame["text"].tolist()
    if task == "pair":
        assert rows.pairs() == frame["text_pair"].tolist()
    if task == "choice":
        assert rows.choices() == frame["choices"].tolist()
    assert rows.label_names == LABEL_NAMES[task]
    assert rows.labels.tolist() == LABELS[task]
    assert rows.row_ids.tolist() == [f"train-{n}" for n in range(1, 7)]


@pytest.mark.parametrize("task", ["single", "pair", "choice"])
def test_all_formats_share_one_fingerprint(task, frames, write_frame, tmp_path):
    prints = {
        read_rows(write_frame(frames[task], tmp_path / f"data{extension}"), "train").fingerprint()
        for extension in FORMATS
    }
    assert len(prints) == 1


@pytest.mark.processes
def test_fingerprint_is_the_same_in_another_process(write):
    name = write("data.csv", "text,label\ngood,1\nbad,0\n")
    code = f"from calmix.data.reading import read_rows; print(read_rows({name!r}, 'train').fingerprint())"
    other = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert other.stdout.strip() == read_rows(name, "train").fingerprint()


def test_own_column_names(write):
    name = write("data.csv", "key,premise,hypothesis,gold\nx7,a,b,yes\nx9,c,d,no\n")
    columns = ColumnNames(text="premise", pair="hypothesis", label="gold", id="key")
    rows = read_rows(name, "train", columns)
    assert (rows.task, rows.texts(), rows.pairs()) == ("pair", ["a", "c"], ["b", "d"])
    assert rows.row_ids.tolist() == ["x7", "x9"]
    assert rows.labels.tolist() == [1, 0]


def test_integer_ids_are_texts_in_every_format(write):
    csv = read_rows(write("a.csv", "text,label,n\na,0,7\nb,1,8\n"), columns=ColumnNames(id="n"))
    json = read_rows(
        write("a.jsonl", '{"text":"a","label":0,"n":7}\n{"text":"b","label":1,"n":8}'),
        columns=ColumnNames(id="n"),
    )
    assert csv.row_ids.tolist() == ["7", "8"]
    assert csv.fingerprint() == json.fingerprint()


def test_row_id_prefix_is_the_name_when_it_differs_from_the_split(write):
    write("snli/test.csv", "text,label\na,0\n")
    rows = read_rows("snli", "test", name="snli", label_names=("0", "1"))
    assert rows.row_ids.tolist() == ["snli-1"]


def test_a_row_keeps_its_number_where_rows_before_it_are_dropped(write):
    """Else the ids of other files made from this one, such as those of predictions, name the row beside."""
    lines = ["text,label,weight", "a,x,1", "b,,1", "c,-1,1", "d,y,1", "e,x,-1", "f,y,1"]
    path = write("dropped.csv", "\n".join(lines) + "\n")
    columns = ColumnNames().with_labels({}, drop_unlabelled=True)
    rows = read_rows(path, "train", columns)
    assert dict(zip(rows.row_ids.tolist(), rows.texts(), strict=True)) == {
        "train-1": "a", "train-4": "d", "train-5": "e", "train-6": "f",
    }  # fmt: skip
    weighted = ColumnNames.from_options(weight="weight").with_labels({}, drop_unlabelled=True)
    assert "row 5, column 'weight': a negative weight" in message(path, "train", weighted)


def test_unlabelled_rows(write):
    bare = write("bare.csv", "text\ngood\nbad\n")
    labelled = write("labelled.csv", "text,label\ngood,1\nbad,0\n")
    blank = write("blank.csv", "text,label\ngood,\nbad,\n")
    assert not read_rows(bare, labelled=False).is_labelled
    assert not read_rows(labelled, labelled=False).is_labelled
    assert not read_rows(bare, labelled="auto").is_labelled
    assert not read_rows(blank, labelled="auto").is_labelled
    assert read_rows(labelled, labelled="auto").labels.tolist() == [1, 0]
    assert message(bare) == (
        "bare.csv: no column 'label'; the columns are: text; name the right one with --label-column"
    )
    # A column that was asked for by name must be there.
    assert "no column 'stars'" in message(bare, columns=ColumnNames(label="stars"), labelled="auto")
    # Half a label column is a mistake, not unlabelled input.
    partly = write("partly.csv", "text,label\ngood,1\nbad,\n")
    assert message(partly, labelled="auto") == (
        "partly.csv, row 2, column 'label': no label; remove the row or fill it in"
    )


def test_unlabelled_choices_still_have_places_as_names(write):
    rows = read_rows(write("a.jsonl", '{"text": "q", "choices": ["a", "b", "c"]}'), labelled=False)
    assert rows.label_names == ("0", "1", "2")


BAD_FILES = {
    "missing column": (
        "reviews.csv",
        "review,stars\ngood,1\n",
        "reviews.csv: no column 'text'; the columns are: review, stars; "
        "name the right one with --text-column",
    ),
    "empty text": (
        "reviews.csv",
        "text,label\ngood,1\n  ,0\n",
        "reviews.csv, row 2, column 'text': empty text; remove the row or fill it in",
    ),
    "null text": (
        "reviews.jsonl",
        '{"text": "a", "label": 1}\n{"text": null, "label": 0}\n',
        "reviews.jsonl, row 2, column 'text': empty text; remove the row or fill it in",
    ),
    "a number for a text": (
        "reviews.jsonl",
        '{"text": 5, "label": 1}\n',
        "reviews.jsonl, row 1, column 'text': not a text: 5; put it in quotes",
    ),
    "half a surrogate pair": (
        "reviews.jsonl",
        '{"text": "a\\ud800b", "label": 1}\n',
        "reviews.jsonl, row 1, column 'text': a broken character (half of a surrogate pair); "
        "write the text as UTF-8",
    ),
    "empty second text": (
        "pairs.tsv",
        "text\ttext_pair\tlabel\na\tb\t1\nc\t\t0\n",
        "pairs.tsv, row 2, column 'text_pair': empty text; remove the row or fill it in",
    ),
    "choices of unequal length": (
        "quiz.jsonl",
        '{"text": "q", "choices": ["a", "b", "c"], "label": 0}\n'
        '{"text": "r", "choices": ["a", "b"], "label": 0}\n',
        "quiz.jsonl, row 2, column 'choices': 2 choices where row 1 has 3; "
        "every row needs the same number of choices",
    ),
    "one choice": (
        "quiz.jsonl",
        '{"text": "q", "choices": ["a"], "label": 0}',
        "quiz.jsonl, row 1, column 'choices': fewer than 2 choices; "
        'write a list of strings, such as ["yes", "no"]',
    ),
    "choices as a Python list in csv": (
        "quiz.csv",
        "text,choices,label\nq,\"['a', 'b']\",0\n",
        "quiz.csv, row 1, column 'choices': not a list: \"['a', 'b']\"; "
        'write a list of strings, such as ["yes", "no"]',
    ),
    "choices that are a number": (
        "quiz.jsonl",
        '{"text": "q", "choices": 3, "label": 0}',
        "quiz.jsonl, row 1, column 'choices': not a list: 3; "
        'write a list of strings, such as ["yes", "no"]',
    ),
    "an empty choice": (
        "quiz.jsonl",
        '{"text": "q", "choices": ["a", " "], "label": 0}',
        "quiz.jsonl, row 1, column 'choices': empty choice; remove the row or fill it in",
    ),
    "a choice that is a number": (
        "quiz.jsonl",
        '{"text": "q", "choices": ["a", 3], "label": 0}',
        "quiz.jsonl, row 1, column 'choices': not a choice: 3; put it in quotes",
    ),
    "an answer beyond the choices": (
        "quiz.jsonl",
        '{"text": "q", "choices": ["a", "b"], "label": 2}',
        "quiz.jsonl, row 1, column 'label': the label '2' is not the index of a choice; "
        "use 0 to 1, 0 for the first choice",
    ),
    "missing label": (
        "reviews.csv",
        "text,label\na,0\nb,\n",
        "reviews.csv, row 2, column 'label': no label; remove the row or fill it in",
    ),
    "two kinds of second input": (
        "mixed.jsonl",
        '{"text": "q", "text_pair": "p", "choices": ["a", "b"], "label": 0}',
        "mixed.jsonl: both a column 'text_pair' and a column 'choices'; "
        "say which counts with --pair-column or --choices-column",
    ),
}


@pytest.mark.parametrize("case", BAD_FILES)
def test_bad_values_are_named_in_one_line(case, write):
    name, content, expected = BAD_FILES[case]
    assert message(write(name, content)) == expected


def test_missing_values_of_parquet_are_named(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pandas.DataFrame({"text": ["a", "b"], "label": [1.0, np.nan]}).to_parquet("data.parquet")
    assert message("data.parquet") == (
        "data.parquet, row 2, column 'label': no label; remove the row or fill it in"
    )


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ("a,x\nb,x\n", "data.csv, row 2, column 'id': the id 'x' is already in row 1; every row needs"),
        ("a,x\nb, \n", "data.csv, row 2, column 'id': empty id"),
    ],
)
def test_bad_ids_are_named(rows, expected, write):
    name = write("data.csv", "text,id\n" + rows)
    assert message(name, columns=ColumnNames(id="id"), labelled=False).startswith(expected)


def test_ids_that_are_no_ids_are_named(write):
    name = write("data.jsonl", '{"text": "a", "id": 1.5}')
    assert message(name, columns=ColumnNames(id="id"), labelled=False) == (
        "data.jsonl, row 1, column 'id': not an id: 1.5; use texts or whole numbers"
    )


def test_another_task_than_in_training_is_refused(write):
    single = write("single.csv", "text,label\na,0\n")
    pair = write("pair.csv", "text,text_pair,label\na,b,0\n")
    known = {"label_names": ("0", "1")}
    assert message(single, task="pair", **known) == (
        "single.csv: no column 'text_pair'; the columns are: text, label; "
        "name the right one with --pair-column"
    )
    assert message(single, task="choice", **known) == (
        "single.csv: no column 'choices'; the columns are: text, label; "
        "name the right one with --choices-column"
    )
    assert message(pair, task="single", **known) == (
        "pair.csv: text pairs where single texts are expected, as in training; "
        "remove or rename the column 'text_pair'"
    )


def test_another_number_of_choices_than_in_training_is_refused(write):
    name = write("quiz.jsonl", '{"text": "q", "choices": ["a", "b"], "label": 0}')
    assert message(name, label_names=("0", "1", "2")) == (
        "quiz.jsonl, column 'choices': 2 choices in every row where training has 3"
    )


def test_the_cost_of_reading_grows_with_the_rows_and_not_faster(write):
    def seconds(count):
        lines = "".join(f'"a sentence of some words, number {n}",class {n % 5}\n' for n in range(count))
        name = write(f"{count}.csv", "text,label\n" + lines)
        start = time.process_time()
        assert len(read_rows(name, "train")) == count
        return time.process_time() - start

    seconds(100)  # imports
    assert seconds(100_000) < 40 * min(
        seconds(10_000) for _ in range(3)
    )  # 10 times the rows; a square is 100


def age(name):
    """As if written a while ago: only such files are taken for unchanged."""
    os.utime(name, (1e9, 1e9))


def test_a_file_is_parsed_once_as_long_as_it_does_not_change(write, monkeypatch):
    parsed = []
    monkeypatch.setattr(sources, "read_table", lambda path: parsed.append(path) or read_table(path))
    train = write("train.csv", "text,label\n" + "".join(f"row {n},{n % 2}\n" for n in range(60)))
    test = write("test.jsonl", '{"text": "good", "label": 1}\n')
    age(train)
    age(test)
    first, again = (read_splits(train, tests=[test]) for _ in range(2))
    assert list(map(str, parsed)) == ["train.csv", "test.jsonl"]
    assert first.train.fingerprint() == again.train.fingerprint()
    assert read_rows(train, "train", labelled=False).is_labelled is False  # asked for otherwise
    write(train, "text,label\n" + "".join(f"row {n},{n // 30}\n" for n in range(60)))
    assert read_splits(train, tests=[test]).train.fingerprint() != first.train.fingerprint()


def test_a_file_written_a_moment_ago_is_read_again(write):
    name = write("a.csv", "text,label\ngood,1\nbad,0\n")
    before = read_rows(name, "train")
    write(name, "text,label\ngood,0\nbad,1\n")
    assert read_rows(name, "train").labels.tolist() != before.labels.tolist()
