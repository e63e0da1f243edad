"""`calmix compare` from the command line: files, JSON, rendering again, and bad input."""

import csv
import json
import re
import shutil

import pytest
import yaml

FILES = {"summary.csv", "summary.md", "report.html", "runs.parquet", "differences.parquet", "config.yaml"}


def arguments(reviews, encoder, output, **changes):
    """A small comparison; an option that is None is left out."""
    options = {
        "methods": "plain,cls-mixup:alpha=0.2",
        "seeds": "0,1",
        "train": reviews / "train.csv",
        "validation": reviews / "validation.csv",
        "model": encoder,
        "output": output,
        "epochs": 2,
        "learning_rate": "5e-3",
        "threads": 1,
        **changes,
    }
    given = [(f"--{name.replace('_', '-')}", value) for name, value in options.items() if value is not None]
    tests = ["--test", reviews / "test.csv", "--test", f"other={reviews / 'other.csv'}"]
    return ["compare", *(part for pair in given for part in pair), *tests]


@pytest.fixture(scope="module")
def made(reviews, encoders, tmp_path_factory):
    """A finished comparison."""
    from calmix.cli.app import main

    output = tmp_path_factory.mktemp("compare") / "out"
    with pytest.raises(SystemExit) as ended:
        main([str(a) for a in arguments(reviews, encoders("bert", layers=1), output)])
    assert not ended.value.code
    return output


def test_the_directory_holds_what_is_promised(made):
    assert {path.name for path in made.iterdir()} >= FILES
    lines = list(csv.DictReader((made / "summary.csv").open()))
    assert {(line["split"], line["arm"], line["stage"]) for line in lines} == {
        (split, arm, stage)
        for split in ("validation", "test", "other")
        for arm in ("plain", "cls-mixup alpha=0.2")
        for stage in ("uncalibrated", "calibrated")
    }
    assert all(line["seeds"] == "2" and line["nll_std"] for line in lines)
    summary = (made / "summary.md").read_text()
    assert re.match(r"# Comparison\n\n(Use|Cannot tell|No advice)", summary)
    assert "difference to plain + TS" in summary
    assert "<html" in (made / "report.html").read_text()


def test_the_same_command_shows_the_comparison_again_and_trains_nothing(calmix, made, reviews, encoders):
    before = {path: path.stat().st_mtime_ns for path in made.glob("runs/*/metrics.json")}
    code, out, err = calmix(*arguments(reviews, encoders("bert", layers=1), made), "--json")
    assert code == 0, err
    data = json.loads(out)
    assert {path: path.stat().st_mtime_ns for path in made.glob("runs/*/metrics.json")} == before
    assert err == ""
    assert data["failures"] == []
    model = made / "runs" / data["recommendation"]["run"] / "model"
    assert data["recommendation"]["model"] == str(model)
    assert (model / "README.md").is_file()
    assert (model.parent / "report.html").is_file()
    assert {d["metric"] for d in data["differences"]} == {"accuracy", "nll", "brier", "ece", "oe"}
    ours = [d for d in data["differences"] if d["arm"] == "cls-mixup alpha=0.2" and d["reference"] == "plain"]
    pairs = {(d["stage"], d["reference_stage"]) for d in ours}
    assert pairs == {(a, b) for a in ("uncalibrated", "calibrated") for b in ("uncalibrated", "calibrated")}


def test_the_committed_files_alone_render_everything_again(calmix, made, tmp_path):
    for name in ("runs.parquet", "differences.parquet"):
        shutil.copy(made / name, tmp_path / name)
    code, out, err = calmix("compare", "--from", tmp_path)
    assert code == 0, err
    advice = (made / "summary.md").read_text().splitlines()[2]
    assert advice[:30] in out
    assert (tmp_path / "summary.csv").read_bytes() == (made / "summary.csv").read_bytes()
    assert (tmp_path / "summary.md").read_bytes() == (made / "summary.md").read_bytes()
    assert (tmp_path / "report.html").is_file()


def test_stored_runs_render_everything_again_without_their_data(calmix, made, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(made, copy)
    for name in FILES - {"config.yaml"}:
        (copy / name).unlink()
    code, out, err = calmix("compare", "--from", copy, "--output", tmp_path / "elsewhere", "--json")
    assert code == 0, err
    for name in ("summary.csv", "summary.md"):
        assert (tmp_path / "elsewhere" / name).read_bytes() == (made / name).read_bytes()
    page, before = (directory / "report.html" for directory in (tmp_path / "elsewhere", made))
    curves = [
        re.search(r'id="overlay-data">(.+?)</script>', one.read_text(), re.DOTALL)[1]
        for one in (page, before)
    ]
    assert curves[0] == curves[1], "the reliability curves are those of the stored runs"
    found = json.loads(out)
    assert found["recommendation"]["model"] == str(copy / "runs" / found["recommendation"]["run"] / "model")
    assert found["output"] == str(tmp_path / "elsewhere")


def test_the_saved_configuration_is_one_that_compare_reads(calmix, made):
    saved = yaml.safe_load((made / "config.yaml").read_text())
    assert saved["methods"] == ["plain", "cls-mixup:alpha=0.2"]
    code, out, err = calmix("compare", "--config", made / "config.yaml", "--json")
    assert code == 0, err
    assert json.loads(out)["config"] == saved


def test_a_run_that_failed_gives_exit_code_1_and_is_named(calmix, reviews, encoders, tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    broken = tmp_path / ("broken-" + "x" * 120)  # longer than a line: it must not be broken in two
    broken.mkdir()
    good = encoders("bert", layers=1)
    vary = f"model={good},{broken}"
    code, out, err = calmix(*arguments(reviews, good, tmp_path / "out", methods="plain", seeds=0, vary=vary))
    assert code == 1
    (failed,) = (line for line in out.splitlines() if line.startswith("failed: "))
    assert failed.startswith(f"failed: plain model={broken}, seed 0: {broken}: ")
    assert f"report: {tmp_path / 'out' / 'report.html'}" in out.splitlines()
    assert "FAILED" in err
    assert {path.name for path in (tmp_path / "out").iterdir()} >= FILES


@pytest.mark.parametrize(
    ("option", "value", "expected"),
    [
        ("methods", "plian", "unknown method 'plian'"),
        ("methods", None, "give --methods plain,cls-mixup"),
        ("vary", "alhpa=0.1", "did you mean 'alpha'?"),
        ("vary", "learning_rate", "write --vary NAME=VALUE,VALUE"),
        ("seeds", "zero", "'zero' is not a seed"),
        ("executor", "slurm", "choose one of local, ray, inline"),
        ("workers", "0", "--workers is 0"),
        ("keep_models", "some", "choose one of best, all, none"),
        ("train", "nowhere.csv", "nowhere.csv: no such file"),
        ("train", None, "give --train FILE"),
        ("output", None, "give --output DIRECTORY"),
        ("epochs", "0", "--epochs is 0"),
        ("from", "nowhere", "nowhere: no comparison in this directory"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(calmix, reviews, encoders, tmp_path, option, value, expected):
    given = {"output": tmp_path / "out", option: value}
    code, out, err = calmix(*arguments(reviews, encoders("bert", layers=1), **given))
    assert code == 2, err
    assert out == ""
    assert len(err.strip().splitlines()) == 1
    assert expected in err
    assert not (tmp_path / "out").exists()
