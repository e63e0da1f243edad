"""Rows pushed a little along the data manifold, and a little off it.

On the manifold: the embeddings of a row are moved, within a box of size δ_on, so that its features come
closer to those of another row, and its target holds a little of that row's label. Off the manifold:
they are moved by δ_off in the direction that hurts most, and the target there is uncertain.

    x_on  = clip(x + u − δ_on sign ∂(1 − cos(f(x + u), f(x_partner))), ±δ_on),   u ~ U(−δ_on, δ_on)
    x_off = x + δ_off sign ∂CE
    loss  = CE(x, y) + a CE(x_on, (1 − δ_y) y + δ_y y_partner) − b H(p(x_off))

f is the mean of the last layer's features over the words; the partner is the row at the mirrored place of the
batch. Both moves are found without dropout. It is not mixup, but what mixup for language models is compared
with, and it is dear: six forward and five backward passes in a step.

Reference: Kong et al., EMNLP 2020 (they train with Adam, a learning rate of 5e-5, batches of 32).
Needs: nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from calmix.mixing.losses import cross_entropy, entropy
from calmix.mixing.method import Method
from calmix.mixing.pairing import mirrored
from calmix.mixing.step import EMBEDDINGS, RowLosses, Shift, Step, Watch
from calmix.mixing.targets import mixed
from calmix.user_error import UserError


@dataclass(frozen=True)
class OnOffManifold(Method):
    name: ClassVar[str] = "on-off-manifold"
    summary: ClassVar[str] = "moves rows along the data manifold and off it"
    citation: ClassVar[str] = "Kong et al., EMNLP 2020"
    pairs: ClassVar[str] = "mirrored batch"
    mix_point: ClassVar[str] = "embeddings"

    delta_on: float = 1e-4
    delta_off: float = 1e-3
    delta_label: float = 0.1
    """δ_y, the share of the partner's label."""
    on_weight: float = 1.0
    off_weight: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.delta_label <= 1:
            raise UserError(f"delta_label is {self.delta_label}", remedy="give a share from 0 to 1")
        for option in ("delta_on", "delta_off", "on_weight", "off_weight"):
            if not getattr(self, option) >= 0:
                raise UserError(f"{option} is {getattr(self, option)}", remedy="give a number of at least 0")

    def losses(self, step: Step) -> RowLosses:
        partner = step.tensor(mirrored(step.real_rows, padding=step.rows - step.real_rows))
        on, off = self.find_moves(step, partner)
        targets = self.targets(step)
        logits = step.forward()
        losses = cross_entropy(logits, targets)
        if self.on_weight:
            between = mixed(targets, partner, step.tensor(1 - self.delta_label))
            losses = losses + self.on_weight * cross_entropy(step.forward(Shift(EMBEDDINGS, on)), between)
        if self.off_weight:
            losses = losses - self.off_weight * entropy(step.forward(Shift(EMBEDDINGS, off)))
        return RowLosses(losses, logits)

    def find_moves(self, step: Step, partner: Tensor) -> tuple[Tensor, Tensor]:
        """What is added to the embeddings: on the manifold, and off it."""
        with torch.enable_grad(), step.forward.evaluating():
            words, last = Watch(EMBEDDINGS), Watch(step.head - 1)
            with torch.no_grad():
                step.forward([words, last])
                goal = features(last, step)[partner]
            assert words.seen is not None
            noise = step.moment.of_batch("noise").uniform(-self.delta_on, self.delta_on, words.seen.shape)
            start = step.tensor(noise).to(words.seen.dtype).requires_grad_()
            moved = Watch(step.head - 1)
            step.forward([Shift(EMBEDDINGS, start), moved])
            distance = 1 - torch.nn.functional.cosine_similarity(features(moved, step), goal)
            (towards,) = torch.autograd.grad(distance.sum(), start)
            on = (start - self.delta_on * towards.sign()).clamp(-self.delta_on, self.delta_on)
            nowhere = torch.zeros_like(start).requires_grad_()
            loss = cross_entropy(step.forward(Shift(EMBEDDINGS, nowhere)), step.labels)
            (away,) = torch.autograd.grad(loss.sum(), nowhere)
        return on.detach(), self.delta_off * away.sign()


def features(watch: Watch, step: Step) -> Tensor:
    """The mean over the words of a row, or over the places of an image; choices stand end to end."""
    assert watch.seen is not None
    hidden = watch.seen.float()
    mask = step.inputs.get("attention_mask")
    if hidden.ndim == 3 and mask is not None:
        weight = mask.reshape(len(hidden), -1, 1).to(hidden.dtype)
        pooled: Tensor = (hidden * weight).sum(dim=1) / weight.sum(dim=1)
    else:
        pooled = hidden.flatten(2).mean(dim=2) if hidden.ndim > 2 else hidden
    return pooled.reshape(step.rows, -1)
