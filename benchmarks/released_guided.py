"""The procedure of the released code of aum-saliency (Park & Caragea, ACL 2022), as a reference for speed.

Stage 1 is a plain run that writes down every row's margin in Python. Stage 2 draws half a batch from either
side of the median AUM, encodes the halves one after the other, calls backward on each to read the gradients
of the logits, looks for partners with one cosine per pair of rows, and calls backward once more on the sum of
all losses. Batches are random. What is kinder here than there: batches are padded to their longest text, not
to 256 tokens, and labels of partners keep their rows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch.nn.functional import cosine_similarity, cross_entropy, one_hot

ALPHA, ORIGINAL, MIXED = 0.4, 0.8, 0.1


def stage_one(
    case: Any, model: Any, batch_size: int, rate: float, step_done: Callable[[], None]
) -> dict[str, float]:
    """Plain training; the mean margin of every row."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate)
    margins: dict[str, list[float]] = {}
    model.train()
    for epoch in range(case.epochs):
        order = np.random.default_rng(epoch).permutation(len(case.encoded))
        for first in range(0, len(order), batch_size):
            rows = [int(place) for place in order[first : first + batch_size]]
            batch = case.collator([case.encoded[place] for place in rows])
            labels = batch.pop("labels")
            logits = model(**batch).logits
            for place, row, label in zip(rows, logits.detach(), labels, strict=True):
                others = [row[k].item() for k in range(len(row)) if k != label.item()]
                margins.setdefault(str(place), []).append(row[label].item() - max(others))
            optimizer.zero_grad()
            cross_entropy(logits, labels).backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            step_done()
    return {row: sum(seen) / len(seen) for row, seen in margins.items()}


def stage_two(case: Any, model: Any, batch_size: int, rate: float, step_done: Callable[[], None]) -> None:
    """Guided training on two halves of the rows."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate)
    half, size = len(case.encoded) // 2, batch_size // 2
    model.train()
    for epoch in range(case.epochs):
        generator = np.random.default_rng([1, epoch])
        low, high = generator.permutation(half), half + generator.permutation(len(case.encoded) - half)
        for first in range(0, half, size):
            ratio = float(generator.beta(ALPHA, ALPHA))
            optimizer.zero_grad()
            sides = [_encoded(case, model, side[first : first + size]) for side in (high, low)]
            total = _guided_loss(sides, ratio)
            total.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            step_done()


def _encoded(case: Any, model: Any, rows: np.ndarray) -> tuple[Any, Any, Any, Any]:
    """Logits, labels, loss and the gradients of the logits of half a batch: a backward pass of its own."""
    batch = case.collator([case.encoded[int(place)] for place in rows])
    labels = batch.pop("labels")
    logits = model(**batch).logits
    logits.retain_grad()
    loss = cross_entropy(logits, labels)
    loss.backward(retain_graph=True)
    return logits, labels, loss, logits.grad.abs().clone()


def _guided_loss(sides: list[tuple[Any, Any, Any, Any]], ratio: float) -> Any:
    total = torch.zeros(())
    for (logits, labels, loss, salient), (others, their_labels, _, theirs) in (sides, sides[::-1]):
        classes = logits.shape[1]
        similar, dissimilar = [], []
        for row in range(len(logits)):
            found = [
                cosine_similarity(salient[row], theirs[other], dim=0).item() for other in range(len(others))
            ]
            similar.append(max(range(len(found)), key=found.__getitem__))
            dissimilar.append(min(range(len(found)), key=found.__getitem__))
        total = total + 0.5 * ORIGINAL * loss
        for chosen in (similar, dissimilar):
            mixed = ratio * logits + (1 - ratio) * others[chosen]
            own, partner = one_hot(labels, classes), one_hot(their_labels[chosen], classes)
            total = total + 0.5 * MIXED * cross_entropy(mixed, ratio * own + (1 - ratio) * partner)
    return total
