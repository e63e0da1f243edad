"""Invalid input over all verbs: exit code 2, one line, nothing left behind, inputs untouched."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from bad_inputs.catalogue import CASES
from bad_inputs.deployment_cases import GOOD_PRESET, PRESET
from reliability.world import build_multi_label, run_calmix, training_options

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
    build_multi_label(folder)
    (folder / "tags.csv").rename(folder / "TAGGED.csv")
    lines = [f"{('positive;long', 'long', 'negative')[n % 3]},0.{n % 9},0.4,0.5" for n in range(60)]
    scores = "\n".join(["label,prob_long,prob_negative,prob_positive", *lines])
    (folder / "SEVERAL.csv").write_text(scores + "\n")
    tagged = folder / "TAGGED.csv"
    options = training_options(
        folder, train=tagged, validation=tagged, test=tagged, model=encoders("bert", layers=1), epochs=1
    )
    assert run_calmix("train", *options, "--label-separator", ";", "--output", folder / "TAGRUN") == 0
    return folder


def contents(folder: Path) -> dict[str, bytes | None]:
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in folder.rglob("*")
    }


def test_the_catalogue_is_large_and_names_every_case_once():
    assert len(CASES) >= 600
    assert len({case.name for case in CASES}) == len(CASES)


def test_the_preset_that_is_damaged_is_a_good_one(tmp_path):
    from calmix.reproduction.loading import load_preset

    (tmp_path / "preset.yaml").write_text(PRESET.format(**GOOD_PRESET))
    assert load_preset(tmp_path / "preset.yaml").title == "ours"


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_invalid_input_is_refused_in_one_line(case, made, calmix, encoders, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("GOOD.csv", "SCORES.csv", "TAGGED.csv", "SEVERAL.csv"):
        shutil.copy(made / name, tmp_path)
    for name in ("RUN", "TAGRUN"):
        if any(word.partition("/")[0] == name for word in case.command):
            shutil.copytree(made / name, tmp_path / name)
    if case.file:
        Path(case.file).parent.mkdir(parents=True, exist_ok=True)
        Path(case.file).write_bytes(case.content)
    words = {
        "GOOD": "GOOD.csv",
        "SCORES": "SCORES.csv",
        "TAGGED": "TAGGED.csv",
        "SEVERAL": "SEVERAL.csv",
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
