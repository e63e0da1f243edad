"""What was lost or damaged on disk is found before anything is built on it."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from calmix.io.run_directory import RunDirectory
from calmix.training.checkpoints import checkpoints_in, damage_of, newest_complete
from calmix.training.configuration import TrainConfig
from calmix.training.pipeline.recipe import train
from calmix.training.pipeline.stages import run_for
from calmix.training.trainer_files import best_checkpoint
from calmix.user_error import UserError
from cut_runs import assert_same_run, command, kill_at

STEPS_PER_EPOCH = 12


@pytest.fixture(scope="module")
def whole(reviews, encoders, tmp_path_factory):
    """A run, and the same run cut off in its third epoch."""
    folder = tmp_path_factory.mktemp("damage")
    settings = ("--epochs", "3", "--checkpoint-steps", "4")
    from calmix.cli.app import main

    with pytest.raises(SystemExit):
        main([str(a) for a in command(reviews, encoders("bert"), folder / "whole", *settings)[3:]])
    call = 1 + 2 * STEPS_PER_EPOCH + 7
    kill_at(
        "calmix.training.trainer.Forward", call, command(reviews, encoders("bert"), folder / "cut", *settings)
    )
    assert (folder / "whole" / "metrics.json").is_file()
    return folder


@pytest.fixture
def cut(whole, tmp_path):
    """A copy of the run that was cut off: moved, too."""
    shutil.copytree(whole / "cut", tmp_path / "cut")
    return tmp_path / "cut"


def flip(file):
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)


NAMES = (
    "model.safetensors", "optimizer.pt", "scheduler.pt", "rng_state.pth", "dynamics.safetensors",
    "journal.json", "trainer_state.json", "complete",
)  # fmt: skip


@pytest.mark.parametrize("damage", [Path.unlink, flip], ids=["missing", "flipped"])
@pytest.mark.parametrize("name", NAMES)
def test_a_damaged_newest_checkpoint_is_passed_over(cut, name, damage):
    newest, before = checkpoints_in(cut / "checkpoints")[:2]
    assert newest_complete(cut / "checkpoints") == newest
    damage(newest / name)
    said = []
    assert newest_complete(cut / "checkpoints", said=said.append) == before
    assert len(said) == 1
    assert newest.name in said[0]


def test_it_falls_back_with_a_line_and_ends_with_the_same_bits(cut, whole, calmix):
    newest, before = checkpoints_in(cut / "checkpoints")[:2]
    flip(newest / "optimizer.pt")
    code, _, err = calmix("train", "--output", cut, "--resume")
    assert code == 0, err
    assert f"{newest.name} cannot be continued (optimizer.pt has changed)" in err
    assert f"the run is trained from {before.name}" in err
    assert_same_run(whole / "whole", cut)


@pytest.mark.parametrize("damage", [shutil.rmtree, lambda path: flip(path / "model.safetensors")])
def test_a_lost_best_checkpoint_is_found_and_trained_again(cut, whole, calmix, damage):
    newest = newest_complete(cut / "checkpoints")
    best = best_checkpoint(newest)
    assert best is not None
    assert best != newest
    damage(best)
    code, _, err = calmix("train", "--output", cut, "--resume")
    assert code == 0, err
    assert f"the best epoch before it is lost, {best.name}" in err
    assert_same_run(whole / "whole", cut)


def test_without_a_whole_checkpoint_it_starts_from_scratch(cut, whole, calmix):
    for checkpoint in checkpoints_in(cut / "checkpoints"):
        (checkpoint / "rng_state.pth").unlink()
    code, _, err = calmix("train", "--output", cut, "--resume")
    assert code == 0, err
    assert "the run is trained from scratch" in err
    assert_same_run(whole / "whole", cut)


def test_the_chosen_epoch_is_measured_before_the_run_is_finished(cut, calmix, monkeypatch):
    from calmix.training.trainer import MixupTrainer

    # A best checkpoint that goes away in mid-training: the Trainer warns its log, and keeps the last weights.
    def keep_other_weights(self):
        for parameter in self.model.parameters():
            parameter.data.mul_(0.5)

    monkeypatch.setattr(MixupTrainer, "_load_best_model", keep_other_weights)
    code, _, err = calmix("train", "--output", cut, "--resume")
    assert code == 2
    assert "the weights of the chosen epoch" in err
    assert "are lost: validation NLL is" in err
    assert not (cut / "metrics.json").exists()
    assert newest_complete(cut / "checkpoints") is not None


def test_a_checkpoint_that_is_named_must_be_whole(cut, reviews, encoders):
    from calmix.training.checkpoints import check_whole

    newest = newest_complete(cut / "checkpoints")
    check_whole(newest)
    (newest / "optimizer.pt").unlink()
    with pytest.raises(UserError, match=r"the checkpoint is damaged \(optimizer\.pt is missing\)"):
        check_whole(newest)


def test_old_checkpoints_go_only_after_a_new_one_is_whole(cut):
    # Two to continue from, and the best one of each: none of them has lost what it needs.
    found = checkpoints_in(cut / "checkpoints")
    assert len(found) <= 4
    for checkpoint in found[:2]:
        assert damage_of(checkpoint) is None
        assert damage_of(best_checkpoint(checkpoint)) is None


def test_a_finished_run_lists_its_files(whole, tmp_path):
    run = RunDirectory(tmp_path / "run")
    shutil.copytree(whole / "whole", run.path)
    assert run.damage() is None
    assert {"dynamics.parquet", "model/model.safetensors"} <= set(run.metrics()["files"])
    flip(run.dynamics_file)
    assert run.damage() == "dynamics.parquet has changed"
    assert run.damage("model/") is None
    shutil.rmtree(run.model)
    assert run.damage("model/") is None, "a model that was dropped is no damage"


def config_of(reviews, encoder, output, **settings):
    return TrainConfig(
        train=str(reviews / "train.csv"), validation=str(reviews / "validation.csv"), output=str(output),
        model=str(encoder), epochs=2, batch_size=8, learning_rate=1e-3, threads=1, **settings,
    )  # fmt: skip


def test_a_damaged_plain_run_of_the_cache_is_made_again(reviews, encoders, tmp_path, capsys):
    from calmix.training.pipeline.run_store import RunStore

    store = RunStore(tmp_path)
    config = config_of(reviews, encoders("bert"), "ignored")
    run = run_for(store, config)
    dynamics = run.dynamics_file.read_bytes()
    flip(run.dynamics_file)
    assert store.is_finished(run.path.name)
    assert not store.is_whole(run.path.name)
    assert run_for(store, config) == run
    assert "is damaged: the run is made again" in capsys.readouterr().err
    assert run.dynamics_file.read_bytes() == dynamics
    assert store.is_whole(run.path.name)


def test_a_damaged_plain_run_or_teacher_that_is_named_is_refused(reviews, encoders, whole, tmp_path, calmix):
    plain = tmp_path / "plain"
    shutil.copytree(whole / "whole", plain)
    flip(plain / "dynamics.parquet")
    common = ("--train", reviews / "train.csv", "--model", encoders("bert"), "--output", tmp_path / "out")
    code, _, err = calmix("train", "--method", "tdmixup", "--plain-run", plain, *common)
    assert code == 2
    assert "the run is damaged: dynamics.parquet has changed" in err
    weights = load_file(plain / "model" / "model.safetensors")
    save_file(
        {name: np.zeros_like(value) for name, value in weights.items()}, plain / "model" / "model.safetensors"
    )
    code, _, err = calmix("distill", "--teacher", plain, *common)
    assert code == 2
    assert "the run is damaged: model/model.safetensors" in err
    assert not (tmp_path / "out").exists()


def test_damaged_teacher_logits_are_refused(reviews, encoders, whole, tmp_path):
    config = config_of(
        reviews, encoders("bert"), tmp_path / "student", teacher=(str(whole / "whole"),), checkpoint_steps=4
    )
    run = train(config)
    logits = run.teaching / "teacher-1.npy"
    array = np.load(logits)
    array[0, 0] += 1
    np.save(logits, array)
    # As a run that was cut off finds them.
    facts = json.loads(logits.with_suffix(".json").read_text())
    assert facts["files"]["teacher-1.npy"]["bytes"] == logits.stat().st_size
    run.metrics_file.unlink()
    with pytest.raises(UserError, match=r"the teacher's logits are damaged: teacher-1\.npy has changed"):
        train(config, resume=True)
