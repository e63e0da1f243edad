"""A run that was killed goes on and ends with the bits of an unbroken one."""

import json

import numpy as np
import pyarrow.parquet as pq
import pytest
from safetensors.numpy import load_file

from calmix.training.checkpoints.resumable import newest_complete
from calmix.training.journal import Journal
from cut_runs import assert_same_run, command, finish, kill_at, kill_when


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


def test_rows_of_several_labels_killed_in_mid_epoch(calmix, reviews, encoders, tmp_path):
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    several = ("--label-separator", ";", "--method", "cls-mixup")
    more = ("--epochs", "3", "--checkpoint-steps", "1", *several)
    code, _, err = calmix(*command(reviews, encoders("bert"), whole, *more)[3:])
    assert code == 0, err
    kill_at("calmix.training.trainer.Forward", 1 + 12 + 7, command(reviews, encoders("bert"), cut, *more))
    code, _, err = calmix("train", "--output", cut, "--resume")
    assert code == 0, err
    assert_same_run(whole, cut)
    assert json.loads((cut / "metrics.json").read_text())["multi_label"]


@pytest.mark.parametrize(
    ("options", "accumulation"),
    [
        (("--dynamics", "epoch_end", "--method", "manifold-mixup", "--alpha", "1"), 1),
        (("--method", "regmixup"), 5),  # twelve batches an epoch: the last step of each has two
        (("--select-by", "last", "--keep-epoch-predictions"), 1),
    ],
    ids=["dynamics at the end of epochs", "accumulated steps", "the last epoch"],
)
def test_killed_in_mid_step(calmix, reviews, encoders, tmp_path, options, accumulation):
    settings, whole, cut = tmp_path / "settings.yaml", tmp_path / "whole", tmp_path / "cut"
    settings.write_text(f"trainer:\n  gradient_accumulation_steps: {accumulation}\n")
    more = ("--epochs", "3", "--checkpoint-steps", "1", "--config", settings, *options)
    code, _, err = calmix(*command(reviews, encoders("bert"), whole, *more)[3:])
    assert code == 0, err
    # The first forward pass is a look ahead. Then: all of the first epoch, and seven batches of the second.
    kill_at("calmix.training.trainer.Forward", 1 + 12 + 7, command(reviews, encoders("bert"), cut, *more))
    newest = int(newest_complete(cut / "checkpoints").name.rpartition("-")[2])
    steps_per_epoch = -(-12 // accumulation)
    assert steps_per_epoch < newest < 2 * steps_per_epoch, "killed in mid-epoch"
    code, _, err = calmix("train", "--output", cut, "--resume")
    assert code == 0, err
    assert_same_run(whole, cut)
    assert pq.read_table(cut / "dynamics.parquet")["margin"].to_pylist()[0][2] is not None


@pytest.mark.parametrize(
    ("function", "call", "there"),
    [
        ("save_model", 1, {"data_checks.csv", "predictions", "dynamics.parquet"}),
        (
            "write_json",
            2,
            {"data_checks.csv", "predictions", "dynamics.parquet", "model", "calibration.json"},
        ),
    ],
    ids=["before the model is saved", "before the metrics are written"],
)
def test_killed_while_the_outcome_is_written(
    calmix, reviews, encoders, unbroken, tmp_path, function, call, there
):
    output = tmp_path / "run"
    kill_at(f"calmix.training.pipeline.finalise.{function}", call, command(reviews, encoders("bert"), output))
    assert {path.name for path in output.iterdir()} == {"config.yaml", "checkpoints"} | there
    code, _, err = calmix("evaluate", output)
    assert code == 2
    assert "the run is not finished; continue it with 'calmix train --resume" in err
    # As if it had been killed in mid-file: what is there is torn, and a file under way was left.
    for path in output.rglob("*"):
        if path.is_file() and output / "checkpoints" not in path.parents and path.name != "config.yaml":
            path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    (output / "predictions" / ".4711.test.parquet").write_bytes(b"half")
    code, _, err = calmix("train", "--output", output, "--resume")
    assert code == 0, err
    assert_same_run(unbroken, output)
    names = [{str(path.relative_to(run)) for path in run.rglob("*")} for run in (unbroken, output)]
    assert names[0] == names[1]


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
