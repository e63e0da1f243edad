"""Ensembles: mean probabilities of the same rows, of files and of runs."""

import json
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calmix.calibration.files.ensemble import ensemble
from calmix.calibration.files.prediction_files import write_predictions
from calmix.calibration.metrics.scores import negative_log_likelihood
from calmix.calibration.predictions import Predictions
from calmix.io.run_directory import RunDirectory, write_json, write_yaml


def drawn(seed, rows=40, ids=True, logits=True):
    generator = np.random.default_rng(seed)
    values = generator.normal(size=(rows, 3)) * 2
    labels = np.random.default_rng(0).integers(0, 3, rows)
    names = [f"r{i}" for i in range(rows)] if ids else None
    made = Predictions.from_logits(values, labels, ids=names)
    return made if logits else Predictions.from_probabilities(made.probabilities(), labels, ids=names)


@given(st.lists(st.integers(1, 10_000), min_size=2, max_size=5))
def test_the_mean_is_never_worse_than_the_mean_of_the_members_in_nll(seeds):
    """Jensen: −log of a mean is at most the mean of −log."""
    members = [drawn(seed, logits=seed % 2 == 0) for seed in seeds]
    mean = ensemble(members)
    assert np.allclose(mean.values, np.mean([m.probabilities() for m in members], axis=0))

    def nll(predictions):
        return negative_log_likelihood(predictions.probabilities(), predictions.labels, from_logits=False)

    assert nll(mean) <= np.mean([nll(member) for member in members]) + 1e-9


def test_rows_are_matched_by_id():
    first, second = drawn(1), drawn(2)
    shuffled = second.select(np.random.default_rng(3).permutation(len(second)))
    assert np.allclose(ensemble([first, shuffled]).values, ensemble([first, second]).values)


def write(tmp_path, **members):
    files = []
    for name, predictions in members.items():
        write_predictions(tmp_path / f"{name}.parquet", predictions)
        files.append(tmp_path / f"{name}.parquet")
    return files


def test_files_through_the_command(calmix, tmp_path):
    members = {"a": drawn(1), "b": drawn(2), "c": drawn(3)}
    files = write(tmp_path, **members)
    code, out, err = calmix("evaluate", "--ensemble", *files, "--no-intervals", "--json")
    assert code == 0, err
    result = json.loads(out)
    *_, mean = result["files"]
    expected = ensemble(list(members.values()))
    assert mean["file"] == "ensemble of 3"
    assert mean["members"] == [str(file) for file in files]
    assert mean["nll"] == pytest.approx(
        negative_log_likelihood(expected.values, expected.labels, from_logits=False)
    )
    assert {found["second"] for found in result["differences"]} >= {"ensemble of 3"}


def test_what_is_no_ensemble_is_refused(calmix, tmp_path):
    (alone,) = write(tmp_path, a=drawn(1))
    code, _, err = calmix("evaluate", "--ensemble", alone)
    assert (code, "an ensemble needs two members" in err) == (2, True)
    other = Predictions.from_logits(drawn(2).values, (drawn(2).labels + 1) % 3, ids=drawn(2).ids)
    code, _, err = calmix("evaluate", "--ensemble", *write(tmp_path, a=drawn(1), b=other))
    assert code == 2
    assert "are not about the same rows: the labels differ" in err


@pytest.mark.processes
def test_no_torch_is_loaded(tmp_path):
    files = write(tmp_path, a=drawn(1), b=drawn(2))
    code = (
        "import sys\nfrom calmix.cli.app import main\n"
        f"try:\n    main(['evaluate', '--ensemble', {str(files[0])!r}, {str(files[1])!r}, '--json'])\n"
        "except SystemExit as end:\n    assert not end.code\n"
        "print('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip().splitlines()[-1] == "False"


def write_run(path, seed, held_out):
    """A run whose validation rows are its own, as with another seed; its test rows are everybody's."""
    run = RunDirectory(path)
    for split, predictions in {
        "validation": Predictions.from_logits(
            drawn(seed).values, drawn(seed).labels, ids=[f"train-{row}" for row in held_out]
        ),
        "test": drawn(seed + 10),
    }.items():
        write_predictions(run.predictions_file(split), predictions)
    stages = {"uncalibrated": {}, "calibrated": {}}
    write_json(run.metrics_file, {"temperature": 2.0, "splits": {"validation": stages, "test": stages}})
    write_yaml(run.config_file, {})
    return path


def test_runs_that_held_out_different_rows_are_averaged_on_the_test_set(calmix, tmp_path):
    runs = [
        write_run(tmp_path / f"run-{seed}", seed, range(start, start + 40))
        for seed, start in ((1, 0), (2, 5))
    ]
    code, out, err = calmix("evaluate", "--ensemble", *runs, "--no-intervals", "--json")
    assert code == 0, err
    result = json.loads(out)
    made = [one["file"] for one in result["files"] if "members" in one]
    assert made == ["ensemble of 2:test", "ensemble of 2:test (uncalibrated)"]
    (note,) = result["notes"]
    assert note.startswith("no ensemble of 'validation': the members differ in its rows (5 row ids")
    code, out, _ = calmix("evaluate", "--ensemble", *runs, "--no-intervals")
    assert "no ensemble of 'validation'" in out


def test_runs_without_any_common_row_are_refused(calmix, tmp_path):
    runs = [write_run(tmp_path / f"run-{seed}", seed, range(seed, seed + 40)) for seed in (1, 2)]
    for run in runs:
        metrics = json.loads((run / "metrics.json").read_text())
        del metrics["splits"]["test"]
        write_json(run / "metrics.json", metrics)
    code, _, err = calmix("evaluate", "--ensemble", *runs)
    assert (code, "no ensemble of 'validation'" in err) == (2, True)
