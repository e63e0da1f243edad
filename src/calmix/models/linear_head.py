"""One linear layer on the last hidden state of [CLS] (Desai & Durrett 2020), in a standard checkpoint.

BERT, RoBERTa and their kin put a dense layer and tanh before the last layer, z = V tanh(D h + c) + b, and no
configuration removes them. Here z = W h + b is trained: D is skipped, and so is the dropout of the head. It
is saved as

    D = ε I,  c = 0,  V = W / ε        tanh(ε h) / ε = h - ε² h³ / 3 + ...

which plain `AutoModelForSequenceClassification` loads. With ε = 2⁻¹² the cubic term of |h| = 20 is 8e-6 of h,
and scaling by a power of two rounds nothing.

A multiple-choice head of the same paper is a linear layer on the pooled state: there only dropout goes.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import MethodType
from typing import Any

import torch
from torch import Tensor, nn

from calmix.user_error import UserError, argument

OPTION, LINEAR = "head", "linear"
CONFIG_KEY = "calmix_head"
"""In the configuration of a checkpoint: its dense layer is ε I and not to be trained."""
EPSILON = 2.0**-12
# Those whose dense layer is followed by tanh: its slope at 0 is 1.
POOLED = ("BertForSequenceClassification",)
HEADED = tuple(f"{name}ForSequenceClassification" for name in ("Camembert", "MPNet", "Roberta", "XLMRoberta"))


def use_linear_head(model: Any) -> None:
    """Train a linear head in place of the network's own, in place; no parameter is added or renamed."""
    name = type(model).__name__
    if name.endswith("ForMultipleChoice") and isinstance(getattr(model, "dropout", None), nn.Dropout):
        model.dropout.p = model.config.classifier_dropout = 0.0
        return
    if name not in (*POOLED, *HEADED):
        known = ", ".join(one.removesuffix("ForSequenceClassification") for one in (*POOLED, *HEADED))
        raise UserError(
            f"{argument('model_options', f'{OPTION}={LINEAR}')}: a checkpoint of {name} cannot hold a linear "
            "head on the first token",
            remedy=f"leave it out; these can: {known}",
        )
    model.config.classifier_dropout = 0.0
    if name in POOLED:
        model.dropout.p = 0.0
    setattr(model.config, CONFIG_KEY, LINEAR)
    dense, _ = _layers(model)
    with torch.no_grad():
        dense.weight.copy_(torch.eye(dense.out_features))
        dense.bias.zero_()
    for parameter in dense.parameters():
        parameter.requires_grad = False
    _skip_dense(model)


def restart_linear_head(model: Any) -> None:
    """Make a saved linear head trainable again: with a new last layer, as for other labels."""
    if not is_linear(model):
        return
    use_linear_head(model)
    _, last = _layers(model)
    nn.init.normal_(last.weight, std=model.config.initializer_range)
    nn.init.zeros_(last.bias)


def is_linear(model: Any) -> bool:
    return getattr(getattr(model, "config", None), CONFIG_KEY, None) == LINEAR


@contextmanager
def in_standard_form(model: nn.Module) -> Iterator[None]:
    """While a network with a linear head is saved: the weights that the network's own class computes with."""
    if not is_linear(model) or "forward" not in _wrapped(model).__dict__:
        yield
        return
    del _wrapped(model).forward
    _scale(model, EPSILON)
    try:
        yield
    finally:
        _scale(model, 1 / EPSILON)
        _skip_dense(model)


@torch.no_grad()
def _scale(model: nn.Module, factor: float) -> None:
    dense, last = _layers(model)
    dense.weight.mul_(factor)
    last.weight.div_(factor)


def _wrapped(model: Any) -> Any:
    """The module that runs the dense layer, whose `forward` is replaced."""
    if type(model).__name__ in POOLED:
        return model.base_model.pooler
    return model.classifier


def _layers(model: Any) -> tuple[nn.Linear, nn.Linear]:
    place = _wrapped(model)
    return place.dense, model.classifier if type(model).__name__ in POOLED else place.out_proj


def _skip_dense(model: Any) -> None:
    # A bound method: a deep copy of the network binds it to its own module.
    forward = _first_state if type(model).__name__ in POOLED else _first_logits
    place = _wrapped(model)
    place.forward = MethodType(forward, place)


def _first_state(pooler: nn.Module, hidden_states: Tensor) -> Tensor:
    return hidden_states[:, 0]


def _first_logits(head: Any, features: Tensor, **_: Any) -> Tensor:
    logits: Tensor = head.out_proj(features[:, 0])
    return logits
