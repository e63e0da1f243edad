"""The store makes a run once, goes on with what was cut off, and remembers what failed."""

import json
import shutil
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path

import pytest

from calmix.experiments.cell import Task, run_cell
from calmix.io.run_directory import write_json
from calmix.training.pipeline.first_stage import plain_config
from calmix.training.pipeline.run_store import RunStore
from calmix.training.pipeline.stages import restore_model, run_for


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return RunStore(tmp_path_factory.mktemp("store"))


@pytest.fixture(scope="module")
def plain(store, tiny):
    return run_for(store, tiny("ignored", label_smoothing=0.0))


def written(run):
    return run.metrics_file.stat().st_mtime_ns


def test_a_run_is_made_once(store, plain, tiny):
    before = written(plain)
    again = run_for(store, tiny("elsewhere", bins=5, checkpoint_minutes=9.0))
    assert again == plain
    assert written(again) == before
    assert plain.path.parent == store.path
    assert plain.dynamics_file.is_file()


def test_the_plain_run_is_the_first_stage_of_every_method(store, plain, tiny):
    before = written(plain)
    for guided in (
        tiny("x", method="cls-mixup", method_options={"alpha": 0.2}),
        tiny("x", label_smoothing=0.1),
        tiny("x", method="focal", dynamics="off"),
    ):
        assert run_for(store, plain_config(guided)) == plain
    assert written(plain) == before
    assert [path for path in store.path.iterdir() if path.is_dir()] == [plain.path]


def test_what_a_killed_process_left_is_taken_up(store, plain, tiny, tmp_path):
    config = tiny("x", seed=5)
    name = store.fingerprints.of(config)
    expected = run_for(RunStore(tmp_path / "other"), config)
    # Killed after the first file of a run, before its configuration.
    write_json(store.run(name).checkpoints / "data.json", {})
    made = run_for(store, config)
    assert made.metrics()["splits"] == expected.metrics()["splits"]
    # Killed after the last file, before the checkpoints were removed.
    (made.checkpoints / "checkpoint-3").mkdir(parents=True)
    assert not run_for(store, config).checkpoints.exists()


def test_a_run_goes_on_where_the_data_were_moved(store, tiny, tmp_path):
    config = tiny("x", seed=6)
    moved = tmp_path / "train.csv"
    shutil.copy(config.train, moved)
    run = store.run(store.fingerprints.of(config))
    # An unfinished run that was started with the old path.
    run.path.mkdir()
    run.config_file.write_text(json.dumps(config.as_dict()))
    assert run_for(store, replace(config, train=str(moved))) == run
    assert run.config()["train"] == str(moved)


def test_a_failure_is_kept_with_its_reason_and_tried_again(store, tiny, tmp_path):
    broken = tmp_path / "model"
    shutil.copytree(tiny("x").model, broken)
    (broken / "model.safetensors").rename(tmp_path / "weights")
    config = tiny("x", model=str(broken))
    task = Task(
        str(store.path), store.fingerprints.of(config), config.as_dict(), store.fingerprints.data_of(config)
    )
    outcome = run_cell(task)
    assert "holds no model that transformers can load" in outcome.reason
    assert outcome.is_user_error
    assert store.failure(task.fingerprint)["reason"] == outcome.reason
    (tmp_path / "weights").rename(broken / "model.safetensors")
    assert run_cell(task).reason is None
    assert store.failure(task.fingerprint) is None
    assert store.is_finished(task.fingerprint)


def test_a_fault_of_the_program_is_kept_with_its_traceback(store):
    failure = store.record_failure("abc", ZeroDivisionError("division by zero"))
    assert failure["reason"] == "ZeroDivisionError: division by zero"
    assert not failure["is_user_error"]


def test_a_dropped_model_leaves_the_rest_of_the_run(tmp_path, plain):
    copy = tmp_path / plain.path.name
    shutil.copytree(plain.path, copy)
    store = RunStore(tmp_path)
    store.drop_model(copy.name)
    left = {path.name for path in copy.iterdir()}
    assert left == {path.name for path in plain.path.iterdir()} - {"model"}
    assert store.is_finished(copy.name)


def test_a_dropped_model_is_made_anew_and_the_run_stays_as_it_is(tmp_path, plain, tiny):
    copy = tmp_path / plain.path.name
    shutil.copytree(plain.path, copy)
    store = RunStore(tmp_path)
    store.drop_model(copy.name)
    files = [file for file in copy.rglob("*") if file.is_file()]
    before = {file: (file.stat().st_ino, file.read_bytes()) for file in files}
    restore_model(store, tiny("x"), copy.name)
    assert (copy / "model" / "model.safetensors").read_bytes() == (
        plain.model / "model.safetensors"
    ).read_bytes()
    assert {file: (file.stat().st_ino, file.read_bytes()) for file in before} == before
    assert [path.name for path in tmp_path.iterdir() if path.is_dir()] == [copy.name]


def hold(path, started, seconds):
    import time

    with RunStore(path).locked("key"):
        started.set()
        time.sleep(seconds)


def test_a_lock_is_let_go_when_its_holder_is_killed(tmp_path):
    context = get_context("spawn")
    started = context.Event()
    holder = context.Process(target=hold, args=(Path(tmp_path), started, 60))
    holder.start()
    assert started.wait(60)
    holder.kill()
    with RunStore(tmp_path).locked("key"):
        pass
    holder.join()
