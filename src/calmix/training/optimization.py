"""Optimisers and schedules beside those of the Trainer: what papers on image networks and text CNNs use.

    --optimizer sgd:momentum=0.9:weight_decay=5e-4     SGD with Nesterov momentum
    --optimizer adadelta:rho=0.95:eps=1e-6
    --schedule step:epochs=[60,120,160]:factor=0.5     the rate is halved after 60, 120 and 160 epochs
    --schedule step                                    the same at 30, 60 and 80 % of training
    --schedule constant

All parameters decay alike, as they do in those papers; the Trainer's own optimiser spares biases and norms.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.optim.lr_scheduler import LambdaLR, LRScheduler
from transformers import Trainer, TrainerCallback

from calmix.training.specification import parse_specification
from calmix.user_error import UserError

if TYPE_CHECKING:
    _Base = Trainer
else:
    _Base = object

OPTIMIZERS: dict[str, tuple[Any, dict[str, Any]]] = {
    "sgd": (torch.optim.SGD, {"momentum": 0.9, "nesterov": True, "weight_decay": 0.0}),
    "adadelta": (torch.optim.Adadelta, {"rho": 0.95, "eps": 1e-6, "weight_decay": 0.0}),
    "adamw": (torch.optim.AdamW, {"betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 0.0}),
}
SCHEDULES: dict[str, dict[str, Any]] = {
    "step": {"epochs": None, "factor": 0.5},
    "constant": {},
    "linear": {},
}
STEP_SHARES = (0.3, 0.6, 0.8)


def read_optimizer(text: str) -> tuple[Any, dict[str, Any]]:
    """The class of an optimiser and its options.

    >>> read_optimizer("sgd:momentum=0.5")
    (<class 'torch.optim.sgd.SGD'>, {'momentum': 0.5, 'nesterov': True, 'weight_decay': 0.0})
    """
    name, given = parse_specification(text, "--optimizer")
    if name not in OPTIMIZERS:
        raise UserError(f"--optimizer: no such optimiser {name!r}", remedy=_listed(OPTIMIZERS))
    made, defaults = OPTIMIZERS[name]
    _check_known("--optimizer", name, given, defaults)
    options = {**defaults, **given}
    try:
        made([torch.zeros(1, requires_grad=True)], lr=0.1, **options)
    except (TypeError, ValueError) as error:
        raise UserError(f"--optimizer {text}: {error}") from None
    return made, options


def read_schedule(text: str) -> Callable[[float, float], float]:
    """A schedule as a function of (epochs done, all epochs): what the learning rate is multiplied by.

    >>> halved = read_schedule("step:epochs=[60,120,160]:factor=0.5")
    >>> [halved(epoch, 200) for epoch in (0, 59.9, 60, 120, 160)]
    [1.0, 1.0, 0.5, 0.25, 0.125]
    >>> [read_schedule("step")(epoch, 200) for epoch in (59.9, 60, 120, 160)]
    [1.0, 0.5, 0.25, 0.125]
    """
    name, given = parse_specification(text, "--schedule")
    if name not in SCHEDULES:
        raise UserError(f"--schedule: no such schedule {name!r}", remedy=_listed(SCHEDULES))
    _check_known("--schedule", name, given, SCHEDULES[name])
    if name == "constant":
        return lambda done, total: 1.0
    if name == "linear":
        return lambda done, total: max(1.0 - done / total, 0.0)
    options = {**SCHEDULES[name], **given}
    epochs, factor = options["epochs"], options["factor"]
    epochs = epochs if isinstance(epochs, list | tuple) or epochs is None else [epochs]
    if epochs is not None and not all(isinstance(e, int | float) and e > 0 for e in epochs):
        raise UserError(
            f"--schedule {text}", remedy="give epochs as a list, such as step:epochs=[60,120,160]"
        )
    if isinstance(factor, bool | str) or not 0 < factor <= 1:
        raise UserError(f"--schedule {text}", remedy="give a factor above 0 and at most 1, such as 0.5")

    def step(done: float, total: float) -> float:
        # A hair below, so that rounding in done = steps / steps per epoch never delays a drop.
        drops = [share * total for share in STEP_SHARES] if epochs is None else epochs
        return float(factor ** sum(done >= drop - 1e-6 for drop in drops))

    return step


def _check_known(option: str, name: str, given: Mapping[str, Any], known: Mapping[str, Any]) -> None:
    for key in given:
        if key not in known:
            remedy = f"it has: {', '.join(known)}" if known else "it has none"
            raise UserError(f"{option}: {name} has no option {key!r}", remedy=remedy)


def _listed(known: Mapping[str, Any]) -> str:
    return f"choose one of {', '.join(known)}"


class OwnOptimization(_Base):
    """Mixin for a Trainer whose arguments may name an `optimizer` and a `schedule`."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.add_callback(NormCap())

    def create_optimizer(self, model: nn.Module | None = None) -> torch.optim.Optimizer:
        named = getattr(self.args, "optimizer", None)
        if named is None or self.optimizer is not None:
            return super().create_optimizer(model)
        made, options = read_optimizer(named)
        of: Any = self.model if model is None else model
        trained = [parameter for parameter in of.parameters() if parameter.requires_grad]
        self.optimizer = made(trained, lr=self.args.learning_rate, **options)
        return self.optimizer

    def create_scheduler(
        self, num_training_steps: int, optimizer: torch.optim.Optimizer | None = None
    ) -> LRScheduler:
        named = getattr(self.args, "schedule", None)
        if named is None or self.lr_scheduler is not None:
            return super().create_scheduler(num_training_steps, optimizer)
        schedule, per_epoch = read_schedule(named), self.steps_per_epoch  # type: ignore[attr-defined]
        chosen = self.optimizer if optimizer is None else optimizer
        assert chosen is not None
        self.lr_scheduler = LambdaLR(
            chosen, lambda step: schedule(step / per_epoch, num_training_steps / per_epoch)
        )
        self._created_lr_scheduler = True
        return self.lr_scheduler


class NormCap(TrainerCallback):
    """Holds the output weights of a network that caps them (`cap_output_norms`) after every step."""

    def on_optimizer_step(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        model: Any = kwargs.get("model")
        model = getattr(model, "module", model)
        if hasattr(model, "cap_output_norms"):
            model.cap_output_norms()
