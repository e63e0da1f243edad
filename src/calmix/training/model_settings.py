"""Settings of training that suit the built-in networks, where the user says nothing else.

A checkpoint is fine-tuned in few epochs at a small rate; a network with random weights is not.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from calmix.user_error import UserError, argument

# Thulasidasan et al. 2019: SGD with Nesterov momentum at 0.1, halved at 60, 120 and 160 of 200 epochs, weight
# decay 5e-4, batches of 128. Their 200 epochs are left to the user.
IMAGES: dict[str, Any] = {
    "epochs": 30,
    "batch_size": 128,
    "learning_rate": 0.1,
    "optimizer": "sgd:momentum=0.9:nesterov=true:weight_decay=5e-4",
    "schedule": "step",
}
# Kim 2014: Adadelta, batches of 50, 25 epochs of which the best on validation counts.
TEXT_CNN: dict[str, Any] = {
    "epochs": 25,
    "batch_size": 50,
    "learning_rate": 1.0,
    "optimizer": "adadelta:rho=0.95:eps=1e-6",
    "schedule": "constant",
}
MODEL_SETTINGS: dict[str, dict[str, Any]] = {
    "text-cnn": TEXT_CNN,
    **dict.fromkeys(("vgg16", "resnet18", "resnet34", "resnet50", "resnet-small"), IMAGES),
}
# Neither paper clips gradients.
TRAINER_SETTINGS: dict[str, Any] = {"max_grad_norm": 0.0}


def settings_for(model: str) -> dict[str, Any]:
    """The settings of a model in place of the general ones; none for a checkpoint.

    >>> settings_for("vgg16")["learning_rate"], settings_for("default")
    (0.1, {})
    """
    return dict(MODEL_SETTINGS.get(model, {}))


def trainer_settings_for(model: str) -> dict[str, Any]:
    """The same for the fields of `transformers.TrainingArguments`."""
    return dict(TRAINER_SETTINGS) if model in MODEL_SETTINGS else {}


def with_model_settings(given: Mapping[str, Any]) -> dict[str, Any]:
    """Options of training, with the settings that suit their model where nothing is given.

    >>> with_model_settings({"model": "text-cnn", "epochs": 3})["epochs"]
    3
    >>> with_model_settings({"model": "text-cnn", "epochs": 3})["batch_size"]
    50
    """
    model = str(given.get("model", ""))
    own = settings_for(model)
    if own and "learning_rate" not in given:
        check_rate_suits(model, given.get("optimizer"))
    trainer = {**trainer_settings_for(model), **(given.get("trainer") or {})}
    return {**own, **given, **({"trainer": trainer} if trainer else {})}


def check_rate_suits(model: str, optimizer: str | None) -> None:
    """The rate of a built-in network is that of its optimiser; under another one it may be a thousand times
    too large."""
    own = settings_for(model)["optimizer"]
    if optimizer is None or optimizer.partition(":")[0] == own.partition(":")[0]:
        return

    from calmix.training.optimization.options import parse_optimizer

    parse_optimizer(optimizer)  # an unknown name is refused first
    raise UserError(
        f"{argument('optimizer', optimizer)}: {model} has a learning rate for {own.partition(':')[0]} only",
        remedy=f"give {argument('learning_rate')} too",
    )
