"""Contracts with the Trainer: each test fails when a release changes what `hf_compat` relies on."""

from __future__ import annotations

import json
import shutil
from types import SimpleNamespace

import pytest
import torch
from transformers import Trainer, TrainerState

from calmix.training import hf_compat
from calmix.training.checkpoints import trainer_files


@pytest.fixture
def trainer(make_trainer):
    return make_trainer(save_strategy="no")


def test_the_trainer_keeps_the_size_of_its_batches(trainer):
    assert hf_compat.train_batch_size(trainer) == trainer.args.train_batch_size == 8


def test_the_trainer_prepares_a_batch_for_its_device(trainer):
    batch = hf_compat.prepare_inputs(trainer, {"input_ids": torch.zeros(1, 2, dtype=torch.long)})
    assert batch["input_ids"].device == trainer.args.device


def test_a_second_training_gets_a_schedule_of_its_own(make_trainer):
    """`_created_lr_scheduler`: without it, a second `train()` would continue the schedule of the first."""
    trainer = make_trainer(schedule="linear", max_steps=1)
    assert trainer._created_lr_scheduler is False
    trainer.train()
    first = trainer.lr_scheduler
    trainer.train()
    assert first is not None and trainer.lr_scheduler is not first


def test_the_trainer_asks_for_the_batches_of_a_step_and_hands_their_count_to_the_loss(trainer):
    """`get_batch_samples` and `num_items_in_batch`: 40 rows in batches of 8, three of them to a step."""
    trainer.args.gradient_accumulation_steps = 3
    trainer.args.num_train_epochs = 1
    counts = []
    compute = trainer.compute_loss

    def counted(model, inputs, return_outputs=False, num_items_in_batch=None):
        counts.append(num_items_in_batch)
        return compute(model, inputs, return_outputs, num_items_in_batch)

    trainer.compute_loss = counted
    trainer.train()
    rows = len(trainer.train_dataset)
    whole, left = divmod(rows, 24)
    expected = [24] * 3 * whole + [left] * -(-left // 8)
    assert [int(count) for count in counts] == expected


def test_the_loss_is_not_divided_again_by_the_micro_batches():
    """`test_trainer.py` compares the weights; here the name of the switch."""
    assert hasattr(Trainer, "loss_is_scaled_for_ga")


def test_checkpoints_are_named_and_hold_the_state_of_the_trainer(make_trainer, tmp_path):
    trainer = make_trainer(max_steps=2, save_strategy="steps", save_steps=1)
    trainer.train()
    output = tmp_path / "moved"
    shutil.copytree(trainer.args.output_dir, output)
    paths = [trainer_files.checkpoint_path(output, step) for step in (1, 2)]
    assert all(path.is_dir() for path in paths)
    assert [trainer_files.checkpoint_step(path) for path in paths] == [1, 2]
    assert trainer_files.checkpoint_step(output / "runs") == -1
    state = json.loads((paths[1] / trainer_files.STATE_FILE).read_text())
    assert state["global_step"] == 2 and "best_global_step" in state
    assert trainer_files.best_checkpoint(paths[1]) is None
    (paths[1] / trainer_files.STATE_FILE).write_text(json.dumps({**state, "best_global_step": 1}))
    assert trainer_files.best_checkpoint(paths[1]) == paths[0]


def test_the_state_keeps_the_best_checkpoint_by_its_path(tmp_path):
    state = TrainerState(best_global_step=3, best_model_checkpoint="/elsewhere/checkpoint-3")
    hf_compat.find_moved_best(state, tmp_path)
    assert state.best_model_checkpoint == "/elsewhere/checkpoint-3"
    (tmp_path / "checkpoint-3").mkdir()
    hf_compat.find_moved_best(state, tmp_path)
    assert state.best_model_checkpoint == str(tmp_path / "checkpoint-3")


def test_evaluations_are_logged_with_a_prefix_and_the_step(trainer):
    trainer.compute_metrics = lambda output: {"nll": 0.5}
    trainer.evaluate(trainer.train_dataset)
    (entry,) = hf_compat.evaluations(trainer, "nll")
    assert entry["eval_nll"] == 0.5 and entry["step"] == 0
    assert hf_compat.evaluations(SimpleNamespace(state=trainer.state), "no_such_metric") == []


def test_the_parameters_that_are_clipped_can_be_chosen(make_trainer):
    class ClipsTheHead(hf_compat.ClippingMixin, Trainer):
        def clipped_parameters(self, model):
            return model.classifier.parameters()

    assert ClipsTheHead.clips_chosen_parameters()
    trainer = make_trainer(trainer=ClipsTheHead, max_grad_norm=1e-3)
    for parameter in trainer.model.parameters():
        parameter.grad = torch.ones_like(parameter)
    trainer._clip_grad_norm(trainer.model)
    head = [parameter.grad for parameter in trainer.model.classifier.parameters()]
    assert sum(float(gradient.square().sum()) for gradient in head) ** 0.5 == pytest.approx(1e-3, rel=1e-3)
    assert torch.equal(trainer.model.bert.pooler.dense.bias.grad, torch.ones(32))
