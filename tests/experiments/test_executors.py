"""Processes and Ray tasks: the same bits, and a process that dies takes nothing else along."""

import builtins
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pyarrow.parquet as pq
import pytest
from safetensors.numpy import load_file

from calmix.experiments import executors
from calmix.experiments.cell import Task, run_cell
from calmix.experiments.executors import (
    LocalExecutor,
    RayExecutor,
    make_executor,
    run_all,
    signal_handler_kept,
    threads_per_worker,
)
from calmix.training.pipeline.run_store import RunStore
from calmix.user_error import UserError


def tasks_for(store, configs):
    names = store.fingerprints
    return [
        Task(str(store.path), names.of(config), config.as_dict(), names.data_of(config)) for config in configs
    ]


def run(executor, tasks, started=lambda task: None):
    return {
        task.fingerprint: outcome
        for task, outcome in run_all(executor, tasks, started=started, looked=lambda: None)
    }


@pytest.fixture(scope="module")
def configs(tiny):
    return [tiny("x"), tiny("x", seed=1, method="cls-mixup")]


@pytest.fixture(scope="module")
def by_processes(configs, tmp_path_factory):
    """All runs, made by a worker process."""
    store = RunStore(tmp_path_factory.mktemp("local"))
    outcomes = run(LocalExecutor(1), tasks_for(store, configs))
    assert [outcome.reason for outcome in outcomes.values()] == [None] * len(configs)
    return store


def assert_same_bits(first, second):
    assert sorted(p.name for p in first.path.iterdir()) == sorted(p.name for p in second.path.iterdir())
    weights = [load_file(run.model / "model.safetensors") for run in (first, second)]
    for name, tensor in weights[0].items():
        assert np.array_equal(tensor, weights[1][name]), name
    for file in first.predictions_directory.iterdir():
        assert pq.read_table(file).equals(pq.read_table(second.predictions_directory / file.name))
    metrics = [run.metrics() for run in (first, second)]
    for one in metrics:
        one.pop("seconds")
    assert metrics[0] == metrics[1]


def test_a_local_ray_cluster_gives_the_same_bits(configs, by_processes, tmp_path):
    store = RunStore(tmp_path)
    tasks = tasks_for(store, configs)
    outcomes = run(RayExecutor(1, 1, uses_gpu=False), tasks)
    assert [outcome.reason for outcome in outcomes.values()] == [None] * len(configs)
    for task in tasks:
        assert_same_bits(by_processes.run(task.fingerprint), store.run(task.fingerprint))


def test_a_log_holds_what_training_said(configs, by_processes):
    for task in tasks_for(by_processes, configs):
        log = by_processes.log_file(task.fingerprint).read_text()
        assert f"{task.config['method']}: epoch 1, validation accuracy" in log


def test_a_worker_that_dies_is_reported_and_the_others_go_on(tiny, tmp_path):
    long, short = tiny("x", epochs=2000), tiny("x", seed=3)
    store = RunStore(tmp_path)
    tasks = tasks_for(store, [long, short])
    executor = LocalExecutor(1)

    class KillLater:
        """Kills the worker once its run has begun."""

        done = False

        def __call__(self):
            if not self.done and store.run(tasks[0].fingerprint).config_file.is_file():
                worker = next(iter(executor.busy.values()))
                os.kill(worker.process.result(), signal.SIGKILL)
                self.done = True

    ended = [
        outcome for _, outcome in run_all(executor, tasks, started=lambda task: None, looked=KillLater())
    ]
    assert [outcome.reason for outcome in ended] == [executors.DIED, None]


def test_an_idle_worker_that_died_is_replaced(tiny, tmp_path):
    store = RunStore(tmp_path)
    tasks = tasks_for(store, [tiny("x", model=str(tmp_path / "nowhere"), seed=seed) for seed in range(2)])
    executor = LocalExecutor(1)
    try:
        first = executor.submit(tasks[0])
        first.result()
        executor.collect(first)
        (idle,) = executor.idle
        os.kill(idle.process.result(), signal.SIGKILL)
        while not idle.pool._broken:
            time.sleep(0.01)
        second = executor.submit(tasks[1])
        second.result()
        outcome = executor.collect(second)
    finally:
        executor.close()
    assert "nowhere" in outcome.reason


def test_data_that_change_before_their_run_are_not_taken_for_those_of_the_plan(tiny, reviews, tmp_path):
    """Hours may lie between the two; the run would be found under its name ever after."""
    train = tmp_path / "train.csv"
    train.write_text((reviews / "train.csv").read_text())
    store = RunStore(tmp_path / "runs")
    (task,) = tasks_for(store, [tiny("x", train=str(train), epochs=1)])
    lines = train.read_text().splitlines()
    train.write_text("\n".join(lines[:-1]) + "\n")
    outcome = run_cell(task)
    assert outcome.is_user_error
    assert "train.csv: the data have changed since the comparison was started" in outcome.reason
    assert not store.is_finished(task.fingerprint)
    assert store.failure(task.fingerprint)["reason"] == outcome.reason
    train.write_text("\n".join(lines) + "\n")
    assert run_cell(task).reason is None and store.is_finished(task.fingerprint)


def test_a_comparison_that_is_left_ends_its_workers(tiny, tmp_path):
    store = RunStore(tmp_path)
    task = tasks_for(store, [tiny("x", epochs=2000)])[0]
    executor = LocalExecutor(1)

    class Interrupt:
        worker = None

        def __call__(self):
            if store.run(task.fingerprint).config_file.is_file():
                self.worker = next(iter(executor.busy.values())).process.result()
                raise KeyboardInterrupt

    interrupt = Interrupt()
    started = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        list(run_all(executor, [task], started=lambda task: None, looked=interrupt))
    with pytest.raises(ProcessLookupError):
        os.kill(interrupt.worker, 0)
    assert time.monotonic() - started < 120


def test_without_ray_the_remedy_is_named(monkeypatch):
    real = builtins.__import__

    def without_ray(name, *args, **kwargs):
        if name == "ray":
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without_ray)
    with pytest.raises(UserError, match=r"pip install 'calmix\[ray\]'"):
        make_executor("ray", None, 1, device="cpu")


def test_a_cluster_that_is_not_there_is_named(monkeypatch):
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:1")  # nobody listens on port 1
    with pytest.raises(UserError, match=r"no Ray cluster at RAY_ADDRESS=127\.0\.0\.1:1"):
        make_executor("ray", None, 1, device="cpu")


def test_workers_share_the_cores(monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)), raising=False)
    assert [threads_per_worker(workers) for workers in (1, 2, 3, 16)] == [8, 4, 2, 1]
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    assert threads_per_worker(2) == 3


def test_tasks_are_started_in_their_order_and_each_failure_is_told(tiny, tmp_path):
    store = RunStore(tmp_path)
    refused = {**tiny("x").as_dict(), "epochs": -1}
    tasks = [Task(str(store.path), f"run-{number}", refused, {}) for number in range(5)]
    order = []
    outcomes = run(LocalExecutor(2), tasks, started=lambda task: order.append(task.fingerprint))
    assert order == [task.fingerprint for task in tasks]
    assert {outcome.reason for outcome in outcomes.values()} == {
        "epochs is -1; give a whole number of at least 1 and of at most 1000000"
    }


@pytest.mark.processes
def test_a_signal_to_end_is_handled_as_before_ray_was_there():
    """Ray sets a handler of its own, which prints the addresses of its stack."""
    program = (
        "import os, signal\n"
        "from calmix.experiments.executors import connect\n"
        "signal.signal(signal.SIGTERM, lambda *given: os._exit(7))\n"
        "connect(workers=1, threads=1)\n"
        "os.kill(os.getpid(), signal.SIGTERM)\n"
    )
    environment = {name: value for name, value in os.environ.items() if name != "RAY_ADDRESS"}
    ended = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, timeout=300)
    assert ended.returncode == 7, ended.stderr


def test_a_signal_that_meets_rays_own_handler_is_handled_as_before():
    seen = []
    before = signal.signal(signal.SIGTERM, lambda number, frame: seen.append(number))
    try:
        with pytest.raises(SystemExit), signal_handler_kept(signal.SIGTERM):
            signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(number))
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(10)
        os.kill(os.getpid(), signal.SIGTERM)
        assert seen == [signal.SIGTERM] * 2
    finally:
        signal.signal(signal.SIGTERM, before)
