"""The shift of class weights or balanced sampling, taken out of the bias of the head once training has ended.

    z' = z − shift,   so   b' = b − shift

It comes before the temperature, which is fitted on corrected logits. The checkpoint holds corrected weights
and says so in its configuration.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import nn

from calmix.calibration.evaluation import evaluate
from calmix.calibration.predictions import Predictions
from calmix.models.folding import PRIOR_KEY, fold
from calmix.models.hf_compat import base_model, is_multiple_choice, last_linear
from calmix.training.targets.class_weights import ClassBalance
from calmix.user_error import UserError, argument

COMPARED = ("accuracy", "nll", "brier", "ece")


def check_correctable(model: nn.Module) -> None:
    """Refuse a network whose head cannot take the correction, before it is trained."""
    options = f"{argument('class_weights')} and {argument('sampling')}"
    if is_multiple_choice(model):
        raise UserError(
            f"{options} weigh classes, and the choices of multiple choice are none",
            remedy="leave them out",
        )
    if last_linear(model).bias is None:
        # A bias that is added here would be saved, and ignored by whoever loads the checkpoint.
        raise UserError(
            f"{options} shift the logits of every class, and the head of {type(base_model(model)).__name__} "
            "has no bias to correct the shift: its scores would stay uncalibrated",
            remedy="train without them, or choose a network whose head has a bias",
        )


def correct_prior(model: nn.Module, shift: NDArray[np.float64]) -> None:
    """Subtract the shift from the bias of the head, in place, and say so in the model's configuration."""
    fold(model, 1.0, -shift)
    setattr(model.config, PRIOR_KEY, {"log_shift": shift.tolist(), "folded": True})


def with_shift(predictions: Predictions, shift: NDArray[np.float64]) -> Predictions:
    """Logits plus a shift of every class.

    >>> uncorrected = with_shift(Predictions.from_logits([[0.0, 0.0]], [0]), np.array([0.0, 1.0]))
    >>> uncorrected.values.tolist()
    [[0.0, 1.0]]
    """
    return replace(predictions, values=predictions.values.astype(np.float64) + shift)


def correction_facts(
    balance: ClassBalance, predictions: Mapping[str, Predictions], names: Sequence[str], **settings: Any
) -> dict[str, Any]:
    """For `metrics.json`: the weights, the shift, and every split as it would be without the correction."""

    def by_class(values: NDArray[np.float64] | None) -> dict[str, float] | None:
        return None if values is None else dict(zip(names, values.tolist(), strict=True))

    shift = balance.shift()
    uncorrected = {}
    for split, corrected in predictions.items():
        measured = evaluate(with_shift(corrected, shift), **settings)
        kept = {name for metric in COMPARED for name in (metric, f"{metric}_ci")}
        uncorrected[split] = {name: value for name, value in measured.items() if name in kept}
    return {
        "class_weights": by_class(balance.class_weights),
        "sampling_ratios": by_class(balance.sampling_ratios),
        "log_shift": by_class(shift),
        "absent_classes": list(balance.absent),
        "folded_into": "bias of the last linear layer, before the temperature",
        "uncorrected": uncorrected,
    }
