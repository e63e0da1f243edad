"""TDMixUp: easy rows are mixed with ambiguous ones.

A plain run gives the data map: easy = the most confident third, ambiguous = the most variable third. The easy
rows are then filtered by their area under the margin: a fresh network is trained on them together with rows
whose label is certainly wrong, and what ranks no higher than those is left out. Each step takes half a batch
from either set and mixes them at the head, pair by pair.

    loss = (CE(easy) + CE(ambiguous) + CE(mixed))/3,   λ ~ Beta(α, α)

The smaller set is gone through again until the larger one has ended. Hard rows are not trained on. Label
smoothing touches the mixed targets only. `preset="authors"` has the weights of the released code, in which
the mixed term is almost off. `pairing="random"` is the ablation of Table 3: two shuffles of the union of both
sets, before any filter ("66 % train"); no row meets itself.

`at="input"` or `"layer"` mixes there, which the paper does not: the pairs are encoded beside the batch, 1.5
encodings at the inputs and 2 at a layer. `originals="none"` trains on the pairs alone (half an encoding at
the inputs).

Reference: Park & Caragea 2022.  Needs: a plain run (data map), and a threshold pass for the filter.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from torch import Tensor

from calmix.data.batches.grouped import RowGroups
from calmix.mixing.chosen_depth import KEEP, NONE
from calmix.mixing.known_rows import KnownRows, LabelFilter
from calmix.mixing.losses import cross_entropy
from calmix.mixing.needs import DATA_MAP
from calmix.mixing.paired_groups import FIRST, SECOND, PairedGroups, weighted_means
from calmix.mixing.step import RowLosses, Step
from calmix.user_error import UserError


@dataclass(frozen=True)
class TDMixup(PairedGroups):
    name: ClassVar[str] = "tdmixup"
    summary: ClassVar[str] = "mixes easy rows, filtered by AUM, with ambiguous ones"
    citation: ClassVar[str] = "Park & Caragea, NAACL 2022"
    pairs: ClassVar[str] = "easy × ambiguous"
    mix_point: ClassVar[str] = "head, input or layer"
    needs: ClassVar[tuple[str, ...]] = ("data map", "threshold pass")
    numerics: ClassVar[int] = 3
    later_options: ClassVar[tuple[str, ...]] = ("padding", "at", "layers", "originals")

    preset: str = "paper"
    """Weights of the losses: "paper" 1/3 each; "authors" 0.5, 0.5 and 0.01 B/C."""
    pairing: str = "easy-ambiguous"
    """Or "random": pairs from the union of both sets, unfiltered (an ablation)."""
    fraction: float = 1 / 3
    """The share of the rows in each set."""
    disjoint: bool = False
    """Take from the easy rows what is also ambiguous."""
    stratify: bool = False
    """Take the fractions within each class."""
    aum_filter: bool = True
    percentile: float = 0.8
    """The filter keeps what ranks above this share of the certainly wrong labels."""
    passes: int = 1
    """Threshold passes of the filter; two judge every row."""
    unscored: str = "drop"
    """What becomes of rows that no pass has judged: "drop" or "keep"."""
    originals: str = "keep"
    """Train on the rows themselves beside their mixes ("keep"), or on the mixes alone ("none")."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check_choices(
            {
                "preset": ("paper", "authors"),
                "pairing": ("easy-ambiguous", "random"),
                "originals": (KEEP, NONE),
            }
        )
        if not 0 < self.fraction <= 1:
            raise UserError(f"fraction is {self.fraction}", remedy="give a share such as 0.33")
        self.label_filter()

    def label_filter(self) -> LabelFilter:
        return LabelFilter(self.percentile, self.passes, self.unscored)

    @property
    def needed(self) -> tuple[str, ...]:
        return self.needs if self.filters else (DATA_MAP,)

    @property
    def filters(self) -> bool:
        """The random pairs of the paper come from all of both sets."""
        return self.aum_filter and self.pairing != "random"

    def groups(self, known: KnownRows) -> RowGroups:
        regions = known.regions(fraction=self.fraction, stratify=self.stratify, disjoint=self.disjoint)
        easy, ambiguous = np.flatnonzero(regions.easy), np.flatnonzero(regions.ambiguous)
        if self.filters:
            easy = known.clean(easy, self.label_filter())
        if self.pairing == "random":
            both = np.union1d(easy, ambiguous)
            return RowGroups(("easy or ambiguous", "the same, reshuffled"), (both, both), cover="longest")
        return RowGroups(("easy", "ambiguous"), (easy, ambiguous), cover="longest")

    def weights(self, step: Step) -> tuple[float, float, float]:
        if self.preset == "paper":
            return 1 / 3, 1 / 3, 1 / 3
        # Their mixed loss sums over the batch and averages over classes.
        return 0.5, 0.5, 0.01 * (step.real_rows / 2) / step.num_classes

    def losses(self, step: Step) -> RowLosses:
        keeps = self.originals == KEEP
        mix = self.mix_groups(step, self.pairing.replace("-", " × "), with_originals=keeps)
        if mix.logits is None or not keeps:
            return self.mixed_alone(step, mix)
        original = cross_entropy(mix.logits, step.plain_targets)
        easy, ambiguous, mixed = self.weights(step)

        def part(weight: float, number: int) -> tuple[float, Tensor, Tensor]:
            rows = step.tensor(step.of_group(number))
            return weight, rows, original[rows]

        parts = [part(easy, FIRST), part(ambiguous, SECOND), (mixed, mix.first, mix.losses)]
        losses = weighted_means(original + mix.nothing, step.real_rows, parts)
        return RowLosses(losses, mix.logits, (mix.pairs,))
