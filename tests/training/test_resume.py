"""A run that was killed goes on and ends with the bits of an unbroken one."""

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pyarrow.parquet as pq
import pytest
from safetensors.numpy import load_file

from calmix.training.checkpoints import newest_complete
from calmix.training.journal import Journal
from tiny import read_json


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


def assert_same_run(first, second):
    weights = [load_file(run / "model" / "model.safetensors") for run in (first, second)]
    assert weights[0].keys() == weights[1].keys()
    for name, tensor in weights[0].items():
        assert np.array_equal(tensor, weights[1][name]), name
    assert pq.read_table(first / "dynamics.parquet").equals(pq.read_table(second / "dynamics.parquet"))
    for file in sorted((first / "predictions").iterdir()):
        assert pq.read_table(file).equals(pq.read_table(second / "predictions" / file.name))
    metrics = [read_json(run / "metrics.json") for run in (first, second)]
    for one in metrics:
        one.pop("seconds")
    assert metrics[0] == metrics[1]


@pytest.fixture(scope="module")
def unbroken(reviews, encoders, tmp_path_factory):
    output = tmp_path_factory.mktemp("unbroken") / "run"
    finish(command(reviews, encoders("bert"), output))
    return output


def test_killed_in_mid_epoch_and_resumed_twice(reviews, encoders, unbroken, tmp_path):
    output = tmp_path / "run"
    arguments = command(reviews, encoders("bert"), output)
    steps_per_epoch = 12

    def reached(step):
        def is_time():
            newest = newest_complete(output / "checkpoints")
            return newest is not None and int(newest.name.rpartition("-")[2]) >= step

        return is_time

    kill_when(arguments, reached(steps_per_epoch + 4))
    newest = newest_complete(output / "checkpoints")
    assert int(newest.name.rpartition("-")[2]) % steps_per_epoch, "killed in mid-epoch"
    kill_when([*arguments, "--resume"], reached(3 * steps_per_epoch + 2))
    # A checkpoint that was cut off has no marker and is passed over.
    torn = output / "checkpoints" / "checkpoint-9999"
    torn.mkdir()
    (torn / "model.safetensors").write_bytes(b"half")
    finish([*arguments[:3], "train", "--output", output, "--resume"])
    assert_same_run(unbroken, output)
    assert not (output / "checkpoints").exists()


def test_resume_with_other_options_or_other_data_is_refused(reviews, encoders, tmp_path, calmix):
    output, train = tmp_path / "run", tmp_path / "train.csv"
    train.write_text((reviews / "train.csv").read_text())
    arguments = command(reviews, encoders("bert"), output)
    arguments[5] = train
    kill_when(arguments, lambda: newest_complete(output / "checkpoints") is not None)
    code, _, err = calmix(*arguments[3:], "--resume", "--seed", 5)
    assert code == 2
    assert "started with other options (seed)" in err
    train.write_text((reviews / "train.csv").read_text() + "one more great film,positive\n")
    code, _, err = calmix(*arguments[3:], "--resume")
    assert code == 2
    assert "the data files have changed since the run began" in err


def test_same_command_same_bits_and_another_seed_other_bits(reviews, encoders, unbroken, tmp_path):
    again, other = tmp_path / "again", tmp_path / "other"
    finish(command(reviews, encoders("bert"), again))
    assert_same_run(unbroken, again)
    finish(command(reviews, encoders("bert"), other, "--seed", "1"))
    first, second = (load_file(run / "model" / "model.safetensors") for run in (unbroken, other))
    assert any(not np.array_equal(first[name], second[name]) for name in first)


def test_the_journal_survives_a_checkpoint_and_adds_up_over_processes():
    import torch

    def journal(losses):
        made = Journal()
        made.add(0, {"loss": losses.double().sum(), "rows": len(losses), "ties": 1})
        return made

    losses = torch.tensor([0.1, 0.7, 0.3, 0.9])
    resumed = Journal()
    resumed.load_state(json.loads(json.dumps(journal(losses[:2]).state())))
    merged = Journal()
    merged.merge([resumed.state(), journal(losses[2:]).state()])
    assert merged.losses()[0] == pytest.approx(float(losses.mean()), abs=1e-7)
    assert merged.tallies() == [{"epoch": 1, "rows": 4, "ties": 2}]
