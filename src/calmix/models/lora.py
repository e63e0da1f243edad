"""LoRA: train small low-rank updates of some linear layers, and the head, instead of all weights.

    W x  becomes  W x + (α / r) B A x,   A: [r, inputs],  B: [outputs, r], B = 0 at first

`--lora rank=8:alpha=16:targets=query,value`. The updates are merged into the weights after training: what is
saved is an ordinary checkpoint. Reference: Hu et al., ICLR 2022. Needs PEFT: `pip install 'calmix[lora]'`.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from calmix.user_error import UserError, argument

if TYPE_CHECKING:
    from calmix.models.network import Network

SHAPE = "rank=8:alpha=16:targets=query,value"
# Kinds of layers that PEFT adapts; GPT-2 has a linear layer of its own.
LINEAR = ("Linear", "Conv1D")


@dataclass(frozen=True)
class Lora:
    rank: int = 8
    alpha: float = 16.0
    dropout: float = 0.0
    targets: tuple[str, ...] = ()
    """Names of linear layers; none: those that PEFT knows for the architecture."""


def parse_lora(text: str) -> Lora:
    """
    >>> parse_lora("rank=4:alpha=8:targets=query,value")
    Lora(rank=4, alpha=8.0, dropout=0.0, targets=('query', 'value'))
    """
    given: dict[str, Any] = {}
    for part in text.split(":"):
        name, equals, value = (piece.strip() for piece in part.partition("="))
        kinds = {"rank": int, "alpha": float, "dropout": float, "targets": str}
        if not equals or name not in kinds or name in given:
            raise UserError(
                f"{argument('lora')} is {text!r}, with {part!r}",
                remedy=f"write it like {SHAPE}, of {', '.join(kinds)}",
            )
        try:
            given[name] = kinds[name](value)
        except ValueError:
            raise UserError(
                f"{argument('lora')}: {name} is {value!r}", remedy=f"write it like {SHAPE}"
            ) from None
    if "targets" in given:
        given["targets"] = tuple(target.strip() for target in given["targets"].split(",") if target.strip())
    made = Lora(**given)
    bounds = {"rank": made.rank >= 1, "alpha": 0 < made.alpha < 1e6, "dropout": 0 <= made.dropout < 1}
    for name, is_within in bounds.items():
        if not is_within:
            raise UserError(
                f"{argument('lora')}: {name} is {getattr(made, name)}", remedy=f"write it like {SHAPE}"
            )
    return made


def add_lora(network: Network, text: str, *, frozen_layers: int = 0) -> Network:
    """The network with adapters; its own weights are frozen, but for the head. Layers that are frozen whole
    get none."""
    try:
        from peft import LoraConfig, get_peft_model
    except ImportError:
        raise UserError(f"{argument('lora')} needs PEFT", remedy="pip install 'calmix[lora]'") from None
    from calmix.models.mix_points import MixPoints

    asked, model = parse_lora(text), network.model
    points = MixPoints(model)
    encoder = model.base_model_prefix
    head = [name for name, child in model.named_children() if name != encoder and list(child.parameters())]
    above = list(range(frozen_layers, points.depth)) if frozen_layers else None
    name = type(model).__name__
    if not hasattr(model, encoder) or not head:
        raise UserError(f"{argument('lora')}: {name} has no encoder to adapt", remedy="leave it out")
    settings: dict[str, Any] = {
        "r": asked.rank,
        "lora_alpha": asked.alpha,
        "lora_dropout": asked.dropout,
        "target_modules": list(asked.targets) or None,
        "modules_to_save": head,
        "layers_to_transform": above,
    }
    try:
        with warnings.catch_warnings():
            # PEFT finds the transposed weights of GPT-2 by itself, and says so for every layer.
            warnings.filterwarnings("ignore", message="fan_in_fan_out")
            adapted: Any = get_peft_model(model, LoraConfig(**settings))
    except ValueError as error:
        linear = sorted(
            {n.rpartition(".")[2] for n, m in model.named_modules() if type(m).__name__ in LINEAR} - set(head)
        )
        reason = " ".join(str(error).split())[:160]
        raise UserError(
            f"{argument('lora', text)} does not suit {name} ({reason})",
            remedy=f"give targets of its linear layers: {', '.join(linear)}",
        ) from error
    return replace(network, model=adapted)
