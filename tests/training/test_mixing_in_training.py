"""Methods under what the Trainer offers: adapters, gradient checkpointing, images, choices, resumed steps."""

import json

import numpy as np
import pytest
import torch
import transformers

from calmix.mixing.method import get_method
from calmix.mixing.pairing import random_involution
from calmix.randomness import stream
from calmix.training.arguments import MixupArguments
from calmix.training.trainer import MixupTrainer

MIXED = [
    ("cls-mixup", {}),
    ("input-mixup", {}),
    ("manifold-mixup", {"layers": [1, 2]}),
    ("regmixup", {}),
]


@pytest.mark.parametrize(("name", "options"), MIXED, ids=[name for name, _ in MIXED])
def test_gradient_checkpointing_changes_nothing(make_trainer, name, options):
    weights = []
    for checkpointing in (False, True):
        trainer = make_trainer(
            rows=16,
            dropout=0.0,
            method=get_method(name, alpha=1.0, **options),
            num_train_epochs=1,
            optim="sgd",
            gradient_checkpointing=checkpointing,
        )
        trainer.train()
        weights.append(trainer.model.state_dict())
    for parameter, value in weights[0].items():
        assert torch.allclose(value, weights[1][parameter], atol=1e-6), parameter


@pytest.mark.parametrize(("name", "options"), MIXED, ids=[name for name, _ in MIXED])
def test_only_the_adapters_and_the_head_of_a_lora_network_are_trained(make_trainer, name, options):
    peft = pytest.importorskip("peft")
    trainer = make_trainer(
        rows=16,
        method=get_method(name, alpha=1.0, **options),
        num_train_epochs=1,
        wrap=lambda model: peft.get_peft_model(model, peft.LoraConfig(task_type="SEQ_CLS", r=2)),
    )
    before = {n: p.detach().clone() for n, p in trainer.model.named_parameters()}
    trainer.train()
    moved = {n for n, p in trainer.model.named_parameters() if not torch.equal(p, before[n])}
    assert any("lora_B" in name for name in moved)
    assert all("lora_" in name or "modules_to_save" in name for name in moved)


def test_the_same_draws_after_a_resume(make_trainer, tmp_path):
    settings = {"rows": 32, "method": get_method("manifold-mixup", alpha=1.0)}
    whole = make_trainer(output="whole", **settings)
    torch.manual_seed(0)
    whole.train()
    first = make_trainer(output="cut", checkpoint_steps=3, save_strategy="steps", save_steps=1000, **settings)
    torch.manual_seed(0)
    first.train()
    again = make_trainer(output="cut", checkpoint_steps=3, save_strategy="steps", save_steps=1000, **settings)
    again.train(resume_from_checkpoint=str(tmp_path / "cut" / "checkpoint-3"))
    for name, value in whole.model.state_dict().items():
        assert torch.equal(value, again.model.state_dict()[name]), name


class Pictures:
    def __init__(self):
        generator = np.random.default_rng(0)
        self.pixels = generator.normal(size=(4, 3, 16, 16)).astype(np.float32)
        self.labels = np.array([0, 1, 2, 1])

    def __len__(self):
        return 4

    def __getitem__(self, row):
        return {"pixel_values": torch.from_numpy(self.pixels[row]), "labels": int(self.labels[row])}


def test_pixels_are_mixed_as_by_hand(tmp_path):
    def network():
        torch.manual_seed(0)
        config = transformers.ViTConfig(
            hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=48, image_size=16,
            patch_size=8, num_labels=3, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
        )  # fmt: skip
        return transformers.ViTForImageClassification(config)

    rows, rate = Pictures(), 0.1
    trainer = MixupTrainer(
        model=network(),
        args=MixupArguments(
            output_dir=str(tmp_path),
            method="input-mixup",
            method_options={"alpha": 1.0},
            max_steps=1,
            per_device_train_batch_size=4,
            optim="sgd",
            learning_rate=rate,
            lr_scheduler_type="constant",
            max_grad_norm=0,
            save_strategy="no",
            use_cpu=True,
            disable_tqdm=True,
            logging_strategy="no",
        ),
        train_dataset=rows,
    )
    trainer.train()
    order = stream(42, "order", 0).permutation(4)
    partner = random_involution(4, stream(42, "pairs", 0, 0))
    ratio = float(np.float32(stream(42, "ratio", 0).beta(1.0, 1.0)))
    pixels = torch.from_numpy(rows.pixels[order])
    targets = torch.nn.functional.one_hot(torch.from_numpy(rows.labels[order]), 3).float()
    reference = network().train()
    logits = reference(pixel_values=ratio * pixels + (1 - ratio) * pixels[partner]).logits
    soft = ratio * targets + (1 - ratio) * targets[partner]
    (-(soft * torch.log_softmax(logits, 1)).sum(1).mean()).backward()
    for (name, value), old in zip(trainer.model.named_parameters(), reference.parameters(), strict=True):
        step = 0 if old.grad is None else rate * old.grad
        assert torch.allclose(value, old - step, atol=1e-6), name


@pytest.mark.parametrize("method", ["input-mixup", "cls-mixup", "manifold-mixup", "regmixup"])
def test_choices_are_mixed_choice_by_choice(calmix, encoders, tmp_path, method):
    rows = [
        {"text": "the film", "choices": ["great", "a very dull plot", "warm and funny"], "label": i % 3}
        for i in range(24)
    ]
    (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
    code, out, err = calmix(
        "train", "--train", tmp_path / "rows.jsonl", "--validation", tmp_path / "rows.jsonl",
        "--model", encoders("bert"), "--method", method, "--alpha", 1, "--epochs", 1, "--json",
        "--output", tmp_path / "run",
    )  # fmt: skip
    assert code == 0, err
    assert np.isfinite(json.loads(out)["history"][0]["train_loss"])
    # Mixed-only methods forward no original row in training: there are no dynamics to write.
    assert (tmp_path / "run" / "dynamics.parquet").exists() == (method == "regmixup")
