"""Tokenised rows that bring the cached states of their sequences along."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from calmix.data.batches.encoding import EncodedRows, PaddingCollator
from calmix.data.batches.state_cache import StateCache, sequence_keys

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class CachedRows(EncodedRows):
    """`EncodedRows` whose features hold, under `name`, the states of each sequence, [tokens, features]."""

    cache: StateCache
    entries: NDArray[np.int64]
    """The entry of every sequence in the cache."""
    name: str

    @classmethod
    def of(cls, rows: EncodedRows, cache: StateCache, name: str) -> CachedRows:
        entries = cache.find(sequence_keys(rows))
        if (entries < 0).any():
            raise RuntimeError("some rows have no cached states")
        return cls(**vars(rows), cache=cache, entries=entries, name=name)

    def __getitem__(self, position: int) -> dict[str, Any]:
        first = position * self.sequences_per_row
        own = self.entries[first : first + self.sequences_per_row].tolist()
        return {**super().__getitem__(position), self.name: [self.cache.states(entry) for entry in own]}


@dataclass(frozen=True)
class StateCollator:
    """A collator of texts that pads cached states too: zeros where a text has no token."""

    collator: PaddingCollator
    name: str

    def __call__(self, features: Sequence[Mapping[str, Any]]) -> dict[str, torch.Tensor]:
        import torch

        tokens = [{name: value for name, value in row.items() if name != self.name} for row in features]
        batch = self.collator(tokens)
        if self.name in features[0]:
            states = [sequence for row in features for sequence in row[self.name]]
            mask = batch["attention_mask"].numpy().astype(bool)
            width = states[0].shape[-1]
            padded = np.zeros((*mask.shape, width), dtype=np.float32)
            flat, places = padded.reshape(-1, mask.shape[-1], width), mask.reshape(-1, mask.shape[-1])
            for row, sequence in enumerate(states):
                flat[row, places[row]] = sequence
            batch[self.name] = torch.from_numpy(padded)
        return batch
