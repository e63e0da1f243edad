"""Fold a calibrator into the last linear layer, so that plain softmax(logits) is calibrated.

    z = W h + b,   z' = s ∘ z + c   =>   W' = diag(s) W,  b' = s ∘ b + c

For temperature scaling s = 1/T and c = 0. What was folded is written into the model's configuration, so
that nobody applies it a second time.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import nn

from calmix.io.record_shapes import MAYBE, NUMBER, check_shape
from calmix.models.hf_compat import base_model, last_linear
from calmix.user_error import UserError, argument

CONFIG_KEY = "calmix_calibration"
PRIOR_KEY = "calmix_prior_correction"
"""The shift of class weights that was taken out of the bias."""
CARRIED = {"method": str, "temperature": MAYBE, "scale": [NUMBER], "bias": [NUMBER]}


def merged(model: nn.Module) -> nn.Module:
    """The network itself: adapters of a PEFT model are merged into its weights first."""
    if hasattr(model, "merge_and_unload"):
        return model.merge_and_unload()  # type: ignore[no-any-return, operator]
    return model


@torch.no_grad()
def fold(model: nn.Module, scale: ArrayLike, bias: ArrayLike = 0.0) -> None:
    """Scale and shift the logits of a network, in place.

    `scale` is one number, one for each class, or a matrix [classes, classes]; `bias` one number or one for
    each class. A multiple-choice head has the same weights for every choice: one number is all it can take.
    """
    head = last_linear(model)
    factor, shift = np.asarray(scale, dtype=np.float64), np.asarray(bias, dtype=np.float64)
    classes = head.out_features
    if factor.ndim or shift.any():
        check_takes_classes(model, biases=bool(shift.any()))
    matrix = factor if factor.ndim == 2 else np.diag(np.broadcast_to(factor, (classes,)))
    # On the CPU: not every device has double precision.
    mapping = torch.from_numpy(matrix.copy())
    shifts = torch.from_numpy(np.broadcast_to(shift, (classes,)).copy())
    head.weight.copy_((mapping @ head.weight.cpu().double()).to(head.weight.dtype))
    if head.bias is not None:
        head.bias.copy_((mapping @ head.bias.cpu().double() + shifts).to(head.bias.dtype))


def check_takes_classes(model: nn.Module, *, biases: bool = True) -> None:
    """Refuse a network whose head has no place for a scale, or a bias, of every class."""
    head = last_linear(model)
    if head.out_features == 1:
        raise UserError(
            "a multiple-choice head has one set of weights for all choices: only one scale folds into it",
            remedy="use temperature scaling",
        )
    if biases and head.bias is None:
        # A bias that is added here would be saved, and ignored by whoever loads the checkpoint.
        raise UserError(
            f"the head of {type(base_model(model)).__name__} has no bias, so a bias of every class cannot be "
            "folded into it",
            remedy=f"use {argument('method', 'temperature')}, or isotonic, saved beside the checkpoint",
        )


def fold_temperature(model: nn.Module, temperature: float) -> None:
    """Divide the logits by T, and say so in the model's configuration."""
    fold(model, 1.0 / temperature)
    carried = carried_calibration(model) or {"method": "temperature"}
    total = folded_temperature(model) * temperature
    note_calibration(model, {**carried, "temperature": total, "folded": True})


def fold_labels(model: nn.Module, scale: ArrayLike, bias: ArrayLike, facts: dict[str, Any]) -> None:
    """Scale and shift the logit of every label, and say so in the model's configuration; `facts` go with it.

    Scales and biases that the checkpoint carries already are part of what is noted.
    """
    factors, shifts = np.asarray(scale, dtype=np.float64), np.asarray(bias, dtype=np.float64)
    fold(model, factors, shifts)
    carried = carried_calibration(model)
    before_scale = np.asarray(carried.get("scale", np.ones_like(factors)))
    before_bias = np.asarray(carried.get("bias", np.zeros_like(shifts)))
    total = {"scale": (factors * before_scale).tolist(), "bias": (factors * before_bias + shifts).tolist()}
    note_calibration(model, {**facts, **total, "folded": True})


def note_calibration(model: nn.Module, facts: dict[str, Any]) -> None:
    """Write into the model's configuration what its weights carry."""
    setattr(model.config, CONFIG_KEY, facts)


def folded_temperature(model: nn.Module) -> float:
    """The temperature that a checkpoint already carries in its weights; 1 if none."""
    temperature = carried_calibration(model).get("temperature")
    return 1.0 if temperature is None else float(temperature)


def carried_calibration(model: nn.Module) -> dict[str, Any]:
    """What `note_calibration` has written, of a checkpoint that somebody may have edited since."""
    config = getattr(model, "config", None)
    carried = getattr(config, CONFIG_KEY, None) or {}
    file = Path(str(getattr(config, "name_or_path", None) or "")) / "config.json"
    check_shape({CONFIG_KEY: carried}, {CONFIG_KEY: CARRIED}, file)
    return dict(carried)
