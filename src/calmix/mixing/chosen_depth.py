"""The mix point as an option of a method: the head, the inputs or a layer.

At the head the batch is encoded once for originals and mixes. Below it, mixed rows are encoded on their own:
beside the originals where those are kept, and where partners or ratios are found from logits or features,
after a first forward pass that finds them (without gradients if the originals are not trained on).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from calmix.mixing.mixing_method import PaddedMixing
from calmix.mixing.step import EMBEDDINGS, Step, Watch
from calmix.user_error import UserError

HEAD, INPUT, LAYER = "head", "input", "layer"
KEEP, NONE = "keep", "none"


@dataclass(frozen=True)
class ChosenDepth(PaddedMixing):
    """`at` names the mix point."""

    at: str = "head"
    """Where rows meet: "head", "input" (word embeddings or pixels) or "layer"."""
    layers: tuple[int, ...] | None = None
    """With at=layer: one of these layers is drawn for every step; any of the network's if left out."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.at == "embeddings":  # its name in older runs
            object.__setattr__(self, "at", INPUT)
        self.check_choices({"at": (HEAD, INPUT, LAYER)})
        if self.layers is None:
            return
        if self.at != LAYER:
            raise UserError(f"layers with at={self.at}", remedy="give at=layer, or leave layers out")
        if not self.layers or min(self.layers) < 1:
            raise UserError(
                f"layers is {list(self.layers)}", remedy="name layers counted from 1, such as layers=[4, 6]"
            )

    @property
    def is_at_head(self) -> bool:
        return self.at == HEAD

    def depths(self, head: int) -> Sequence[int]:
        if self.at != LAYER:
            return () if self.is_at_head else (EMBEDDINGS,)  # the head may be one of logits only
        if head == 1:
            raise UserError("this network has no layers to mix at", remedy="use at=input or at=head")
        above = [layer for layer in self.layers or () if layer >= head]
        if above:
            raise UserError(f"this network has no layer {above[0]}", remedy=f"it has 1 to {head - 1}")
        return range(1, head) if self.layers is None else self.layers

    def draw_depth(self, step: Step) -> int:
        """The depth of this step."""
        if self.is_at_head:
            return step.head
        depths = self.depths(step.head)
        return int(step.moment.of_step("depth").choice(depths)) if len(depths) > 1 else depths[0]

    def look(self, step: Step, watch: Watch | None = None, *, trains: bool) -> Tensor:
        """The first forward pass: logits of the rows as they are, without gradients where they only say
        which rows meet, or how much."""
        with torch.set_grad_enabled(trains and torch.is_grad_enabled()):
            return step.forward(watch)
