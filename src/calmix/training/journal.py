"""The journal of a run: sums of every epoch, and some of the mixed pairs.

Part of every checkpoint, so a resumed run ends with the same numbers; the Trainer's own log starts empty.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from calmix.data.batches.sampler import BatchKeys
from calmix.mixing.step import MixedPairs
from calmix.runtime.double_precision import in_double

JOURNAL_FILE = "journal.json"
PAIRS_KEPT = 4
"""Of every kind, in every epoch."""


@dataclass
class Journal:
    """Sums by epoch and name, and example pairs."""

    sums: dict[int, dict[str, Tensor]] = field(default_factory=dict)
    pairs: list[dict[str, Any]] = field(default_factory=list)

    def add(self, epoch: int, values: Mapping[str, Tensor | int]) -> None:
        # Stays on the device where it can: reading it here would wait for the step to finish.
        sums = self.sums.setdefault(epoch, {})
        for name, value in values.items():
            number = in_double(value if isinstance(value, Tensor) else torch.tensor(value))
            sums[name] = sums[name] + number if name in sums else number

    def keep_pairs(self, epoch: int, mixed: MixedPairs, keys: BatchKeys, ids: Sequence[Any] | None) -> None:
        """The first few pairs of a batch, by row id."""
        positions = keys.positions
        first = positions[mixed.first.cpu().numpy()]
        second = mixed.second.cpu().numpy() if mixed.from_bank else positions[mixed.second.cpu().numpy()]
        ratio = mixed.ratio.detach().expand(len(first)).cpu()
        real = int((mixed.first < keys.real).sum())
        for place in range(min(PAIRS_KEPT, real)):
            one, other = int(first[place]), int(second[place])
            self.pairs.append(
                {
                    "epoch": epoch + 1,
                    "kind": mixed.kind,
                    "first": str(one if ids is None else ids[one]),
                    "second": str(other if ids is None else ids[other]),
                    "ratio": round(float(ratio[place]), 6),
                    "targets": [round(target, 6) for target in mixed.targets[place].tolist()],
                }
            )

    def state(self) -> dict[str, Any]:
        return {
            "sums": {str(epoch): _numbers(sums) for epoch, sums in self.sums.items()},
            "pairs": self.pairs,
        }

    def load_state(self, state: Mapping[str, Any]) -> None:
        self.sums = {
            int(epoch): {name: torch.tensor(value, dtype=torch.float64) for name, value in sums.items()}
            for epoch, sums in state["sums"].items()
        }
        self.pairs = list(state["pairs"])

    def merge(self, states: Sequence[Mapping[str, Any]]) -> None:
        """Sums over all processes; the pairs of those that kept any."""
        for state in states:
            for epoch, sums in state["sums"].items():
                self.add(int(epoch), sums)
            self.pairs += state["pairs"]

    def losses(self) -> dict[int, float]:
        """The mean training loss of every epoch."""
        means = {}
        for epoch in sorted(self.sums):
            sums = _numbers(self.sums[epoch])
            means[epoch] = sums["loss"] / max(sums["rows"], 1)
        return means

    def tallies(self) -> list[dict[str, int]]:
        """What else was counted, epoch by epoch."""
        return [
            {"epoch": epoch + 1} | {n: round(v) for n, v in _numbers(self.sums[epoch]).items() if n != "loss"}
            for epoch in sorted(self.sums)
        ]


def _numbers(sums: Mapping[str, Tensor]) -> dict[str, float]:
    return {name: value.item() for name, value in sums.items()}
