"""A smaller network out of a larger one: the same checkpoint with fewer layers."""

from __future__ import annotations

from typing import Any

from torch import nn
from transformers import PreTrainedModel

from calmix.models.seams import LAYER_COUNTS
from calmix.user_error import UserError


def kept_layers(layers: int, kept: int) -> list[int]:
    """Which of the layers stay: evenly spread, the first and the last among them.

    >>> kept_layers(6, 3), kept_layers(12, 4), kept_layers(6, 1), kept_layers(2, 2)
    ([0, 2, 5], [0, 3, 7, 11], [0], [0, 1])
    """
    return [place * (layers - 1) // max(kept - 1, 1) for place in range(kept)]


def cut_layers(model: PreTrainedModel, kept: int) -> None:
    """Take layers out of an encoder, in place, so that `kept` of them stay.

    What the configuration says about each layer (`layer_types`) is cut alike, so that the network is the same
    after it was saved and loaded. A network whose layers share one module (ALBERT) runs it fewer times.
    """
    config: Any = model.config
    stack = next((m for m in model.modules() if isinstance(m, nn.ModuleList) and len(m) > 0), None)
    count = next((name for name in LAYER_COUNTS if isinstance(getattr(config, name, None), int)), None)
    if stack is None or count is None:
        raise UserError(f"{type(model).__name__} has no stack of layers to cut", remedy="leave it whole")
    layers = int(getattr(config, count))
    if kept > layers:
        raise UserError(
            f"{type(model).__name__} has {layers} layers, fewer than {kept}",
            remedy=f"give --student-layers {layers} or less",
        )
    is_shared = len(stack) < layers
    chosen = kept_layers(layers, kept)
    if not is_shared:
        stays = [stack[index] for index in chosen]
        del stack[:]
        stack.extend(stays)
        for place, layer in enumerate(stays):
            for module in layer.modules():
                if isinstance(getattr(module, "layer_idx", None), int):  # decoders keep caches by it
                    setattr(module, "layer_idx", place)  # noqa: B010 (for mypy, modules hold tensors)
    for name, value in list(vars(config).items()):
        if isinstance(value, list) and len(value) == layers and "layer" in name:
            setattr(config, name, [value[index] for index in chosen])
    setattr(config, count, kept)
