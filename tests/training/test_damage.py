"""What was lost or damaged on disk is found before anything is built on it."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from calmix.io.run_directory import RunDirectory
from calmix.training.checkpoints.resumable import checkpoints_in, damage_of, newest_complete
from calmix.training.checkpoints.trainer_files import best_checkpoint
from calmix.training.configuration import TrainConfig
from calmix.training.pipeline.stages import run_for, train_staged
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


def empty(file):
    file.write_bytes(b"")


def halve(file):
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


DAMAGES = {"missing": Path.unlink, "flipped": flip, "empty": empty, "half": halve}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
@pytest.mark.parametrize("name", NAMES)
def test_a_damaged_newest_checkpoint_is_passed_over(cut, name, damage):
    newest, before = checkpoints_in(cut / "checkpoints")[:2]
    assert newest_complete(cut / "checkpoints") == newest
    damage(newest / name)
    said = []
    assert newest_complete(cut / "checkpoints", warn=said.append) == before
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
    from calmix.training.checkpoints.resumable import check_whole

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


@pytest.mark.parametrize("content", ["", "{", "{}", "[]", '{"splits": 3}'])
def test_damaged_metrics_in_the_cache_are_found_before_anything_is_built_on_them(whole, tmp_path, content):
    from calmix.training.pipeline.run_store import RunStore

    store = RunStore(tmp_path)
    shutil.copytree(whole / "whole", tmp_path / "stored")
    assert store.is_whole("stored")
    store.run("stored").metrics_file.write_text(content)
    # `run_for` makes a run again that is not whole.
    assert not store.is_whole("stored")


RUN_FILES = {
    "config.yaml": ("predict",), "metrics.json": ("predict", "evaluate"),
    "model/model.safetensors": ("predict", "calibrate"), "model/config.json": ("predict",),
    "model/tokenizer.json": ("predict",), "predictions/test.parquet": ("evaluate",),
    "predictions/validation.parquet": ("calibrate",), "dynamics.parquet": ("map",),
}  # fmt: skip


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
@pytest.mark.parametrize("name", RUN_FILES)
def test_no_verb_builds_on_a_damaged_file_of_a_run(whole, reviews, tmp_path, calmix, name, damage):
    run = tmp_path / "run"
    shutil.copytree(whole / "whole", run)
    if name in ("config.yaml", "metrics.json") and damage is flip:
        damage = empty  # a letter of a path or a digit is not sealed: the record is whole all the same
    damage(run / name)
    commands = {
        "predict": ("predict", run, "--input", reviews / "other.csv", "--output", tmp_path / "out.csv"),
        "evaluate": ("evaluate", run),
        "calibrate": ("calibrate", run, "--fit-on", "validation", "--output", tmp_path / "out"),
        "map": ("map", run, "--output", tmp_path / "out"),
    }
    for verb in RUN_FILES[name]:
        code, out, err = calmix(*commands[verb])
        assert (code, out) == (2, ""), err
        assert len(err.strip().splitlines()) == 1
        assert Path(name).name in err or "not finished" in err or "not a run" in err, err
    assert not list(tmp_path.glob("out*"))


def test_a_loss_that_is_no_number_ends_training_at_its_step_and_keeps_the_good_checkpoint(
    reviews, encoders, tmp_path, calmix, monkeypatch
):
    from calmix.training.trainer import MixupTrainer

    taught, steps = MixupTrainer.taught, []

    def spoiled(self, result, labels):
        losses = taught(self, result, labels)
        steps.append(self.state.global_step + 1)
        return losses * float("nan") if steps[-1] == 7 else losses

    monkeypatch.setattr(MixupTrainer, "taught", spoiled)
    options = ("--epochs", "1", "--checkpoint-steps", "3", "--dynamics", "off", "--method", "cls-mixup")
    code, _, err = calmix(*command(reviews, encoders("bert", layers=1), tmp_path / "run", *options)[3:])
    assert code == 2, err
    last = err.strip().splitlines()[-1]
    assert "training diverged in epoch 1, step 7: the loss is not finite; lower --learning-rate" in last
    kept = newest_complete(tmp_path / "run" / "checkpoints")
    assert kept.name == "checkpoint-6"
    assert str(kept) in last
    assert steps[-1] == 7


def test_a_checkpoint_whose_weights_are_no_numbers_is_not_a_good_one(cut):
    from calmix.training.checkpoints.resumable import remove_not_finite

    newest, before = checkpoints_in(cut / "checkpoints")[:2]
    weights = load_file(newest / "model.safetensors")
    first = next(iter(weights))
    weights[first] = weights[first] * np.float32("nan")
    save_file(weights, newest / "model.safetensors", metadata={"format": "pt"})
    remove_not_finite(cut / "checkpoints")
    assert checkpoints_in(cut / "checkpoints")[0] == before


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
    run = train_staged(config)
    logits = run.teaching / "teacher-1.npy"
    array = np.load(logits)
    array[0, 0] += 1
    np.save(logits, array)
    # As a run that was cut off finds them.
    facts = json.loads(logits.with_suffix(".json").read_text())
    assert facts["files"]["teacher-1.npy"]["bytes"] == logits.stat().st_size
    run.metrics_file.unlink()
    with pytest.raises(UserError, match=r"the teacher's logits are damaged: teacher-1\.npy has changed"):
        train_staged(config, resume=True)
