"""Mixup whose λ depends on how similar the two rows are.

Similar rows are mixed strongly, rows far apart hardly at all, since what lies between them may belong to
neither class. One λ₀ is drawn for all; each pair warps it to a Beta(τ, τ) of its own:

    λ = F⁻¹_τ(λ₀),   τ = τ_max exp(−(d/mean d − 1)/(2 τ_std²)),   F_τ the distribution function of Beta(τ, τ)

d is the squared distance of the normalised features of the pair. A large τ keeps λ near one half, a small one
near 0 or 1. Only mixed rows are trained on; the batch is encoded once. With `originals="keep"` the loss is
the mean of the cross-entropies of rows and mixes.

`at="input"` or `"layer"` mixes there; d is still that of the features before the last layer, which a first
forward pass finds: two encodings, of which the first has no gradient unless the originals are kept.

Reference: Bouniot et al., ICLR 2025 (similarity kernel mixup; λ₀ uniform, that is α = 1).
Needs: nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import betaincinv
from torch import Tensor

from calmix.mixing.chosen_depth import KEEP, NONE, ChosenDepth
from calmix.mixing.losses import cross_entropy
from calmix.mixing.mixing_method import RandomPairs
from calmix.mixing.step import MixedRows, RowLosses, Step, Watch
from calmix.mixing.targets import mixed
from calmix.user_error import UserError


@dataclass(frozen=True)
class KernelWarping(RandomPairs, ChosenDepth):
    name: ClassVar[str] = "kernel-warping"
    summary: ClassVar[str] = "mixes features, similar rows more strongly"
    citation: ClassVar[str] = "Bouniot et al., ICLR 2025"
    mix_point: ClassVar[str] = "head, input or layer"
    later_options: ClassVar[tuple[str, ...]] = ("at", "layers", "originals")

    alpha: float = 1.0
    tau_max: float = 1.0
    tau_std: float = 0.5
    originals: str = "none"
    """Train on the mixes alone ("none"), or on the rows themselves too ("keep")."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check_choices({"originals": (KEEP, NONE)})
        for option in ("tau_max", "tau_std"):
            if not getattr(self, option) > 0:
                raise UserError(f"{option} is {getattr(self, option)}", remedy="give a number above 0")

    def losses(self, step: Step) -> RowLosses:
        partner, drawn = self.draw_partner(step), self.draw_ratio(step)
        keeps = self.originals == KEEP
        mix = WarpedMix(step.head, partner, drawn, step.real_rows, self.tau_max, self.tau_std, keeps)
        original, logits = self._logits(step, mix)
        assert mix.ratio is not None
        losses = cross_entropy(logits, self.mixed_targets(step, partner, mix.ratio))
        if original is not None:
            losses = (cross_entropy(original, self.targets(step)) + losses) / 2
            return RowLosses(losses, original)
        return RowLosses(losses, logits=None, mixed=MixedRows(logits, partner, mix.ratio))

    def _logits(self, step: Step, mix: WarpedMix) -> tuple[Tensor | None, Tensor]:
        """Of the rows as they are, where they are trained on, and of the mixed ones."""
        if self.is_at_head:
            both = step.forward(mix)
            return (both[: step.rows], both[step.rows :]) if mix.keep_originals else (None, both)
        watch = Watch(step.head)
        original = self.look(step, watch, trains=mix.keep_originals)
        assert watch.seen is not None
        ratio = mix.find_ratio(watch.seen)
        logits = self.forward_mixed(step, self.draw_depth(step), mix.partner, ratio)
        return (original if mix.keep_originals else None), logits


@dataclass
class WarpedMix:
    """Mixes features with a ratio that is found from the features themselves."""

    depth: int
    partner: Tensor
    drawn: Tensor
    real: int
    tau_max: float
    tau_std: float
    keep_originals: bool = False
    ratio: Tensor | None = field(default=None)

    def __call__(self, hidden: Tensor) -> Tensor:
        both = mixed(hidden, self.partner, self.find_ratio(hidden))
        return torch.cat([hidden, both]) if self.keep_originals else both

    def find_ratio(self, features: Tensor) -> Tensor:
        rows = features.detach().float().reshape(len(self.partner), -1)
        unit = torch.nn.functional.normalize(rows, dim=1)
        distance = (unit - unit[self.partner]).square().sum(dim=1).cpu().double().numpy()
        drawn = self.drawn.cpu().double().numpy()
        ratio = warped(drawn, distance, self.tau_max, self.tau_std, counted=slice(self.real))
        self.ratio = torch.from_numpy(ratio).float().to(features.device)
        return self.ratio


def warped(
    drawn: NDArray[np.float64],
    distance: NDArray[np.float64],
    tau_max: float,
    tau_std: float,
    counted: slice = slice(None),
) -> NDArray[np.float64]:
    """λ₀ warped for pairs at these distances; the mean distance is that of the `counted` ones.

    >>> warped(np.array(0.2), np.array([1.0, 1.0]), tau_max=1.0, tau_std=0.5).round(3).tolist()
    [0.2, 0.2]
    >>> warped(np.array(0.2), np.array([0.2, 1.8]), tau_max=1.0, tau_std=0.5).round(3).tolist()
    [0.365, 0.008]
    """
    mean = distance[counted].mean() if len(distance[counted]) else 0.0
    relative = distance / mean if mean > 0 else np.ones_like(distance)
    # Beyond these bounds Beta(τ, τ) is a coin, or one half, to every digit.
    distill_temperature = np.clip(tau_max * np.exp(-(relative - 1) / (2 * tau_std**2)), 1e-3, 1e3)
    return np.asarray(betaincinv(distill_temperature, distill_temperature, drawn), dtype=np.float64)
