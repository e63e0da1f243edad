"""Informed mixup: easy rows are mixed with ambiguous ones, and all rows are trained on.

A plain run gives the data map, which is cut into three distinct thirds: ambiguous = the most variable rows,
of the rest the upper half by confidence is easy, the lower half hard. A batch holds rows of all three; it is
encoded once, all its rows are trained on, and the logits of easy and ambiguous rows are mixed pair by pair.

    loss = (1 − w) CE(originals) + w CE(mixed),   w = 0.5,   λ ~ Beta(α, α)

`regions="top-fraction"` takes the top `fraction` of the rows by confidence as easy and the top `fraction` by
variability as ambiguous, as dataset cartography does (the paper searches 25, 33 and 50 %). The two may
overlap: a row of both is trained on in both roles, and does not meet itself. `originals="subset"` leaves the
rows out that are neither, `originals="none"` trains on the mixed pairs alone. Label smoothing touches all
targets.

`at="input"` or `"layer"` mixes there, which the paper does not: the pairs are encoded beside the batch, 1.3
encodings at the inputs and 1.7 at a layer.

Reference: Hosseini & Caragea 2022 (the teachers); the paper does not say w.
Needs: a plain run (data map).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch

from calmix.data.batches.grouped import RowGroups
from calmix.mixing.chosen_depth import KEEP, NONE
from calmix.mixing.known_rows import KnownRows
from calmix.mixing.losses import cross_entropy
from calmix.mixing.paired_groups import PairedGroups, weighted_means
from calmix.mixing.step import RowLosses, Step
from calmix.user_error import UserError


@dataclass(frozen=True)
class InformedMixup(PairedGroups):
    name: ClassVar[str] = "informed-mixup"
    summary: ClassVar[str] = "trains on all rows and on mixes of easy with ambiguous ones"
    citation: ClassVar[str] = "Hosseini & Caragea, EMNLP 2022"
    pairs: ClassVar[str] = "easy × ambiguous"
    mix_point: ClassVar[str] = "head, input or layer"
    needs: ClassVar[tuple[str, ...]] = ("data map",)
    later_options: ClassVar[tuple[str, ...]] = ("padding", "at", "layers")

    originals: str = "all"
    """Rows that are trained on as they are: "all" (or "keep"), the "subset" of easy and ambiguous ones, or
    "none": the mixed pairs alone."""
    mixed_weight: float = 0.5
    """w, the weight of the mixed rows."""
    regions: str = "partition"
    """Three distinct sets ("partition"), or cartography's, which may overlap ("top-fraction")."""
    fraction: float = 1 / 3
    """The share of ambiguous rows; with regions=top-fraction, that of the easy rows too."""
    stratify: bool = False
    """Take the fractions within each class."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.originals == KEEP:  # as the other guided methods call it
            object.__setattr__(self, "originals", "all")
        self.check_choices({"originals": ("all", "subset", NONE), "regions": ("partition", "top-fraction")})
        if not 0 <= self.mixed_weight <= 1:
            raise UserError(f"mixed_weight is {self.mixed_weight}", remedy="give a number from 0 to 1")
        if not 0 < self.fraction < 1:
            raise UserError(f"fraction is {self.fraction}", remedy="give a share such as 0.33")

    def groups(self, known: KnownRows) -> RowGroups:
        is_partition = self.regions == "partition"
        find = known.partition if is_partition else known.regions
        regions = find(fraction=self.fraction, stratify=self.stratify)
        sets = {"easy": regions.easy, "ambiguous": regions.ambiguous}
        others = regions.hard if is_partition else ~(regions.easy | regions.ambiguous)
        if self.originals == "all" and (is_partition or others.any()):
            sets["hard" if is_partition else "neither"] = others
        return RowGroups(tuple(sets), tuple(np.flatnonzero(rows) for rows in sets.values()))

    def losses(self, step: Step) -> RowLosses:
        keeps = self.originals != NONE
        mix = self.mix_groups(step, "easy × ambiguous", with_originals=keeps)
        if mix.logits is None or not keeps:
            return self.mixed_alone(step, mix)
        original = cross_entropy(mix.logits, self.targets(step))
        weight = self.mixed_weight if len(mix.first) else 0.0
        every = torch.arange(step.real_rows, device=original.device)
        parts = [(1 - weight, every, original[every]), (weight, mix.first, mix.losses)]
        losses = weighted_means(original + mix.nothing, step.real_rows, parts)
        return RowLosses(losses, mix.logits, (mix.pairs,))
