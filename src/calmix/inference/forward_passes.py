"""Encoded rows through a network, batch by batch, on a device."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from calmix.models.inputs import refusing_rows
from calmix.runtime.hardware import place_in_group
from calmix.runtime.progress import RowProgress, counting_rows
from calmix.user_error import UserError

Batch = dict[str, Tensor]


def best_device(device: str) -> torch.device:
    """What the Trainer would take for `auto`."""
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
        device = "mps" if device == "cpu" and torch.backends.mps.is_available() else device
    return torch.device(device)


def batches_of(
    encoded: Any, collator: Any, batch_size: int, device: torch.device, *, first: int = 0, every: int = 1
) -> Iterator[Batch]:
    """The batches of a dataset in its own order, without labels; of `every` so many the `first` one."""
    for start in range(first * batch_size, len(encoded), every * batch_size):
        features = [encoded[place] for place in range(start, min(start + batch_size, len(encoded)))]
        batch = collator(features)
        yield {name: value.to(device) for name, value in batch.items() if name != "labels"}


def input_names(model: nn.Module) -> set[str]:
    """What a network takes. As the Trainer does: a tokenizer may make more than that."""
    return set(getattr(model, "input_names", None) or inspect.signature(model.forward).parameters)


@torch.no_grad()
def forward_logits(
    model: nn.Module,
    encoded: Any,
    collator: Any,
    *,
    batch_size: int = 64,
    device: torch.device,
    title: str | None = None,
) -> NDArray[np.float32]:
    """Logits in evaluation mode, in the order of the rows.

    The processes of a group share the batches and all have the whole answer, to the same bits as one process
    alone. No Trainer is made: a second one would reset the state of accelerate that the first one trains by.
    With a `title` the first process shows how far it is.
    """
    model.to(device).eval()
    view, order = encoded.by_length()
    rank, processes = place_in_group()
    accepted = input_names(model)
    own = []
    shown: AbstractContextManager[RowProgress | None] = nullcontext()
    if title is not None and rank == 0:
        shown = counting_rows(title, len(view))
    with shown as progress:
        for batch in batches_of(view, collator, batch_size, device, first=rank, every=processes):
            taken = {name: value for name, value in batch.items() if name in accepted}
            with refusing_rows(model):
                own.append(model(**taken).logits.float().cpu().numpy())
            if progress is not None:
                progress.advance(len(own[-1]) * processes)
    shares = [own]
    if processes > 1:
        shares = [[] for _ in range(processes)]
        torch.distributed.all_gather_object(shares, own)
    batches = -(-len(view) // batch_size)
    by_length = np.concatenate([shares[place % processes][place // processes] for place in range(batches)])
    logits = np.empty_like(by_length)
    logits[order] = by_length
    check_numbers(model, logits)
    return logits


def check_numbers(model: nn.Module, logits: NDArray[np.float32]) -> None:
    """Refuse a network that answers with what is no number: nobody should act on its confidence."""
    broken = np.isnan(logits) | np.isposinf(logits)
    if broken.any():
        name = getattr(getattr(model, "config", None), "name_or_path", None) or type(model).__name__
        rows = int(broken.reshape(len(logits), -1).any(axis=1).sum())
        raise UserError(
            f"the network gives logits that are not finite, for {rows} of {len(logits)} rows",
            file=str(name),
            remedy="its weights are damaged, or overflow in their precision: restore them, or train again",
        )
