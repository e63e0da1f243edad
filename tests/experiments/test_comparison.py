"""A whole comparison: what it leaves, how it is extended, and that nothing stops it for good."""

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace

import numpy as np
import pyarrow.parquet as pq
import pytest
import yaml

from calmix.experiments.comparison import compare, load, report_data, working_in
from calmix.experiments.comparison_plan import CompareConfig, Plan
from calmix.experiments.results import Results
from calmix.io.run_directory import RunDirectory
from calmix.user_error import UserError


def finished(directory):
    """When each run was finished."""
    return {path.parent.name: path.stat().st_mtime_ns for path in (directory / "runs").glob("*/metrics.json")}


@pytest.fixture(scope="module")
def made(tiny, tmp_path_factory):
    """A comparison of two methods over two seeds, and what it gave."""
    directory = tmp_path_factory.mktemp("compared") / "out"
    config = CompareConfig(tiny(directory), methods=("cls-mixup",), seeds=(0, 1))
    return config, compare(config)


def test_every_run_is_in_the_results(made):
    config, results = made
    assert [arm.name for arm in results.arms] == ["plain", "cls-mixup"]
    assert len(results.runs) == 2 * 2 * 3 * 2
    assert results.failures == []
    assert len(finished(config.directory)) == 4
    saved = yaml.safe_load((config.directory / "config.yaml").read_text())
    assert (saved["methods"], saved["seeds"], saved["threads"]) == (["cls-mixup"], [0, 1], 1)


def test_the_best_seed_of_each_arm_keeps_its_model(made):
    config, results = made
    with_model = {path.parent.name for path in (config.directory / "runs").glob("*/model")}
    expected = set()
    for arm in ("plain", "cls-mixup"):
        runs = results.select(arm=arm, split="validation", stage="calibrated")
        expected.add(min(runs, key=lambda record: record["nll"])["run"])
    assert with_model == expected
    recommendation = report_data(results, config.directory)["recommendation"]
    assert recommendation["model"] == str(config.directory / "runs" / recommendation["run"] / "model")


def test_the_metrics_are_those_of_the_runs(made):
    config, results = made
    for record in results.runs:
        stored = RunDirectory(config.directory / "runs" / record["run"]).metrics()
        assert record["nll"] == stored["splits"][record["split"]][record["stage"]]["nll"]
        assert record["seed"] == stored["seed"]


def test_the_stored_results_are_those_that_were_given(made):
    config, results = made
    assert Results.read(config.directory) == results
    assert load(config.directory) == results


def test_an_extended_comparison_repeats_no_run(made):
    config, results = made
    before = finished(config.directory)
    wider = replace(config, methods=("plain", "cls-mixup", "focal"))
    extended = compare(wider)
    after = finished(config.directory)
    assert {name: after[name] for name in before} == before
    assert len(after) == len(before) + 2
    assert [r for r in extended.runs if r["arm"] != "focal"] == results.runs
    # A method and its options is one run, however it was asked for.
    compare(replace(config, methods=("plain:label_smoothing=0", "cls-mixup:alpha=0.4")))
    assert finished(config.directory) == after


def test_a_run_that_fails_is_reported_and_does_not_stop_the_rest(tiny, tmp_path):
    broken = tmp_path / "broken"
    broken.mkdir()
    good = tiny("x").model
    config = CompareConfig(
        tiny(tmp_path / "out"), methods=("plain",), seeds=(0,), vary=(f"model={broken},{good}",)
    )
    results = compare(config)
    assert [failure["arm"] for failure in results.failures] == [f"plain model={broken}"]
    assert "holds no tokenizer" in results.failures[0]["reason"]
    assert {record["arm"] for record in results.runs} == {f"plain model={good}"}
    assert report_data(results, config.directory)["failures"] == results.failures


def test_where_every_run_fails_the_reason_is_the_error(tiny, tmp_path):
    broken = tmp_path / "broken"
    broken.mkdir()
    config = CompareConfig(tiny(tmp_path / "out", model=str(broken)), methods=("plain",), seeds=(0,))
    with pytest.raises(UserError, match=r"all 1 runs failed; plain, seed 0: .*holds no tokenizer"):
        compare(config)


def test_bad_data_are_found_before_anything_is_made(tiny, tmp_path):
    config = CompareConfig(tiny(tmp_path / "out", train=str(tmp_path / "nowhere.csv")))
    with pytest.raises(UserError, match="no such file"):
        compare(config)
    assert not (tmp_path / "out").exists()


def test_a_directory_of_something_else_is_left_alone(tiny, tmp_path):
    (tmp_path / "thesis.txt").write_text("precious")
    with pytest.raises(UserError, match="holds no comparison"):
        compare(CompareConfig(tiny(tmp_path)))
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


def test_two_comparisons_do_not_work_in_one_directory(tiny, tmp_path):
    with working_in(tmp_path), pytest.raises(UserError, match="another comparison is at work"):
        compare(CompareConfig(tiny(tmp_path)))


def test_the_threads_of_the_first_runs_stay(made, monkeypatch):
    """Another number of workers must not give a run other bits, and so another name."""
    config, _ = made
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    unset = replace(config, base=replace(config.base, threads=None))
    before = finished(config.directory)
    compare(unset)
    assert finished(config.directory) == before
    assert Plan.read(config.directory).config["threads"] == 1


def test_the_size_of_the_training_set_can_be_varied(tiny, tmp_path):
    config = CompareConfig(tiny(tmp_path / "out"), methods=("plain",), seeds=(0,), vary=("train_rows=32,64",))
    results = compare(config)
    sizes = {record["arm"]: record["train_n"] for record in results.runs}
    assert sizes == {"plain train_rows=32": 32, "plain train_rows=64": 64}
    assert {record["n"] for record in results.runs if record["split"] == "validation"} == {48}


KILLS = 8  # `make soak` does hundreds


def command(tiny, output):
    config = tiny(output)
    tests = [part for test in config.test for part in ("--test", test)]
    return [
        sys.executable, "-m", "calmix", "compare", "--methods", "plain,cls-mixup", "--seeds", "0,1,2",
        "--train", config.train, "--validation", config.validation, *tests,
        "--model", config.model, "--output", str(output), "--learning-rate", "5e-3", "--epochs", "6",
        "--batch-size", "8", "--threads", "1", "--checkpoint-steps", "4", "--keep-models", "all",
    ]  # fmt: skip


def is_at_work(output, since):
    """Whether a run has been written to by the process that was started then."""
    return any(path.stat().st_mtime > since for path in output.glob("runs/*/checkpoints/*"))


def kill_at_random(arguments, output, generator):
    """Start the comparison and kill it with all its processes: while it starts, or while it works."""
    since, started = time.time(), time.monotonic()
    process = subprocess.Popen(
        arguments, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True, text=True
    )
    if generator.random() < 0.6:
        wait = generator.uniform(0, 5)
    else:
        while not is_at_work(output, since) and process.poll() is None and time.monotonic() - started < 60:
            time.sleep(0.01)
        wait = generator.uniform(0, 1.5)
    try:
        process.wait(wait)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        return True
    assert process.returncode == 0, process.stderr.read()
    return False


def test_killed_again_and_again_it_ends_with_the_same_summary(tiny, tmp_path):
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    subprocess.run(command(tiny, whole), check=True, capture_output=True, timeout=600)
    generator = np.random.default_rng(20)
    killed = at_work = 0
    while killed < KILLS:
        before = len(list(broken.glob("runs/*/metrics.json")))
        killed += kill_at_random(command(tiny, broken), broken, generator)
        at_work += before < 6
    assert at_work > KILLS / 2, "most kills came while there was work left"
    subprocess.run(command(tiny, broken), check=True, capture_output=True, timeout=600)
    for name in ("summary.csv", "summary.md", "differences.parquet"):
        assert (whole / name).read_bytes() == (broken / name).read_bytes(), name
    tables = [
        pq.read_table(directory / "runs.parquet").drop_columns(["seconds"]) for directory in (whole, broken)
    ]
    assert tables[0].equals(tables[1])
    names = [sorted(path.parent.name for path in d.glob("runs/*/metrics.json")) for d in (whole, broken)]
    assert names[0] == names[1]
    assert len(names[0]) == 6
    for name in names[0]:
        weights = [directory / "runs" / name / "model" / "model.safetensors" for directory in (whole, broken)]
        assert weights[0].read_bytes() == weights[1].read_bytes()
        assert not (broken / "runs" / name / "checkpoints").exists()


@pytest.mark.processes
def test_ray_workers_share_one_store_and_give_what_local_processes_give(made, tiny, tmp_path):
    """Two at a time; the guided runs find the plain runs that other workers have made."""
    base = tiny(tmp_path / "ray")
    config = CompareConfig(base, methods=("aum-saliency",), seeds=(0, 1), executor="ray", workers=2)
    results = compare(config)
    assert results.failures == []
    assert len(finished(config.directory)) == 4  # no first stage was made twice
    local, by_ray = (
        {(r["run"], r["split"], r["stage"]): {**r, "seconds": None} for r in all_of.select(arm="plain")}
        for all_of in (made[1], results)
    )
    assert by_ray == local
    ends = {name: time_ns / 1e9 for name, time_ns in finished(config.directory).items()}
    lasted = {record["run"]: record["seconds"] for record in results.runs}
    assert any(
        ends[one] - lasted[one] < ends[other] < ends[one] for one in ends for other in ends if one != other
    ), "no two runs were made at a time"


def test_settings_that_nobody_gives_are_chosen_said_once_and_kept(tiny, tmp_path, capfd):
    base = tiny(tmp_path / "cmp", learning_rate=None, epochs=None, train_rows=16)
    config = CompareConfig(base=base, methods=("plain", "cls-mixup"), seeds=(0,))
    compare(config)
    line = f"learning rate 1e-4, 20 epochs (chosen for {base.model} and 16 rows; --learning-rate, --epochs)"
    assert capfd.readouterr().err.splitlines().count(line) == 1
    saved = yaml.safe_load((tmp_path / "cmp" / "config.yaml").read_text())
    assert (saved["learning_rate"], saved["epochs"]) == (1e-4, 20)
    before = finished(tmp_path / "cmp")
    runs = [RunDirectory(tmp_path / "cmp" / "runs" / name).metrics() for name in before]
    assert [(run["learning_rate"], run["epochs"]) for run in runs] == [(1e-4, 20)] * 2
    # Asked for again, spelled out or not, nothing is trained.
    compare(config)
    compare(replace(config, base=replace(base, learning_rate=1e-4, epochs=20)))
    assert finished(tmp_path / "cmp") == before


def test_comparisons_that_share_a_store_share_their_runs(tiny, tmp_path):
    store = tmp_path / "store"
    first = CompareConfig(tiny(tmp_path / "a", epochs=1), seeds=(0,), executor="inline", store=store)
    second = CompareConfig(
        tiny(tmp_path / "b", epochs=1), methods=("erl",), seeds=(0,), executor="inline", store=store
    )
    compare(first)
    plain = {path.parent.name: path.stat().st_mtime_ns for path in store.glob("*/metrics.json")}
    assert len(plain) == 1
    results = compare(second)
    after = {path.parent.name: path.stat().st_mtime_ns for path in store.glob("*/metrics.json")}
    assert len(after) == 2
    assert plain.items() < after.items()
    assert load(tmp_path / "b").runs == results.runs
    assert report_data(results, tmp_path / "b")["recommendation"]["model"].startswith(str(tmp_path))
    assert not (tmp_path / "b" / "runs").exists()


def test_a_store_elsewhere_is_found_again_and_through_a_link(tiny, tmp_path):
    """The next command of a comparison names its directory alone."""
    (tmp_path / "far" / "real").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "far" / "real")
    store = tmp_path / "store"
    base = tiny(tmp_path / "link", epochs=1)
    config = CompareConfig(base, seeds=(0,), executor="inline", store=store)
    compare(config)
    (made,) = store.glob("*/metrics.json")
    before = made.stat().st_mtime_ns
    results = compare(replace(config, store=None))
    assert made.stat().st_mtime_ns == before
    assert len(results.runs) == 6 and len(list(store.glob("*/metrics.json"))) == 1
    assert not (tmp_path / "link" / "runs").exists()


def test_a_damaged_run_is_made_again(tiny, tmp_path):
    config = CompareConfig(tiny(tmp_path / "out", epochs=1), seeds=(0, 1), executor="inline")
    before = compare(config)
    damaged = config.directory / "runs" / before.runs[0]["run"] / "metrics.json"
    damaged.write_text('{"splits":')
    after = compare(config)
    without_time = [[{**record, "seconds": None} for record in one.runs] for one in (before, after)]
    assert without_time[0] == without_time[1]
