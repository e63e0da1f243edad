"""A smaller network out of a larger one: the same checkpoint with fewer layers."""

from __future__ import annotations

import copy
from typing import Any

import torch
from transformers import PreTrainedModel

from calmix.models.hf_compat import layer_stack, number_layers
from calmix.user_error import UserError, argument


def kept_layers(layers: int, kept: int) -> list[int]:
    """Which of the layers stay: evenly spread, the first and the last among them.

    >>> kept_layers(6, 3), kept_layers(12, 4), kept_layers(6, 1), kept_layers(2, 2)
    ([0, 2, 5], [0, 3, 7, 11], [0], [0, 1])
    """
    return [place * (layers - 1) // max(kept - 1, 1) for place in range(kept)]


def cut_layers(model: PreTrainedModel, kept: int) -> None:
    """Take layers out of an encoder, in place, so that `kept` of them stay.

    What the configuration says about each layer is cut alike, so that the network is the same after it was
    saved and loaded; one that would not be is refused. A network whose layers share one module (ALBERT) runs
    it fewer times.
    """
    config: Any = model.config
    stack, count = layer_stack(model)
    if stack is None or count is None:
        raise UserError(f"{type(model).__name__} has no stack of layers to cut", remedy="leave it whole")
    layers = int(getattr(config, count))
    if kept > layers:
        raise UserError(
            f"{type(model).__name__} has {layers} layers, fewer than {kept}",
            remedy=f"give {argument('student_layers', layers)} or less",
        )
    if kept == layers:
        return
    is_shared = len(stack) < layers
    chosen = kept_layers(layers, kept)
    if not is_shared:
        stays = [stack[index] for index in chosen]
        del stack[:]
        stack.extend(stays)
        number_layers(stays)
    of_layers = [
        name for name, value in vars(config).items() if isinstance(value, list) and len(value) == layers
    ]
    by_name = [name for name in of_layers if "layer" in name]
    # Any other list of that length may have to do with layers (`attention_window`) or not (`pos_att_type`):
    # it is cut only if the network cannot be built without.
    for names in (by_name, of_layers):
        if _try_config(
            model, count, kept, {name: [getattr(config, name)[k] for k in chosen] for name in names}
        ):
            return
    raise UserError(
        f"{type(model).__name__} cannot be cut: its layers are not alike", remedy="leave it whole"
    )


def _try_config(model: PreTrainedModel, count: str, kept: int, lists: dict[str, list[Any]]) -> bool:
    """Give a network that was cut the configuration it would be loaded by, if that makes the same network."""
    config: Any = copy.deepcopy(model.config)
    try:
        for name, value in {**lists, count: kept}.items():
            setattr(config, name, value)
        with torch.device("meta"), torch.random.fork_rng():
            loaded = type(model)(config)
    except Exception:  # transformers raises whatever it likes at a configuration that does not hold
        return False
    shapes = [{name: v.shape for name, v in one.state_dict().items()} for one in (model, loaded)]
    if shapes[0] != shapes[1]:
        return False
    for name, value in {**lists, count: kept}.items():
        setattr(model.config, name, value)
    return True
