"""The Python files of a checkpoint are run only where a flag says so, and nobody is ever asked."""

import io
import json
import shutil

import pytest

from calmix.io.run_directory import write_yaml
from calmix.training.configuration import TrainConfig

CODE = """
from pathlib import Path

from transformers import BertConfig, BertForSequenceClassification, PreTrainedTokenizerFast

Path({traces!r}).mkdir(exist_ok=True)
(Path({traces!r}) / __name__.rpartition(".")[2]).write_text("was run")


class ForeignConfig(BertConfig):
    model_type = "foreign"


class ForeignModel(BertForSequenceClassification):
    config_class = ForeignConfig


class ForeignTokenizer(PreTrainedTokenizerFast):
    pass
"""


@pytest.fixture
def foreign(encoders, tmp_path):
    """A checkpoint of an unknown architecture whose code leaves a trace, and the place of the trace."""
    directory, traces = tmp_path / "foreign", tmp_path / "traces"
    shutil.copytree(encoders("bert"), directory)
    config = json.loads((directory / "config.json").read_text())
    config |= {
        "model_type": "foreign",
        "architectures": ["ForeignModel"],
        "id2label": {"0": "negative", "1": "positive"},
        "label2id": {"negative": 0, "positive": 1},
        "auto_map": {
            "AutoConfig": "foreign.ForeignConfig",
            "AutoModelForSequenceClassification": "foreign.ForeignModel",
        },
    }
    (directory / "config.json").write_text(json.dumps(config))
    (directory / "foreign.py").write_text(CODE.format(traces=str(traces)))
    return directory, traces


@pytest.fixture
def foreign_tokenizer(encoders, tmp_path):
    """A network that everybody knows, with a tokenizer of its own code."""
    directory, traces = tmp_path / "tokenizer", tmp_path / "traces"
    shutil.copytree(encoders("bert"), directory)
    config = json.loads((directory / "tokenizer_config.json").read_text())
    config |= {
        "tokenizer_class": "ForeignTokenizer",
        "auto_map": {"AutoTokenizer": [None, "foreign.ForeignTokenizer"]},
    }
    (directory / "tokenizer_config.json").write_text(json.dumps(config))
    (directory / "foreign.py").write_text(CODE.format(traces=str(traces)))
    return directory, traces


def commands(directory, reviews, encoder, output):
    train, test = reviews / "train.csv", reviews / "test.csv"
    short = ("--epochs", 1, "--threads", 1, "--output", output)
    return {
        "train": ("train", "--model", directory, "--train", train, *short),
        "distill": ("distill", "--teacher", directory, "--model", encoder, "--train", train, *short),
        "student": ("distill", "--teacher", "plain", "--model", directory, "--train", train, *short),
        "evaluate": ("evaluate", "--model", directory, "--data", test),
        "dropout": ("evaluate", "--model", directory, "--data", test, "--mc-dropout", 2),
        "calibrate": ("calibrate", directory, "--fit-on", test, "--output", output),
    }


VERBS = ("train", "distill", "student", "evaluate", "dropout", "calibrate")


@pytest.mark.parametrize("verb", VERBS)
def test_no_code_of_a_checkpoint_is_run_whatever_stands_on_standard_input(
    calmix, reviews, encoders, foreign, tmp_path, monkeypatch, verb
):
    directory, traces = foreign
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n" * 100))
    output = tmp_path / "output"
    code, out, err = calmix(*commands(directory, reviews, encoders("bert"), output)[verb], "--json")
    assert code == 2
    assert out == ""
    assert "brings Python code of its own" in err
    assert "--trust-remote-code" in err
    assert sum(line.startswith("calmix: ") for line in err.splitlines()) == 1
    assert not traces.exists()
    assert not output.exists()


@pytest.mark.parametrize("verb", VERBS)
def test_a_flag_lets_it_run(calmix, reviews, encoders, foreign, tmp_path, monkeypatch, verb):
    directory, traces = foreign
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    arguments = commands(directory, reviews, encoders("bert"), tmp_path / "output")[verb]
    code, out, err = calmix(*arguments, "--json", "--trust-remote-code")
    assert code == 0, err
    assert json.loads(out)
    assert list(traces.iterdir())


def test_code_of_a_tokenizer_is_not_run_either(
    calmix, reviews, encoders, foreign_tokenizer, tmp_path, monkeypatch
):
    directory, traces = foreign_tokenizer
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n" * 100))
    for arguments in commands(directory, reviews, encoders("bert"), tmp_path / "output").values():
        _, out, _ = calmix(*arguments, "--json")
        assert "[y/N]" not in out
        assert not traces.exists()
        shutil.rmtree(tmp_path / "output", ignore_errors=True)


def test_a_run_that_somebody_else_made_does_not_give_the_flag(calmix, reviews, foreign, tmp_path):
    directory, traces = foreign
    run = tmp_path / "run"
    config = TrainConfig(str(reviews / "train.csv"), str(run), model=str(directory), epochs=1)
    run.mkdir()
    assert "trust_remote_code" not in config.as_dict()
    write_yaml(run / "config.yaml", {**config.as_dict(), "trust_remote_code": True})
    code, _, err = calmix("train", "--resume", "--output", run)
    assert code == 2
    assert "brings Python code of its own" in err
    assert not traces.exists()
    code, _, err = calmix("train", "--config", run / "config.yaml", "--output", tmp_path / "again")
    assert code == 2
    assert "trust in remote code is not read from a file; give --trust-remote-code on the command line" in err


@pytest.mark.parametrize("more", [(), ("--trust-remote-code",)])
def test_our_own_networks_load_without_their_copied_code(calmix, reviews, tmp_path, more):
    run = tmp_path / "cnn"
    options = ("--model", "text-cnn", "--model-option", "vectors=random", "--epochs", 1, "--threads", 1)
    code, _, err = calmix("train", "--train", reviews / "train.csv", *options, "--output", run)
    assert code == 0, err
    own = run / "model" / "text_cnn.py"
    own.write_text(own.read_text() + f"\nopen({str(tmp_path / 'trace')!r}, 'w').close()\n")
    code, _, err = calmix("evaluate", "--model", run / "model", "--data", reviews / "test.csv", *more)
    assert code == 0, err
    assert not (tmp_path / "trace").exists()
