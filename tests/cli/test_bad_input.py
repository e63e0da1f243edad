"""Bad input: exit code 2, one line that says what and where, and nothing left behind."""

import json

import pytest
import yaml

GOOD = "text,label\ngreat film,positive\ndull plot,negative\nwarm story,positive\nweak scene,negative\n"


@pytest.fixture
def complaint(calmix, encoders, tmp_path):
    """Run `calmix train` on the good file, changed; give back the one line it prints."""
    good = tmp_path / "good.csv"
    good.write_text(GOOD * 1)

    def run(*more, output=tmp_path / "run", **changes):
        options = {"train": good, "model": encoders("bert"), "output": output, "validation": good, **changes}
        arguments = [part for name, value in options.items() if value for part in (f"--{name}", value)]
        code, out, err = calmix("train", *arguments, *more)
        assert code == 2, (code, out, err)
        assert out == ""
        lines = err.strip().splitlines()
        assert len(lines) == 1, err
        assert lines[0].startswith("calmix: ")
        if output == tmp_path / "run":
            assert not output.exists()
        return lines[0]

    run.folder = tmp_path
    return run


def file(complaint, name, content):
    path = complaint.folder / name
    path.write_text(content)
    return path


def test_missing_file(complaint):
    path = complaint.folder / "nowhere.csv"
    line = complaint(train=path)
    assert str(path) in line
    assert "no such file" in line


def test_empty_file(complaint):
    path = file(complaint, "empty.csv", "")
    line = complaint(train=path)
    assert str(path) in line
    assert "empty" in line


def test_unknown_extension(complaint):
    line = complaint(train=file(complaint, "rows.xls", GOOD))
    assert "rows.xls" in line
    assert ".jsonl" in line


def test_malformed_row_is_named_by_number(complaint):
    line = complaint(train=file(complaint, "rows.csv", GOOD + "one,two,three,four\n"))
    assert "rows.csv, row 5" in line
    line = complaint(train=file(complaint, "rows.jsonl", '{"text": "a", "label": "x"}\n{"text": \n'))
    assert "rows.jsonl, row 2" in line


def test_missing_column_lists_those_there_are(complaint):
    line = complaint(train=file(complaint, "rows.csv", GOOD.replace("text,label", "sentence,label")))
    assert "'text'" in line
    assert "sentence" in line
    assert "--text-column" in line


def test_one_class_only(complaint):
    line = complaint(train=file(complaint, "rows.csv", "text,label\ngood,positive\nfine,positive\n"))
    assert "rows.csv" in line
    assert "positive" in line


def test_unknown_label_in_a_test_file(complaint):
    path = file(complaint, "test.csv", "text,label\ngood,positive\nso so,mixed\n")
    line = complaint(test=path)
    assert "test.csv, row 2, column 'label'" in line
    assert "'mixed'" in line
    assert "negative" in line


def test_empty_text(complaint):
    line = complaint(train=file(complaint, "rows.csv", GOOD + "  ,negative\n"))
    assert "rows.csv, row 5, column 'text'" in line
    assert "empty" in line


def test_choices_of_unequal_length(complaint):
    rows = [{"text": "a", "choices": ["x", "y"], "label": 0}, {"text": "b", "choices": ["x"], "label": 0}]
    line = complaint(train=file(complaint, "rows.jsonl", "\n".join(map(json.dumps, rows))))
    assert "rows.jsonl, row 2, column 'choices'" in line


def test_a_model_path_that_is_not_a_model(complaint):
    folder = complaint.folder / "not-a-model"
    folder.mkdir()
    line = complaint(model=folder)
    assert str(folder) in line
    assert "holds no tokenizer" in line


def test_an_output_directory_that_holds_something_else(complaint):
    folder = complaint.folder / "papers"
    folder.mkdir()
    (folder / "thesis.txt").write_text("precious")
    line = complaint(output=folder)
    assert "not empty and holds no run" in line
    assert (folder / "thesis.txt").read_text() == "precious"


def test_an_output_directory_that_holds_another_run(complaint):
    folder = complaint.folder / "other-run"
    folder.mkdir()
    (folder / "config.yaml").write_text(yaml.safe_dump({"seed": 3}))
    (folder / "metrics.json").write_text("{}")
    line = complaint(output=folder)
    assert "holds a finished run; name another --output" in line
    assert (folder / "metrics.json").read_text() == "{}"


def test_a_negative_epoch_count(complaint):
    assert "--epochs is -1; give a whole number of at least 1" in complaint("--epochs", "-1")


def test_an_unknown_method_suggests_the_nearest(complaint):
    assert "unknown method 'plian'; did you mean plain" in complaint("--method", "plian")


def test_an_option_that_the_method_lacks(complaint):
    assert "method 'plain' has no option 'alpha'" in complaint("--alpha", "0.4")


def test_a_configuration_file_with_an_unknown_key(complaint):
    path = file(complaint, "options.yaml", "epoch: 3\n")
    line = complaint("--config", path)
    assert "options.yaml: unknown key 'epoch'; did you mean 'epochs'?" in line


def test_an_unknown_trainer_argument(complaint):
    path = file(complaint, "options.yaml", "trainer:\n  weight_decoy: 3\n")
    assert "weight_decoy" in complaint("--config", path)


def test_a_configuration_file_that_is_not_yaml(complaint):
    assert "not valid YAML" in complaint("--config", file(complaint, "options.yaml", "a: [1\n"))


def test_an_option_that_does_not_exist(complaint):
    assert "--epoch" in complaint("--epoch", "3")


def test_a_value_of_the_wrong_type(complaint):
    assert "--epochs" in complaint("--epochs", "three")


def test_no_training_data_and_no_output(calmix, tmp_path):
    code, _, err = calmix("train", "--output", tmp_path / "run")
    assert (code, err) == (2, "calmix: no training data; give --train FILE\n")
    code, _, err = calmix("train", "--train", "x.csv")
    assert (code, err) == (2, "calmix: no output directory; give --output DIRECTORY\n")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--method", "manifold-mixup", "--method-option", "layers=[9]"], "has no mix point 9"),
        (["--method", "cls-mixup", "--method-option", "alpha=abc"], "alpha is 'abc'; give a number"),
        (["--method", "cls-mixup", "--method-option", "alpha=[0"], "has no readable value"),
        (["--method", "input-mixup", "--method-option", "padding=left"], "padding is 'left'"),
        (["--device", "gpu"], "--device is 'gpu'"),
    ],
)
def test_what_a_method_or_device_cannot_do_is_said_before_anything_is_written(complaint, options, said):
    assert said in complaint(*options)


@pytest.mark.parametrize(
    "line", ["seed: 7", "output_dir: elsewhere", "save_total_limit: 1", "eval_strategy: 'no'"]
)
def test_what_calmix_decides_itself_is_not_taken_from_the_trainer_table(complaint, line):
    path = file(complaint, "options.yaml", f"trainer:\n  {line}\n")
    assert "trainer:" in complaint("--config", path)


def test_an_output_under_a_file(complaint):
    path = file(complaint, "notes.txt", "precious")
    assert "a file is in the way" in complaint(output=path / "run")
