"""Runs that are cut off: how they are started, killed and compared."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from safetensors.numpy import load_file

from tiny import read_json

KILLED = Path(__file__).parent / "training" / "killed.py"


def command(reviews, encoder, output, *more):
    return [
        sys.executable, "-m", "calmix", "train", "--train", reviews / "train.csv",
        "--validation", reviews / "validation.csv", "--test", reviews / "test.csv", "--model", encoder,
        "--output", output, "--learning-rate", "1e-3", "--epochs", "6", "--batch-size", "8",
        "--threads", "1", "--checkpoint-steps", "2", *more,
    ]  # fmt: skip


def finish(arguments):
    return subprocess.run(
        [str(a) for a in arguments], check=True, capture_output=True, text=True, timeout=300
    )


def kill_when(arguments, is_time):
    """Start a run and kill it with SIGKILL as soon as `is_time()`."""
    process = subprocess.Popen(
        [str(a) for a in arguments], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    deadline = time.monotonic() + 240
    while not is_time():
        assert process.poll() is None, "the run ended before it could be killed"
        assert time.monotonic() < deadline
        time.sleep(0.002)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()


def kill_at(function, call, arguments):
    """Run `calmix` until a function is called for the nth time, and kill it there."""
    done = subprocess.run(
        [sys.executable, str(KILLED), function, str(call), *(str(a) for a in arguments[3:])],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == -signal.SIGKILL, done.stderr[-4000:]


def assert_same_run(first, second):
    weights = [load_file(run / "model" / "model.safetensors") for run in (first, second)]
    assert weights[0].keys() == weights[1].keys()
    for name, tensor in weights[0].items():
        assert np.array_equal(tensor, weights[1][name]), name
    dynamics = [run / "dynamics.parquet" for run in (first, second)]
    assert dynamics[0].is_file() == dynamics[1].is_file()  # rows of several labels have none
    if dynamics[0].is_file():
        assert pq.read_table(dynamics[0]).equals(pq.read_table(dynamics[1]))
    for file in sorted((first / "predictions").iterdir()):
        assert pq.read_table(file).equals(pq.read_table(second / "predictions" / file.name))
    metrics = [read_json(run / "metrics.json") for run in (first, second)]
    for one in metrics:
        one.pop("seconds")
    assert metrics[0] == metrics[1]
