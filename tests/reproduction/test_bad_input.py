"""What a user can get wrong is one line and exit code 2, before anything is trained."""

import json

import pytest


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
    assert max(map(len, out.splitlines())) <= 80
    for name, record in records.items():  # one line each, under its paper
        line = next(line for line in out.splitlines() if line.startswith(f"{name} "))
        assert line.split()[1] == str(len(record["claims"]))
