"""Names, labels and files that somebody else made: they lead nowhere, draw nothing and are not run."""

import csv
import json
import os

import numpy as np
import pyarrow as pa
import pytest

from calmix.calibration.calibrators.calibrator import get_calibrator
from calmix.calibration.files.prediction_files import write_predictions
from calmix.calibration.predictions import Predictions
from calmix.cli.options import print_json
from calmix.io.run_directory import RunDirectory, remove_leftovers, write_json, write_yaml
from calmix.io.spreadsheet import spreadsheet_safe
from calmix.printable import printable
from calmix.report.tables import Column, Table
from calmix.training.pipeline.run_store import RunStore
from calmix.user_error import UserError

ESCAPE = "\x1b[2J\x9b31m\x07\u202e"


def predictions(rows=40, classes=2):
    generator = np.random.default_rng(0)
    labels = generator.integers(classes, size=rows)
    return Predictions.from_logits(
        generator.normal(size=(rows, classes)) + 2 * np.eye(classes)[labels], labels
    )


@pytest.fixture
def foreign_run(tmp_path):
    """A run whose splits are named to lead out of it."""
    run = RunDirectory(tmp_path / "run")
    names = ["validation", "../../../victim", "/tmp/victim"]
    write_yaml(run.config_file, {"max_length": 16})
    write_predictions(run.predictions_file("validation"), predictions())
    write_predictions(tmp_path / "victim.parquet", predictions())
    stages = {"calibrated": {}, "uncalibrated": {}}
    write_json(run.metrics_file, {"temperature": 1.0, "splits": dict.fromkeys(names, stages)})
    return run


def test_the_splits_of_a_run_are_no_paths(calmix, foreign_run, tmp_path):
    victim = (tmp_path / "victim.parquet").read_bytes()
    output = tmp_path / "a" / "b" / "output"
    for arguments in (
        ("calibrate", foreign_run.path, "--fit-on", "validation", "--output", output),
        ("evaluate", foreign_run.path),
    ):
        code, _, err = calmix(*arguments)
        assert code == 2
        assert "'../../../victim' cannot be a name" in err
    assert not output.exists()
    assert (tmp_path / "victim.parquet").read_bytes() == victim


@pytest.mark.parametrize("name", ["../../notes", "/etc", "..", "", "a/b", "a\\b"])
def test_the_runs_of_a_comparison_are_no_paths(tmp_path, name):
    store = RunStore(tmp_path / "runs")
    for use in (store.run, store.log_file, store.failure_file, store.drop_model):
        with pytest.raises(UserError, match="cannot be a name"):
            use(name)


def test_escapes_do_not_reach_the_terminal(capsys):
    line = str(UserError(f"no column {ESCAPE}", file=f"data{ESCAPE}.csv", remedy=f"name {ESCAPE}"))
    table = Table(f"caption {ESCAPE}", [Column(f"title {ESCAPE}")], [[f"cell {ESCAPE}"]], [f"note {ESCAPE}"])
    from rich.console import Console

    console = Console(width=200)
    with console.capture() as shown:
        console.print(table.to_rich())
    print_json({"label": f"{ESCAPE}é", "lines": ["a\nb"]})
    out = capsys.readouterr().out
    assert json.loads(out) == {"label": f"{ESCAPE}é", "lines": ["a\nb"]}
    for text in (line, shown.get(), out):
        assert "\\x1b[2J" in text or "\\u001b[2J" in text
        assert not set(ESCAPE[:1] + "\x9b\x07\u202e") & set(text)
    assert printable("naïve 日本 😀") == "naïve 日本 😀"


def test_a_path_with_escapes_in_the_command_line(calmix, tmp_path):
    code, _, err = calmix("evaluate", tmp_path / f"no{ESCAPE}.csv")
    assert code == 2
    assert "\x1b" not in err
    assert "\u202e" not in err


def test_formulas_in_files_for_spreadsheets(tmp_path):
    cells = ["=cmd|' /C calc'!A0", "+1+1", "-2+3", "@SUM(A1)", "\tx", "\rx", "-5", "+1e3", "good", None, ""]
    table = spreadsheet_safe(pa.table({"=name": cells, "score": [-1.0] * len(cells)}))
    assert table.column_names == ["'=name", "score"]
    escaped = [f"'{cell}" for cell in cells[:6]]
    assert table.column(0).to_pylist() == [*escaped, *cells[6:]]
    assert table.column(1).to_pylist() == [-1.0] * len(cells)


def test_the_lists_of_label_issues_hold_no_formulas(tmp_path):
    from calmix.dynamics.cleanlab_export import write_cleanlab_issues
    from calmix.dynamics.datamap import DataMap
    from calmix.dynamics.dynamics_file import datamap_table, write_datamap
    from calmix.dynamics.training_dynamics import TrainingDynamics

    generator = np.random.default_rng(0)
    ids = [f"=HYPERLINK({place})" for place in range(6)]
    dynamics = TrainingDynamics.from_logits(generator.normal(size=(6, 3, 2)), np.arange(6) % 2, row_ids=ids)
    datamap = DataMap.from_dynamics(dynamics)
    write_cleanlab_issues(tmp_path / "issues.csv", datamap)
    write_datamap(tmp_path, datamap_table(datamap))
    for name in ("issues.csv", "datamap.csv"):
        with (tmp_path / name).open(newline="") as file:
            assert [line["row_id"] for line in csv.DictReader(file)] == [f"'{row_id}" for row_id in ids]


@pytest.mark.parametrize("how", ["same", "symlink", "hard link"])
def test_the_input_of_predict_is_not_written_over(tmp_path, how):
    from calmix.io.writing import check_not_input

    texts, output = tmp_path / "x.csv", tmp_path / "x.csv"
    texts.write_text("text\ngood\n")
    if how != "same":
        output = tmp_path / "answers.csv"
        output.symlink_to(texts) if how == "symlink" else os.link(texts, output)
    with pytest.raises(UserError, match="the output is the input; name another output"):
        check_not_input(output, texts)
    check_not_input(tmp_path / "new.csv", texts)
    check_not_input(output, "embedded:mnist-5k", None)
    from calmix.workflows.predict import predict

    with pytest.raises(UserError, match="the output is the input"):
        predict("no run", texts, output=output)  # refused before the model is looked at
    assert texts.read_text() == "text\ngood\n"


def test_a_map_is_not_written_over_files_of_others(tmp_path):
    from calmix.report.maps.map_directory import check_map_directory

    (tmp_path / "summary.json").write_text('{"mine": 1}')
    (tmp_path / "issues.csv").write_text("a,b\n")
    with pytest.raises(UserError, match="not empty and holds no map"):
        check_map_directory(tmp_path)
    summary = {"source": {}, "label_noise": {}, "suspect_count": 0, "files": ["summary.json", "issues.csv"]}
    (tmp_path / "summary.json").write_text(json.dumps(summary))
    check_map_directory(tmp_path)
    (tmp_path / "notes.txt").write_text("mine")
    check_map_directory(tmp_path)
    (tmp_path / "noise.parquet").write_text("mine")
    with pytest.raises(UserError, match=r"noise\.parquet: this file does not belong"):
        check_map_directory(tmp_path)


@pytest.mark.parametrize("umask", [0o022, 0o077, 0o002])
def test_weights_can_be_read_by_whom_the_umask_allows(tmp_path, umask):
    before = os.umask(umask)
    try:
        given = predictions()
        get_calibrator("vector").fit(given.values, given.labels).save(tmp_path)
    finally:
        os.umask(before)
    assert (tmp_path / "calibrator.safetensors").stat().st_mode & 0o777 == 0o666 & ~umask


def test_two_calibrations_into_one_output(tmp_path, monkeypatch):
    from calmix.inference import calibrated_directory, post_hoc

    file, output = tmp_path / "predictions.parquet", tmp_path / "output"
    write_predictions(file, predictions())

    def other_is_faster(*args):
        (output / "predictions").mkdir(parents=True)
        (output / "predictions" / "first.txt").write_text("mine")

    monkeypatch.setattr(calibrated_directory, "write_json", other_is_faster)
    with pytest.raises(UserError, match="the output exists already"):
        post_hoc.calibrate(file, str(file), "temperature", output)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["output", "predictions.parquet"]
    assert [path.name for path in output.rglob("*.*")] == ["first.txt"]


def test_only_our_own_unfinished_files_are_removed(tmp_path):
    for name in (
        ".71.metrics.json",
        ".5.notes",
        ".gitignore",
        "notes",
        ".1.report.html",
        "report.html",
        ".8.",
    ):
        (tmp_path / name).write_text("")
    (tmp_path / "notes").unlink()
    remove_leftovers(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {".5.notes", ".gitignore", "report.html", ".8."}
