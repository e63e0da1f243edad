"""One writer at a time in a run directory, and no lock that outlives its holder."""

import os
import signal
import subprocess
import sys
import time

import pytest
from filelock import FileLock

from calmix.io.directory_lock import only_writer
from calmix.io.run_directory import RunDirectory
from calmix.training.checkpoints.resumable import newest_complete
from calmix.training.pipeline.run_files import writing_to
from calmix.user_error import UserError
from cut_runs import assert_same_run, command, finish, kill_at

HOLD = """
import sys, time
from pathlib import Path
from calmix.io.run_directory import RunDirectory
from calmix.training.pipeline.run_files import writing_to
with writing_to(RunDirectory(Path(sys.argv[1]))):
    print("held", flush=True)
    time.sleep(900)
"""


@pytest.fixture
def held(tmp_path):
    """A run directory that another process writes into, and that process."""
    run = tmp_path / "run"
    process = subprocess.Popen([sys.executable, "-c", HOLD, str(run)], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "held\n"
    yield run, process
    process.kill()
    process.wait()


def test_who_holds_it_is_said_and_nothing_is_written(calmix, reviews, encoders, held):
    run, process = held
    before = sorted(run.rglob("*"))
    arguments = command(reviews, encoders("bert"), run)[3:]
    for more in ((), ("--resume",)):
        code, out, err = calmix(*arguments, *more)
        assert code == 2
        assert f"process {process.pid} on " in err
        assert "is writing here; wait for it, or name another --output" in err
        assert len(err.strip().splitlines()) == 1
        assert out == ""
    assert sorted(run.rglob("*")) == before


def test_a_killed_holder_locks_nobody_out(held):
    run, process = held
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert (run / "checkpoints" / "calmix.lock").is_file()
    with writing_to(RunDirectory(run)):
        pass
    assert not (run / "checkpoints").exists()


def test_a_lock_leaves_nothing_behind(tmp_path):
    with writing_to(RunDirectory(tmp_path / "a" / "run")):
        assert (tmp_path / "a" / "run" / "checkpoints" / "calmix.lock").is_file()
    assert list(tmp_path.iterdir()) == []
    # What was there before, and what was put there meanwhile, stays.
    (tmp_path / "run").mkdir()
    with writing_to(RunDirectory(tmp_path / "run")):
        pass
    assert (tmp_path / "run").is_dir()
    with pytest.raises(ZeroDivisionError), writing_to(RunDirectory(tmp_path / "other")):
        (tmp_path / "other" / "notes.txt").write_text("mine")
        raise ZeroDivisionError
    assert [path.name for path in (tmp_path / "other").iterdir()] == ["notes.txt"]


def test_only_the_first_of_several_processes_locks(tmp_path, monkeypatch):
    monkeypatch.setenv("RANK", "1")
    with FileLock(tmp_path / "lock"), only_writer(tmp_path / "lock", tmp_path, "wait"):
        pass
    monkeypatch.setenv("RANK", "0")
    with (
        FileLock(tmp_path / "lock"),
        pytest.raises(UserError, match="is writing here; wait"),
        only_writer(tmp_path / "lock", tmp_path, "wait"),
    ):
        pass


def test_a_run_that_is_alive_is_not_resumed_and_ends_with_its_own_bits(reviews, encoders, tmp_path, calmix):
    whole, output = tmp_path / "whole", tmp_path / "run"
    arguments = command(reviews, encoders("bert"), output)
    finish(command(reviews, encoders("bert"), whole))
    alive = subprocess.Popen([str(a) for a in arguments], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    while newest_complete(output / "checkpoints") is None:
        assert alive.poll() is None
        time.sleep(0.002)
    # Stopped, so that it is still alive when the second one looks.
    os.kill(alive.pid, signal.SIGSTOP)
    try:
        code, _, err = calmix("train", "--output", output, "--resume")
    finally:
        os.kill(alive.pid, signal.SIGCONT)
    assert code == 2
    assert f"process {alive.pid} on " in err
    assert alive.wait(timeout=240) == 0
    assert_same_run(whole, output)
    assert not (output / "checkpoints").exists()


def test_two_fresh_runs_on_one_output(reviews, encoders, tmp_path):
    output = tmp_path / "run"
    commands = [
        [str(a) for a in command(reviews, encoders("bert"), output, "--epochs", "2", "--seed", str(seed))]
        for seed in (1, 2)
    ]
    both = [subprocess.Popen(each, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) for each in commands]
    codes = [process.wait(timeout=240) for process in both]
    assert sorted(codes) == [0, 2]
    winner = 1 + codes.index(0)
    assert RunDirectory(output).config()["seed"] == winner
    alone = tmp_path / "alone"
    finish(command(reviews, encoders("bert"), alone, "--epochs", "2", "--seed", str(winner)))
    assert_same_run(alone, output)


def test_a_run_killed_before_its_first_checkpoint_starts_again_and_leaves_what_is_not_its_own(
    reviews, encoders, tmp_path, calmix
):
    output = tmp_path / "run"
    arguments = command(reviews, encoders("bert"), output, "--epochs", "1")
    kill_at("calmix.training.trainer.Forward", 2, arguments)
    assert newest_complete(output / "checkpoints") is None
    mine = {
        output / "notes.txt": "mine",
        output / "figures" / "loss.svg": "<svg/>",
        output / ".7.notes": "mine",
        output / "predictions" / "old.csv": "a,b",
        output / "checkpoints" / "notes.txt": "mine",
    }
    for file, text in mine.items():
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
    code, _, err = calmix("train", "--output", output, "--resume")
    assert code == 0, err
    assert {file: file.read_text() for file in mine} == mine
    assert [path.name for path in (output / "checkpoints").iterdir()] == ["notes.txt"]


def test_a_directory_of_checkpoints_that_is_not_ours(reviews, encoders, tmp_path, calmix):
    output = tmp_path / "run"
    weights = output / "checkpoints" / "checkpoint-500" / "model.safetensors"
    weights.parent.mkdir(parents=True)
    weights.write_bytes(b"years of work")
    before = sorted(output.rglob("*"))
    for more in ((), ("--resume",)):
        code, _, err = calmix(*command(reviews, encoders("bert"), output, "--epochs", "1")[3:], *more)
        assert code == 2
        assert "checkpoints' in the output was not made by calmix" in err
    assert sorted(output.rglob("*")) == before
    assert weights.read_bytes() == b"years of work"


def test_a_failure_removes_what_was_written_and_nothing_else(
    reviews, encoders, tmp_path, calmix, monkeypatch
):
    from calmix.training.pipeline import recipe

    output = tmp_path / "run"
    arguments = command(reviews, encoders("bert"), output, "--epochs", "1", "--learning-rate", "9")[3:]

    def diverge(*args, **kwargs):
        (output / "notes.txt").write_text("written while it trained")
        raise UserError("training diverged")

    monkeypatch.setattr(recipe.MixupTrainer, "train", diverge)
    code, _, err = calmix(*arguments)
    assert code == 2, err
    assert [path.name for path in output.iterdir()] == ["notes.txt"]


def test_a_foreign_configuration_is_no_run(reviews, encoders, tmp_path, calmix):
    output = tmp_path / "run"
    output.mkdir()
    (output / "config.yaml").write_text("name: something else\n")
    code, _, err = calmix(*command(reviews, encoders("bert"), output)[3:], "--resume")
    assert code == 2
    assert "this is not the configuration of a run" in err
    assert [path.name for path in output.iterdir()] == ["config.yaml"]
