"""Layers that cost less: the same training up to rounding, and an ordinary network after it."""

import pytest
import torch

from calmix.mixing.method import get_method
from calmix.models import layer_precision as rule
from calmix.training import fast_layers
from calmix.training.fast_layers import layer_precision
from calmix.user_error import UserError

pytestmark = pytest.mark.trains


@pytest.fixture
def narrow_counts(monkeypatch):
    """The tiny encoder of the tests is wide enough, whatever the processor can do."""
    monkeypatch.setattr(rule, "LEAST_WIDTH", 32)


@pytest.fixture
def has_bfloat16(monkeypatch):
    monkeypatch.setattr(fast_layers, "device_multiplies_bfloat16", lambda device: True)


def weights(trainer):
    return {name: tensor.detach().clone() for name, tensor in trainer.model.named_parameters()}


def watch_layers(trainer):
    """(training mode, dtype of the products, positions) of the last layer in every pass."""
    layer, seen = trainer.model.bert.encoder.layer[-1], []
    layer.intermediate.dense.register_forward_hook(
        lambda module, args, output: seen.append((module.training, output.dtype, output.shape[1]))
    )
    return seen


def test_a_shortened_last_layer_trains_the_same_weights(make_trainer, narrow_counts):
    settings = {"dropout": 0.0, "precision": "float32", "optim": "sgd"}
    short, whole = make_trainer(**settings), make_trainer(**settings)
    seen = watch_layers(short)
    whole._probe = lambda: None
    short.train(), whole.train()
    assert {positions for is_training, _, positions in seen if is_training} == {1}
    torch.testing.assert_close(weights(short), weights(whole), atol=1e-6, rtol=1e-5)
    assert all("forward" not in layer.__dict__ for layer in short.model.bert.encoder.layer)


@pytest.mark.parametrize("name", ["plain", "manifold-mixup", "input-mixup", "cls-mixup", "on-off-manifold"])
def test_methods_learn_the_same_with_both_up_to_the_digits_of_bfloat16(
    make_trainer, narrow_counts, has_bfloat16, name
):
    settings = {"rows": 24, "num_train_epochs": 2, "dropout": 0.0, "optim": "sgd", "learning_rate": 0.05}
    fast = make_trainer(**settings, method=get_method(name))
    slow = make_trainer(**settings, method=get_method(name), precision="float32")
    slow._probe = lambda: None
    start = weights(slow)
    assert fast.layer_precision == "bfloat16"
    fast.train(), slow.train()
    apart, moved = (
        sum(float((one[key] - two[key]).square().sum()) for key in start) ** 0.5
        for one, two in ((weights(fast), weights(slow)), (weights(slow), start))
    )
    assert 0 < apart < 0.1 * moved


def test_only_training_and_only_layers_are_in_bfloat16(make_trainer, narrow_counts, has_bfloat16):
    trainer = make_trainer(num_train_epochs=1)
    seen, logits = watch_layers(trainer), []
    trainer.model.classifier.register_forward_hook(lambda module, args, output: logits.append(output.dtype))
    trainer.train()
    trainer.predict(trainer.train_dataset)
    assert {dtype for is_training, dtype, _ in seen if is_training} == {torch.bfloat16}
    assert {dtype for is_training, dtype, _ in seen if not is_training} == {torch.float32}
    assert set(logits) == {torch.float32}
    assert {parameter.dtype for parameter in trainer.model.parameters()} == {torch.float32}


def test_narrow_networks_and_the_trainers_own_mixed_precision_are_left_alone(make_trainer, has_bfloat16):
    assert make_trainer().layer_precision == "float32"
    assert make_trainer(precision="bfloat16").layer_precision == "bfloat16"
    assert make_trainer(precision="bfloat16", bf16=True).layer_precision == "float32"


def test_a_killed_run_continues_to_the_same_bits(make_trainer, narrow_counts, has_bfloat16):
    settings = {"rows": 24, "num_train_epochs": 2, "save_strategy": "epoch"}
    unbroken = make_trainer(**settings, output="unbroken")
    unbroken.train()
    again = make_trainer(**settings, output="unbroken")
    again.train(resume_from_checkpoint=str(again.args.output_dir) + "/checkpoint-3")
    for name, tensor in weights(unbroken).items():
        assert torch.equal(tensor, weights(again)[name]), name


def test_what_has_no_layers_is_refused(make_trainer):
    with pytest.raises(UserError, match="for encoders of texts"):
        layer_precision("bfloat16", torch.nn.Linear(2, 2), "cpu")
    with pytest.raises(UserError, match="precision"):
        make_trainer(precision="half")
