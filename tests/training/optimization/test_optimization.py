"""Optimisers and schedules do what their papers say, step by step."""

import pytest
import torch

from calmix.training.configuration import TrainConfig
from calmix.training.optimization.mixin import read_optimizer, read_schedule
from calmix.user_error import UserError


def test_sgd_is_nesterov_momentum_with_decay_of_all_parameters():
    torch.manual_seed(0)
    weight = torch.randn(5)
    parameter = torch.nn.Parameter(weight.clone())
    made, options = read_optimizer("sgd:momentum=0.8:weight_decay=0.01")
    optimizer = made([parameter], lr=0.1, **options)
    velocity = torch.zeros(5)
    for _ in range(4):
        gradient = torch.randn(5)
        parameter.grad = gradient.clone()
        optimizer.step()
        decayed = gradient + 0.01 * weight
        velocity = 0.8 * velocity + decayed
        weight = weight - 0.1 * (decayed + 0.8 * velocity)
        assert torch.allclose(parameter, weight, atol=1e-6)


def test_adadelta_has_the_paper_s_constants_and_formula():
    made, options = read_optimizer("adadelta")
    assert (options["rho"], options["eps"]) == (0.95, 1e-6)
    weight = torch.tensor([1.0, -2.0])
    parameter = torch.nn.Parameter(weight.clone())
    optimizer = made([parameter], lr=1.0, **options)
    squares, updates = torch.zeros(2), torch.zeros(2)
    for gradient in (torch.tensor([0.3, -0.1]), torch.tensor([-0.2, 0.5])):
        parameter.grad = gradient.clone()
        optimizer.step()
        squares = 0.95 * squares + 0.05 * gradient**2
        change = -torch.sqrt(updates + 1e-6) / torch.sqrt(squares + 1e-6) * gradient
        updates = 0.95 * updates + 0.05 * change**2
        weight = weight + change
        assert torch.allclose(parameter, weight, atol=1e-6)


def test_the_rate_drops_with_the_epochs_through_the_trainer(make_trainer):
    from transformers import TrainerCallback

    rates = []

    class Watch(TrainerCallback):
        def on_step_begin(self, args, state, control, **kwargs):
            rates.append(kwargs["optimizer"].param_groups[0]["lr"])

    trainer = make_trainer(
        rows=24,
        num_train_epochs=5,
        optimizer="sgd",
        schedule="step:epochs=[2,4]:factor=0.5",
        learning_rate=0.1,
    )
    trainer.add_callback(Watch())
    trainer.train()
    assert isinstance(trainer.optimizer.optimizer, torch.optim.SGD)
    assert rates == pytest.approx([0.1] * 6 + [0.05] * 6 + [0.025] * 3)


def test_the_other_schedules():
    assert [read_schedule("constant")(epoch, 10) for epoch in (0, 5, 10)] == [1, 1, 1]
    assert [read_schedule("linear")(epoch, 10) for epoch in (0, 5, 10)] == [1, 0.5, 0]
    warmed = read_schedule("step:epochs=[6]:factor=0.5:warmup=4")
    assert [warmed(epoch, 10) for epoch in (0, 1, 4, 5, 6)] == [0, 0.25, 1, 1, 0.5]
    # 30, 60 and 80 % of 200 epochs are the paper's 60, 120 and 160.
    for epoch in (0, 59, 60, 119, 120, 159, 160, 199):
        written_out = read_schedule("step:epochs=[60,120,160]:factor=0.5")(epoch, 200)
        assert read_schedule("step")(epoch, 200) == written_out


@pytest.mark.parametrize(
    ("trainer", "said"),
    [
        ({"weight_decay": 0.1}, "trainer: weight_decay has no effect beside optimizer=sgd; say it with"),
        ({"optim": "adafactor"}, "trainer: optim has no effect beside optimizer=sgd"),
        ({"warmup_steps": 5}, "trainer: warmup_steps has no effect beside schedule=step"),
    ],
)
def test_fields_of_the_trainer_that_would_not_be_looked_at_are_refused(trainer, said):
    data = {"train": "a.csv", "output": "out"}
    TrainConfig(**data, trainer=trainer)
    with pytest.raises(UserError, match=said):
        TrainConfig(**data, trainer=trainer, optimizer="sgd", schedule="step")


@pytest.mark.parametrize(
    ("read", "text", "said"),
    [
        (read_optimizer, "lion", "no such optimiser 'lion'; choose one of sgd, adadelta, adamw"),
        (
            read_optimizer,
            "sgd:speed=2",
            "sgd has no option 'speed'; it has: momentum, nesterov, weight_decay",
        ),
        (read_optimizer, "sgd:momentum=0", "Nesterov momentum requires a momentum"),
        (read_optimizer, "sgd:momentum", "write NAME:OPTION=VALUE"),
        (read_schedule, "cosine", "no such schedule 'cosine'"),
        (read_schedule, "step:factor=2", "give a factor above 0 and at most 1"),
        (read_schedule, "step:epochs=soon", "give epochs as a list"),
        (read_schedule, "step:warmup=soon", "give warmup in epochs"),
        (read_schedule, "linear:warmup=-1", "give warmup in epochs"),
    ],
)
def test_what_cannot_be_is_refused(read, text, said):
    with pytest.raises(UserError, match=said):
        read(text)
