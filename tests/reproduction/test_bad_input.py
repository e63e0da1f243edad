"""What a user can get wrong is one line and exit code 2, before anything is trained."""

import json
from itertools import groupby
from pathlib import Path

import pytest

import calmix.reproduction
from calmix.user_error import UserError

PRESETS = Path(calmix.reproduction.__file__).parent / "presets"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["tdmixup/tabel2", "--output", "out"], "did you mean tdmixup/table2"),
        (["tdmixup", "--output", "out"], "did you mean tdmixup/table1 or tdmixup/table2"),
        (["xyz", "--output", "out"], "no preset 'xyz'; see 'calmix reproduce --list'"),
        (["tdmixup/table2"], "give --output DIRECTORY"),
        ([], "no preset; name one of 'calmix reproduce --list'"),
        (["tdmixup/table2", "--scale", "large", "--output", "out"], "choose one of full, small, smoke"),
        (["mixup-uncertainty/imagenet", "--scale", "small", "--output", "out"], "has no scale 'small'"),
        (["tdmixup/table2", "--output", "out"], "give --data-dir DIR"),
        (["tdmixup/table2", "--data-dir", "nowhere", "--output", "out"], "nowhere: no such data directory"),
        (["mine.yaml", "--output", "out"], "mine.yaml: no such preset file"),
        (["--from", "nowhere"], "nowhere: no such directory"),
    ],
)
def test_one_line(calmix, tmp_path, monkeypatch, arguments, said):
    monkeypatch.chdir(tmp_path)
    code, out, err = calmix("reproduce", *arguments)
    assert code == 2
    assert said in err
    assert err.count("\n") == 1
    assert out == ""
    assert not (tmp_path / "out").exists()


def test_a_missing_data_set_is_said_with_the_file_and_its_source(calmix, tmp_path):
    (tmp_path / "data" / "snli").mkdir(parents=True)
    output = tmp_path / "out"
    code, _, err = calmix("reproduce", "tdmixup/table2", "--data-dir", tmp_path / "data", "--output", output)
    assert code == 2
    assert "data/snli/train.*: no train rows of the data set snli" in err
    assert "on the hub: stanfordnlp/snli" in err
    assert not output.exists()


def test_a_label_that_training_does_not_know(calmix, tmp_path):
    for name, labels in (("mr", ("good", "bad")), ("imdb", ("good", "bad"))):
        folder = tmp_path / "data" / name
        folder.mkdir(parents=True)
        for split in ("train", "validation", "test"):
            shown = [*labels, "strange"] if (name, split) == ("mr", "test") else labels
            rows = [
                json.dumps({"text": f"{label} text {n}", "label": label}) for n in range(8) for label in shown
            ]
            (folder / f"{split}.jsonl").write_text("\n".join(rows))
    code, _, err = calmix(
        "reproduce", "mixup-uncertainty/text", "--data-dir", tmp_path / "data", "--output", tmp_path / "out"
    )
    assert code == 2
    assert "strange" in err
    assert err.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_an_arm_with_an_unknown_option_leaves_nothing(calmix, tmp_path):
    """The rows and the network of the smallest scale are written before the arms are checked on them."""
    own = (PRESETS / "mixup-uncertainty" / "text.yaml").read_text().replace("alpha: 0.4", "alhpa: 0.4")
    (tmp_path / "own.yaml").write_text(own)
    code, _, err = calmix(
        "reproduce", tmp_path / "own.yaml", "--scale", "smoke", "--output", tmp_path / "out"
    )
    assert code == 2
    assert "no such option 'alhpa'; did you mean 'alpha'?" in err
    assert not (tmp_path / "out").exists()


def test_an_output_that_is_a_file(calmix, tmp_path):
    (tmp_path / "out").write_text("")
    code, _, err = calmix("reproduce", "mixup-uncertainty/figure5", "--output", tmp_path / "out")
    assert code == 2
    assert "the output is a file" in err


def test_the_list_names_what_can_be_run(calmix, monkeypatch):
    code, out, _ = calmix("reproduce", "--list", "--json")
    assert code == 0
    records = {record["name"]: record for record in json.loads(out)["presets"]}
    assert records["tdmixup/table2"]["data"]["small"][:2] == ["snli", "mnli"]
    assert records["mixup-uncertainty/imagenet"]["minutes"]["small"] is None
    monkeypatch.setenv("COLUMNS", "80")
    code, out, _ = calmix("reproduce", "--list")
    assert code == 0
    lines = out.splitlines()
    assert max(map(len, lines)) <= 80
    assert "..." not in out  # every title fits
    for paper, presets in groupby(records.values(), lambda record: record["name"].partition("/")[0]):
        place = next(place for place, line in enumerate(lines) if line.startswith(f"{paper}: "))
        for line, record in zip(lines[place + 2 :], presets, strict=False):  # one line each, under the data
            cost = record["minutes"]["small"]
            cells = [record["name"].partition("/")[2], str(len(record["claims"]))]
            cells += ["full", "only"] if cost is None else [f"{cost:,.0f}"]
            assert line.split() == [*cells, *record["title"].split()]


def test_the_list_counts_the_verdicts_of_a_directory(calmix, tmp_path):
    code, _, err = calmix("reproduce", "mixup-uncertainty/figure5", "--scale", "full", "--output", tmp_path)
    assert code == 0, err
    code, out, _ = calmix("reproduce", "--list", "--from", tmp_path)
    assert code == 0
    heading, line = (next(x for x in out.splitlines() if word in x) for word in ("reversed", "figure5"))
    assert line.split()[:3] == ["figure5", "1", "1"]
    assert line.index("1", line.index("1") + 1) == heading.index("held") + 3  # under its word
    code, out, _ = calmix("reproduce", "--list", "--from", tmp_path, "--json")
    tests = {record["name"]: record["tests"] for record in json.loads(out)["presets"]}
    assert tests["mixup-uncertainty/figure5"] == {"held": 1}
    assert tests["tdmixup/table3"] == {"not run yet": 6}
    code, _, err = calmix("reproduce", "--list", "--from", tmp_path / "nowhere")
    assert code == 2
    assert "no such directory" in err


OWN = """
place: Table 1
title: ours
metrics: [accuracy]
models: {cnn: {model: text-cnn}}
tasks: {films: {dataset: films}}
arms: {plain: {method: plain}}
scales: {full: {seeds: [0]}}
"""


def test_a_preset_named_without_its_directory_stays_in_the_output(tmp_path, monkeypatch):
    from calmix.reproduction.loading import load_preset

    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.yaml").write_text(OWN)
    name = load_preset(Path("mine.yaml")).name
    assert name == f"{tmp_path.name}/mine"
    assert (Path("out") / name).resolve().is_relative_to(tmp_path / "out")


@pytest.mark.parametrize("name", ["../../x", "/x", "..", "a/b"])
def test_names_in_a_preset_lead_nowhere_else(tmp_path, name):
    from calmix.reproduction.loading import load_preset

    for place in ("dataset: films", "{films:", "{cnn:"):
        file = tmp_path / "mine.yaml"
        changed = place.replace("films", f'"{name}"').replace("cnn", f'"{name}"')
        file.write_text(OWN.replace(place, changed))
        with pytest.raises(UserError, match="is not a name; give one without slashes"):
            load_preset(file)


CLAIM = """
claims: {c: {statement: s, place: p, arm: mix, against: plain, metric: ece, direction: lower}}
"""


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ("lower}", "equal, margin: -1}", "margin is -1; give points above 0"),
        ("lower}", "equal, margin: nil}", "margin is 'nil'; give a number"),
        ("lower}", "equal, margin: .nan}", "margin is nan; give a number"),
        ("lower}", "lower, reported: {films: a}}", "reported: films is 'a'; give a number"),
        ("lower}", "lower, against: mix}", "'mix' is compared with itself"),
        ("seeds: [0]", "seeds: [true]", "seeds is [True]"),
        ("seeds: [0]", "seeds: []", "seeds is []"),
        (
            "dataset: films}",
            "dataset: films, outside: {films: other}}",
            "two data sets for the column 'films'",
        ),
        (
            "films}}",
            "films, outside: {o: a}}, b: {dataset: b, outside: {o: c}}}",
            "two data sets for the col",
        ),
        ("dataset: films}", "dataset: films, arms: {mix: [1]}}", "arms: mix is [1]"),
        ("title: ours", "title: ours\ndetection: {noise: pink}", "detection: noise is 'pink'"),
        ("title: ours", "title: ours\ndetection: {passes: -3}", "detection: passes is -3"),
    ],
)
def test_a_value_that_would_give_a_wrong_verdict_or_fail_after_training(tmp_path, before, after, said):
    from calmix.reproduction.loading import load_preset

    text = OWN.replace("{plain: {method: plain}}", "{plain: {method: plain}, mix: {method: erl}}") + CLAIM
    file = tmp_path / "mine.yaml"
    file.write_text(text)
    assert load_preset(file).claims
    assert before in text
    file.write_text(text.replace("against: plain, ", "") if "against" in after else text)
    file.write_text(file.read_text().replace(before, after))
    with pytest.raises(UserError) as error:
        load_preset(file)
    assert said in str(error.value)


def test_an_outcome_of_another_name_writes_no_page(tmp_path):
    from calmix.report.reproductions.pages import write_pages
    from calmix.reproduction.outcome import Outcome

    output = tmp_path / "inner" / "out"
    written = Outcome("tdmixup/table2", "small", "calmix", "0").write(output)
    record = json.loads(written.read_text())
    written.write_text(json.dumps({**record, "preset": "../../x"}))
    (tmp_path / "x.yaml").write_text(OWN)
    with pytest.raises(UserError, match="is in the file of another"):
        write_pages(output)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["inner", "x.yaml"]


def test_pages_are_not_written_over_the_files_of_others(calmix, tmp_path):
    (tmp_path / "README.md").write_text("mine")
    code, _, err = calmix("reproduce", "--from", tmp_path)
    assert code == 2
    assert "no reproduction in this directory" in err
    assert (tmp_path / "README.md").read_text() == "mine"
