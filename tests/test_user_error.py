"""An error speaks of arguments in Python and of flags on the command line."""

import ast
import pickle
import re
from pathlib import Path

import pytest

import calmix
from calmix.training.configuration import TrainConfig
from calmix.user_error import UserError, argument

SOURCE = Path(calmix.__file__).parent


def test_one_message_is_worded_for_both(calmix, reviews, tmp_path):
    given = {"train": str(reviews / "train.csv"), "output": str(tmp_path / "run"), "batch_size": 0}
    said = "batch_size is 0; give a whole number of at least 1 and of at most 1000000"
    with pytest.raises(UserError) as error:
        TrainConfig(**given)
    assert str(error.value) == said
    flags = ["--train", given["train"], "--output", given["output"], "--batch-size", 0]
    assert calmix("train", *flags) == (2, "", f"calmix: {said.replace('batch_size', '--batch-size')}\n")


def test_an_error_keeps_both_wordings_between_processes():
    error = UserError("too few rows", file="a.csv", remedy=f"lower {argument('train_rows', 3)}")
    again = pickle.loads(pickle.dumps(error))
    assert str(again) == str(error) == "a.csv: too few rows; lower train_rows=3"
    assert again.on_command_line == "a.csv: too few rows; lower --train-rows 3"


def test_what_a_user_wrote_is_no_option():
    error = UserError("no such file", file="--label-weight.csv")
    assert str(error) == error.on_command_line == "--label-weight.csv: no such file"


def test_a_column_with_an_endless_name_does_not_hide_the_problem():
    said = str(UserError("not a number", file="votes.jsonl", row=1, column="p" * 5000, remedy="write one"))
    assert len(said) < 1000 and said.endswith("not a number; write one")


def test_no_error_below_the_command_line_names_a_flag():
    """`argument("epochs")` names an option; a whole command (`calmix ood ...`) may have flags."""
    found = []
    for file in SOURCE.rglob("*.py"):
        if file.relative_to(SOURCE).parts[0] == "cli":
            continue
        for call in ast.walk(ast.parse(file.read_text())):
            if not (isinstance(call, ast.Call) and getattr(call.func, "id", "") == "UserError"):
                continue
            for part in ast.walk(call):
                is_text = isinstance(part, ast.Constant) and isinstance(part.value, str)
                if is_text and re.search(r"(?<![\w-])--[a-z]", part.value):
                    found.append(f"{file.name}:{call.lineno}: {part.value}")
    commands = re.compile("calmix [a-z]+ |ray start")
    assert [line for line in found if not commands.search(line)] == []
