"""The command line offers what `TrainConfig` declares, and a configuration file is held to the same types."""

import pytest
import typer

from calmix.cli.app import app
from calmix.training.configuration import OPTIONS, TAUGHT
from calmix.user_error import flag_of

OWN = {
    "train": {"--resume", "--figures"},
    "distill": {"--resume", "--figures"},
    "compare": {
        "--methods", "--seeds", "--vary", "--executor", "--workers", "--keep-models", "--margin", "--from",
        "--ensemble", "--student", "--arm", "--figures",
    },
}  # fmt: skip
WITHOUT = {
    "train": set(TAUGHT),
    "distill": set(),
    "compare": {*TAUGHT, "method", "seed", "plain_run", "trust_remote_code"},
}


@pytest.mark.parametrize("verb", OWN)
def test_the_command_line_offers_what_is_declared_and_nothing_else(verb):
    offered = {option.opts[0]: option for option in typer.main.get_command(app).commands[verb].params}
    declared = {
        flag_of(name): option for name, option in OPTIONS.items() if option.flag and name not in WITHOUT[verb]
    }
    assert set(offered) - set(declared) >= OWN[verb]
    assert set(offered) - set(declared) - OWN[verb] <= {"--alpha", "--config", "--json", "--store"}
    for flag, option in declared.items():
        is_student = verb == "distill" and flag == "--model"
        default = None if option.kind in (tuple, dict) or is_student else option.default
        assert offered[flag].default == default, flag
        for choice in option.choices:
            assert choice in offered[flag].help


@pytest.mark.parametrize("verb", OWN)
def test_the_help_fits_80_columns_and_names_every_option_once(calmix, monkeypatch, verb):
    monkeypatch.setenv("COLUMNS", "80")
    assert max(map(len, calmix(verb, "--help")[1].splitlines())) <= 80
    monkeypatch.setenv("COLUMNS", "120")
    _, out, _ = calmix(verb, "--help")
    listed = [line.split()[1] for line in out.splitlines() if line.startswith("│ --")]
    declared = [flag_of(name) for name, found in OPTIONS.items() if found.flag and name not in WITHOUT[verb]]
    assert len(listed) == len(set(listed)) and set(declared) <= set(listed)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("epoch: 3", "unknown key 'epoch'; did you mean 'epochs'?"),
        ("seed: true", "--seed is True; give a whole number"),
        ("seed: 4294967296", "--seed is 4294967296; give a whole number"),
        ("epochs: 2.5", "--epochs is 2.5; give a whole number"),
        ("learning_rate: .nan", "--learning-rate is nan; give a number"),
        ("learning-rate: [1, 2]", "--learning-rate is a list; give a number"),
        ("train: [a.csv, b.csv]", "--train is a list; give text"),
        ("label_column: yes", "--label-column is True; give text"),
        ("aum_filter: 2", "--aum-filter is 2; give true or false"),
        ("trainer: 3", "--trainer is 3; give a table of names and values"),
        ("closed: up", "--closed is 'up'; choose one of right, left"),
        ("resume: 3", "--resume is 3; give true or false"),
        ("teacher_options: {alpha: 1}", "--teacher-option without a teacher; give --teacher"),
    ],
)
def test_a_configuration_file_is_not_turned_into_something_else(calmix, tmp_path, reviews, line, said):
    (tmp_path / "config.yaml").write_text(f"{line}\n")
    train = () if line.startswith("train:") else ("--train", reviews / "train.csv")
    code, out, err = calmix(
        "train", *train, "--output", tmp_path / "run", "--config", tmp_path / "config.yaml"
    )
    assert (code, out) == (2, "")
    assert said in err and len(err.splitlines()) == 1
    assert not (tmp_path / "run").exists()


def test_a_key_of_training_is_none_of_another_verb(calmix, tmp_path):
    (tmp_path / "config.yaml").write_text("trainer: {weight_decay: 0.1}\n")
    code, _, err = calmix("evaluate", "a.csv", "--config", tmp_path / "config.yaml")
    assert code == 2 and "unknown key 'trainer'" in err
