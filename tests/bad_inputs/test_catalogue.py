"""Invalid input over all verbs: exit code 2, one line, nothing left behind, inputs untouched."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from bad_inputs.catalogue import CASES

pytestmark = pytest.mark.trains  # the run that is damaged


@pytest.fixture(scope="module")
def made(reviews, encoders, tmp_path_factory):
    """A finished run of a tiny network, and a predictions file."""
    from calmix.cli.app import main

    folder = tmp_path_factory.mktemp("made")
    arguments = [
        "train", "--train", reviews / "train.csv", "--validation", reviews / "validation.csv", "--model",
        encoders("bert", layers=1), "--epochs", "1", "--output", folder / "RUN", "--threads", "1",
    ]  # fmt: skip
    with pytest.raises(SystemExit) as ended:
        main([str(argument) for argument in arguments])
    assert not ended.value.code
    (folder / "SCORES.csv").write_bytes(b"label,prob_0,prob_1\n" + b"0,.9,.1\n1,.2,.8\n0,.3,.7\n" * 70)
    shutil.copy(reviews / "train.csv", folder / "GOOD.csv")
    return folder


def contents(folder: Path) -> dict[str, bytes | None]:
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in folder.rglob("*")
    }


def test_the_catalogue_is_large_and_names_every_case_once():
    assert len(CASES) >= 400
    assert len({case.name for case in CASES}) == len(CASES)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_invalid_input_is_refused_in_one_line(case, made, calmix, encoders, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("GOOD.csv", "SCORES.csv"):
        shutil.copy(made / name, tmp_path)
    if any("RUN" in word for word in case.command):
        shutil.copytree(made / "RUN", tmp_path / "RUN")
    if case.file:
        Path(case.file).parent.mkdir(parents=True, exist_ok=True)
        Path(case.file).write_bytes(case.content)
    words = {
        "GOOD": "GOOD.csv",
        "SCORES": "SCORES.csv",
        "FILE": case.file,
        "ENCODER": str(encoders("bert", layers=1)),
    }
    arguments = []
    for word in case.command:
        for placeholder, value in words.items():
            word = word.replace(placeholder, value)
        arguments.append(word)
    before = contents(tmp_path)
    code, out, err = calmix(*arguments)
    assert code == 2, (code, out[-500:], err[-500:])
    assert out == ""
    assert len(err.strip().splitlines()) == 1, err
    assert err.startswith("calmix: ")
    assert len(err) < 1000
    assert contents(tmp_path) == before
