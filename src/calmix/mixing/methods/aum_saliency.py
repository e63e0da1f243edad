"""Mixup between easy and hard rows, paired by saliency.

Rows are split at the median AUM of a plain run. Each step draws half a batch from either side; every row
meets, in the other half, the row with the most similar and the row with the most dissimilar saliency, and is
mixed with both at the head. Similar pairs calibrate in domain, dissimilar pairs out of it.

    loss = 0.8 CE(original) + 0.1 CE(similar mix) + 0.1 CE(dissimilar mix),   λ ~ Beta(α, α)

Label smoothing touches the mixed targets only. Saliency is closed-form (`mixing.saliency`): a step costs what
a plain step costs. With two classes the saliency of the logits is the same for every row; `saliency="auto"`
then takes gradient × input at the head. Ties are broken at random, and counted.

`at="input"` or `"layer"` mixes there, which the paper does not. A first forward pass of the batch finds the
partners, then the pairs are encoded: with both kinds of pairs 3 encodings at the inputs and 5 at a layer.
With `originals="none"` the first pass has no gradient, and the mixes alone are trained on.

Reference: Park & Caragea, ACL 2022; batches there are twice as large, one batch size from either side.
`preset="authors"` weighs the losses as their code does in effect.  Needs: a plain run (AUM).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from calmix.data.batches.grouped import RowGroups
from calmix.dynamics.regions import median_split
from calmix.mixing.bank import SaliencyBank
from calmix.mixing.chosen_depth import KEEP, NONE, ChosenDepth
from calmix.mixing.known_rows import KnownRows
from calmix.mixing.losses import cross_entropy
from calmix.mixing.needs import AUM, PREVIOUS_EPOCH
from calmix.mixing.partner_search import Partners, any_allowed, most_dissimilar, most_similar, opposite
from calmix.mixing.saliency import cosines, gradient_times_input, nearness, saliency_direction, saliency_map
from calmix.mixing.step import MixedPairs, RowLosses, Step, Watch
from calmix.mixing.targets import blended, mixed
from calmix.user_error import UserError, argument

CHOICES = {
    "preset": ("paper", "authors"),
    "split": ("aum", "random"),
    "saliency": ("auto", "logits", "gradient-input", "none"),
    "metric": ("cosine", "l2_raw"),
    "scope": ("batch", "global"),
    "originals": (KEEP, NONE),
}


@dataclass(frozen=True)
class AumSaliency(ChosenDepth):
    name: ClassVar[str] = "aum-saliency"
    summary: ClassVar[str] = "mixes easy with hard rows of most similar and most dissimilar saliency"
    citation: ClassVar[str] = "Park & Caragea, ACL 2022"
    pairs: ClassVar[str] = "opposite AUM half, by saliency"
    mix_point: ClassVar[str] = "head, input or layer"
    needs: ClassVar[tuple[str, ...]] = ("aum",)
    later_options: ClassVar[tuple[str, ...]] = ("padding", "at", "layers", "originals")

    preset: str = "paper"
    """The weights of the losses: "paper" 0.8/0.1/0.1; "authors" 1.4 : 0.05 B/C : 0.05 B/C, normalised."""
    split: str = "aum"
    """Halves by the median "aum", or "random" ones (an ablation)."""
    saliency: str = "auto"
    """Of the "logits", "gradient-input" at the head, "none" (partners at random), or "auto"."""
    metric: str = "cosine"
    """Saliency compared by "cosine" of directions, or by distance of the raw maps ("l2_raw")."""
    scope: str = "batch"
    """Partners from the "batch", or from all rows ("global"), as the epoch before left them."""
    similar: bool = True
    dissimilar: bool = True
    """An ablation leaves one of them out; its weight is shared by the other two terms."""
    originals: str = "keep"
    """Train on the rows themselves beside their mixes ("keep"), or on the mixes alone ("none")."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check_choices(CHOICES)
        if not self.similar and not self.dissimilar:
            raise UserError(
                "neither similar nor dissimilar pairs",
                remedy=f"keep one, or use {argument('method', 'plain')}",
            )
        if self.metric == "l2_raw" and self.saliency == "gradient-input":
            raise UserError(
                "metric=l2_raw with saliency=gradient-input: features are compared by their directions alone",
                remedy="use saliency=logits or metric=cosine",
            )
        if self.scope == "global" and not self.is_at_head:
            raise UserError(
                f"scope=global with at={self.at}: the bank holds logits, not the rows that would be mixed",
                remedy="use scope=batch or at=head",
            )
        if self.scope == "global" and self.saliency in ("gradient-input", "none"):
            raise UserError(
                f"scope=global with saliency={self.saliency}: the bank holds logits, not features",
                remedy="use saliency=logits or scope=batch",
            )

    @property
    def needed(self) -> tuple[str, ...]:
        by_aum = (AUM,) if self.split == "aum" else ()
        return by_aum + ((PREVIOUS_EPOCH,) if self.scope == "global" else ())

    def groups(self, known: KnownRows) -> RowGroups:
        rows = len(known.datamap)
        if self.split == "random":
            order = np.random.default_rng([known.seed, rows]).permutation(rows)
            low, high = np.sort(order[: rows // 2]), np.sort(order[rows // 2 :])
        else:
            if np.isnan(known.datamap.aum).all():
                raise UserError(
                    "the data map has no area under the margin of any training row",
                    remedy="give that of a plain run, or split at random with split=random",
                )
            low, high = (np.flatnonzero(half) for half in median_split(known.datamap.aum))
        return RowGroups(("low AUM", "high AUM") if self.split == "aum" else ("first half", "second half"),
                         (low, high), cover="shortest")  # fmt: skip

    def make_bank(
        self, logits: NDArray[np.float32], labels: NDArray[np.int64], groups: Sequence[NDArray[np.int64]]
    ) -> SaliencyBank:
        raw = self.uses_raw_map(logits.shape[1])
        compare = saliency_map if raw else saliency_direction
        salient = compare(torch.from_numpy(logits), torch.from_numpy(labels)).numpy()
        return SaliencyBank(logits, labels, salient, tuple(groups), is_direction=not raw)

    def kind_of_saliency(self, num_classes: int) -> str:
        """What "auto" becomes."""
        if self.saliency != "auto":
            return self.saliency
        is_flat = num_classes == 2 and self.metric == "cosine" and self.scope == "batch"
        return "gradient-input" if is_flat else "logits"

    def effective_options(self, num_classes: int) -> dict[str, Any]:
        return {**self.options(), "saliency": self.kind_of_saliency(num_classes)}

    def uses_raw_map(self, num_classes: int) -> bool:
        """With two classes all directions are equal: a bank of logits can only compare raw maps."""
        two_in_bank = num_classes == 2 and self.scope == "global" and self.saliency == "auto"
        return self.metric == "l2_raw" or two_in_bank

    def weights(self, step: Step) -> tuple[float, float, float]:
        """Of the originals, the similar and the dissimilar mixes; their sum is 1."""
        if self.preset == "authors":
            # Their code calls backward on the originals twice and sums the mixed losses over the batch.
            mix = 0.05 * (step.real_rows / 2) / step.num_classes
            original, each = 1.4 / (1.4 + 2 * mix), mix / (1.4 + 2 * mix)
        else:
            original, each = 0.8, 0.1
        if self.originals == NONE:
            share = 1 / (self.similar + self.dissimilar)
            return 0.0, share * self.similar, share * self.dissimilar
        if self.similar and self.dissimilar:
            return original, each, each
        return original + each, each * self.similar, each * self.dissimilar

    def losses(self, step: Step) -> RowLosses:
        logits, similarity = self._forward(step)
        ratio, targets = self.draw_ratio(step), self.targets(step)
        original, similar, dissimilar = self.weights(step)
        wanted = {kind: w for kind, w in (("similar", similar), ("dissimilar", dissimilar)) if w}
        losses = original * cross_entropy(logits, step.plain_targets)
        pairs, ties = [], torch.zeros((), dtype=torch.int64, device=logits.device)
        for kind, found, both, goals in self._mixes(step, logits, similarity, targets, ratio, wanted):
            losses = losses + wanted[kind] * cross_entropy(both, goals)
            ties = ties + found.tied.sum()
            places = torch.arange(step.rows, device=logits.device)
            pairs.append(MixedPairs(kind, places, found.partner, ratio, goals, step.bank is not None))
        searches = step.real_rows * len(pairs) if self.saliency != "none" else 0
        tally: dict[str, Tensor | int] = {"searches": searches, "ties": ties}
        # Without a gradient, what was said about the rows themselves teaches nothing.
        return RowLosses(losses, logits if self._trains_on_rows else None, tuple(pairs), tally)

    @property
    def _trains_on_rows(self) -> bool:
        """Whether gradients flow through the forward pass of the rows as they are."""
        return self.originals == KEEP or self.is_at_head

    def _mixes(
        self,
        step: Step,
        logits: Tensor,
        similarity: Tensor | None,
        targets: Tensor,
        ratio: Tensor,
        kinds: Iterable[str],
    ) -> Iterator[tuple[str, Partners, Tensor, Tensor]]:
        """Of each kind of pairs: the partners, the logits of the mixes and their targets."""
        if step.bank is not None:
            for kind in kinds:
                yield kind, *self._mix_with_bank(step, step.bank, logits, targets, ratio, kind)
            return
        found = {kind: self._search(step, similarity, kind) for kind in kinds}
        below = None if self.is_at_head else self._forward_mixes(step, list(found.values()), ratio)
        for number, (kind, partners) in enumerate(found.items()):
            both = mixed(logits, partners.partner, ratio) if below is None else below[number]
            yield kind, partners, both, mixed(targets, partners.partner, ratio)

    def _forward_mixes(self, step: Step, found: list[Partners], ratio: Tensor) -> tuple[Tensor, ...]:
        """Logits of the rows mixed with each of their partners below the head, in one forward pass."""
        own = torch.arange(step.rows, device=step.labels.device)
        # λ = 1 mixes nothing, and then a text is not padded to the length of another either.
        second = torch.cat([own if self.alpha == 0 else each.partner for each in found])
        ratios = ratio.repeat(len(found)) if ratio.ndim else ratio
        both = self.forward_pairs(step, self.draw_depth(step), own.repeat(len(found)), second, ratios)
        return torch.split(both, step.rows)

    def _forward(self, step: Step) -> tuple[Tensor, Tensor | None]:
        """Logits, and how similar every two rows of the batch are in their saliency."""
        kind, trains = self.kind_of_saliency(step.num_classes), self._trains_on_rows
        if kind == "gradient-input" and step.bank is None and self.scope == "batch":
            watch = Watch(step.head)
            logits = self.look(step, watch, trains=trains)
            assert watch.seen is not None
            salient = gradient_times_input(logits, step.labels, watch.seen, step.forward.last_weight)
            return logits, cosines(salient)
        logits = self.look(step, trains=trains)
        if kind == "none" or step.bank is not None:
            return logits, None
        if self.uses_raw_map(step.num_classes):
            return logits, nearness(saliency_map(logits, step.labels))
        return logits, cosines(saliency_direction(logits, step.labels))

    def _search(self, step: Step, similarity: Tensor | None, kind: str) -> Partners:
        assert step.groups is not None
        allowed = opposite(step.tensor(step.groups), step.real_rows)
        keys = step.tensor(step.moment.of_batch(f"{kind} pairs").random((step.rows, step.rows)))
        if similarity is None:
            return any_allowed(allowed, keys)
        search = most_similar if kind == "similar" else most_dissimilar
        # Similarities are on the CPU where the device has no double precision.
        found = search(similarity, allowed.to(similarity.device), keys.to(similarity.device))
        return Partners(found.partner.to(keys.device), found.tied.to(keys.device))

    def _mix_with_bank(
        self, step: Step, bank: SaliencyBank, logits: Tensor, targets: Tensor, ratio: Tensor, kind: str
    ) -> tuple[Partners, Tensor, Tensor]:
        """Mixed with rows that are not in the batch: their logits are those of the epoch before, and no
        gradient flows into them."""
        assert step.groups is not None
        compare = saliency_map if self.uses_raw_map(step.num_classes) else saliency_direction
        salient = compare(logits, step.labels).cpu().numpy()
        generator = step.moment.of_batch(f"{kind} pairs")
        positions, tied = np.zeros(step.rows, dtype=np.int64), np.zeros(step.rows, dtype=np.bool_)
        for group in (0, 1):
            rows = np.flatnonzero(step.groups == group)
            if len(rows):
                positions[rows], tied[rows] = bank.partners(
                    salient[rows], 1 - group, generator, similar=kind == "similar"
                )
        tied[step.real_rows :] = False
        theirs = self.targets_of(step, step.tensor(bank.labels[positions]), positions)
        others = step.tensor(bank.logits[positions])
        share = ratio.reshape(-1, 1)
        found = Partners(step.tensor(positions), step.tensor(tied))
        return found, blended(logits, others, share), blended(targets, theirs, share)
