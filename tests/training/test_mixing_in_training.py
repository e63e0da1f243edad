"""Methods under what the Trainer offers: adapters, gradient checkpointing, bf16, images, choices, resumes."""

import json

import numpy as np
import pytest
import torch
import transformers

from calmix.calibration.files.prediction_files import read_predictions
from calmix.mixing.method import get_method
from calmix.mixing.pairing import random_involution
from calmix.runtime.randomness import stream
from calmix.training.arguments import MixupArguments
from calmix.training.trainer import MixupTrainer
from tiny import sentences

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
def test_a_network_for_choices_is_trained_saved_and_calibrated(calmix, encoders, tmp_path, method):
    """What a step does is pinned in tests/mixing; here, that the run hands over what it measured."""
    texts, _ = sentences(24, seed=1)
    choices = [texts[(i + k) % 24] for i in range(24) for k in (5, 9, 14)]
    rows = [
        {"text": text, "choices": choices[3 * i : 3 * i + 3], "label": i % 3} for i, text in enumerate(texts)
    ]
    (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
    code, out, err = calmix(
        "train", "--train", tmp_path / "rows.jsonl", "--validation", tmp_path / "rows.jsonl",
        "--model", encoders("bert"), "--method", method, "--alpha", 1, "--epochs", 2, "--json",
        "--learning-rate", "1e-2", "--batch-size", 8, "--output", tmp_path / "run",
    )  # fmt: skip
    assert code == 0, err
    stored = read_predictions(tmp_path / "run" / "predictions" / "validation.parquet")
    assert stored.labels.tolist() == [row["label"] for row in rows]
    model = transformers.AutoModelForMultipleChoice.from_pretrained(tmp_path / "run" / "model").eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "run" / "model")
    first = [row["text"] for row in rows for _ in range(3)]
    encoded = tokenizer(first, choices, padding=True, return_tensors="pt")
    with torch.no_grad():
        logits = model(**{name: value.reshape(24, 3, -1) for name, value in encoded.items()}).logits
    expected = stored.with_temperature(json.loads(out)["temperature"]).probabilities()
    assert torch.softmax(logits, 1).numpy() == pytest.approx(expected, abs=1e-5)
    assert np.ptp(expected, axis=0).max() > 1e-3, "rows that are all alike would show nothing"
    # Mixed-only methods forward no original row in training: there are no dynamics to write.
    assert (tmp_path / "run" / "dynamics.parquet").exists() == (method == "regmixup")


@pytest.mark.parametrize(("name", "options"), MIXED, ids=[name for name, _ in MIXED])
def test_half_precision_takes_the_same_step_up_to_its_rounding(make_trainer, name, options):
    def livelier(model):
        with torch.no_grad():  # rows look alike to fresh weights
            model.get_input_embeddings().weight.mul_(20)
            for module in model.modules():
                if isinstance(module, torch.nn.Linear):
                    module.weight.mul_(10)
        return model

    def step(method, **precision):
        trainer = make_trainer(
            rows=8, dropout=0.0, method=method, max_steps=1, optim="sgd", learning_rate=1.0,
            lr_scheduler_type="constant", max_grad_norm=0, wrap=livelier, **precision,
        )  # fmt: skip
        before = torch.cat([parameter.detach().clone().ravel() for parameter in trainer.model.parameters()])
        trainer.train()
        after = [parameter.detach() for parameter in trainer.model.parameters()]
        assert {parameter.dtype for parameter in after} == {torch.float32}
        return torch.cat([parameter.ravel() for parameter in after]) - before

    full = step(get_method(name, alpha=1.0, **options))
    half = step(get_method(name, alpha=1.0, **options), bf16=True)
    plain = step(get_method("plain"))
    rounding, mixing = ((other - full).norm() / full.norm() for other in (half, plain))
    assert 0 < rounding < 0.03
    assert mixing > 3 * rounding, "the difference that mixing makes must not drown in the rounding"
