"""Encoded rows through a network, batch by batch, on a device."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

Batch = dict[str, Tensor]


def best_device(device: str) -> torch.device:
    """What the Trainer would take for `auto`."""
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
        device = "mps" if device == "cpu" and torch.backends.mps.is_available() else device
    return torch.device(device)


def batches_of(encoded: Any, collator: Any, batch_size: int, device: torch.device) -> Iterator[Batch]:
    """The batches of a dataset in its own order, without labels."""
    for start in range(0, len(encoded), batch_size):
        features = [encoded[place] for place in range(start, min(start + batch_size, len(encoded)))]
        batch = collator(features)
        yield {name: value.to(device) for name, value in batch.items() if name != "labels"}


@torch.no_grad()
def forward_logits(
    model: nn.Module, encoded: Any, collator: Any, *, batch_size: int = 64, device: torch.device
) -> NDArray[np.float32]:
    """Logits in evaluation mode, in the order of the rows."""
    model.to(device).eval()
    view, order = encoded.by_length()
    parts = [
        model(**batch).logits.float().cpu().numpy()
        for batch in batches_of(view, collator, batch_size, device)
    ]
    by_length = np.concatenate(parts)
    logits = np.empty_like(by_length)
    logits[order] = by_length
    return logits
