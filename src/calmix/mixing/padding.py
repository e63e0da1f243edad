"""Padding of pairs, so that the words of two texts can be mixed position by position.

Both members of a pair are padded to the longer one with a real token that the network attends to. Seven
variants: the filler is the separator, an unused token or the padding token; the length is that of the pair
or the longest there is; or nothing is padded, and what one text has beyond the other stays unmixed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from calmix.user_error import UserError

PADDINGS = ("sep-pair", "unused-pair", "pad-pair", "sep-max", "unused-max", "pad-max", "none")


@dataclass(frozen=True)
class PaddedPairs:
    """The inputs to forward, and the ratio at every position where it is not the same for all."""

    inputs: dict[str, Any]
    ratio: Tensor


def pad_pairs(
    inputs: Mapping[str, Any],
    partner: Tensor,
    ratio: Tensor,
    *,
    variant: str = "sep-pair",
    fillers: Mapping[str, int],
    longest: int | None = None,
    first_position: int | None = None,
) -> PaddedPairs:
    """Pad every text to the length of its pair with an attended filler.

    `fillers` gives the token of "sep", "unused" and "pad"; `longest` is the length of the "max" variants.
    `first_position` is the padding index of a network that numbers positions from it and skips padding: where
    padding is attended to, its positions must be given.
    Inputs are [rows, tokens] or, for multiple choice, [rows, choices, tokens]; texts are padded on the right.

    >>> ids = torch.tensor([[101, 7, 102, 0, 0], [101, 8, 9, 9, 102]])
    >>> batch = {"input_ids": ids, "attention_mask": (ids > 0).long()}
    >>> pad_pairs(batch, torch.tensor([1, 0]), torch.tensor(0.5), fillers={"sep": 102}).inputs["input_ids"]
    tensor([[101,   7, 102, 102, 102],
            [101,   8,   9,   9, 102]])
    """
    if "input_ids" not in inputs:  # images have no length
        return PaddedPairs(dict(inputs), ratio)
    mask = inputs["attention_mask"]
    if bool((mask[..., 0] == 0).any()):
        raise UserError(
            "texts are padded on the left, pairs cannot be aligned", remedy="use a tokenizer that pads right"
        )
    if variant == "none":
        return _unpadded(inputs, partner, ratio, first_position)
    filler, scope = variant.split("-")
    if filler not in fillers:
        raise UserError(
            f"padding {variant!r} needs a token that this tokenizer does not have",
            remedy="choose another padding, such as padding=none; a trainer of your own needs its tokenizer "
            "as processing_class",
        )
    lengths = mask.sum(dim=-1)
    if scope == "max":
        width = max(longest or 0, int(mask.shape[-1]))
        until = torch.full_like(lengths, width)
    else:
        width = int(mask.shape[-1])
        until = torch.maximum(lengths, lengths[partner])
    positions = torch.arange(width, device=mask.device)
    added = (positions >= lengths.unsqueeze(-1)) & (positions < until.unsqueeze(-1))
    padded = {
        name: _widened(value, width)
        for name, value in inputs.items()
        if isinstance(value, Tensor) and value.shape == mask.shape
    }
    padded["input_ids"] = padded["input_ids"].masked_fill(added, fillers[filler])
    padded["attention_mask"] = padded["attention_mask"].masked_fill(added, 1)
    if "token_type_ids" in padded:
        # The filler continues the last segment of its text.
        last = inputs["token_type_ids"].gather(-1, (lengths - 1).unsqueeze(-1))
        padded["token_type_ids"] = torch.where(added, last, padded["token_type_ids"])
    if filler == "pad" and first_position is not None:
        padded["position_ids"] = _positions(padded["attention_mask"], first_position)
    return PaddedPairs({**inputs, **padded}, ratio)


def _positions(mask: Tensor, first: int) -> Tensor:
    return first + mask.cumsum(dim=-1) * mask


def _unpadded(
    inputs: Mapping[str, Any], partner: Tensor, ratio: Tensor, first_position: int | None
) -> PaddedPairs:
    """No filler: λ where both texts have a word, 1 and 0 where only one has; both are attended to."""
    mask = inputs["attention_mask"]
    own, other = mask.bool(), mask[partner].bool()
    per_row = ratio.reshape(-1, *[1] * (mask.dim() - 1)) if ratio.dim() else ratio
    at_position = torch.where(own & other, per_row.to(torch.float32), own.to(torch.float32))
    joined = {**inputs, "attention_mask": (own | other).to(mask.dtype)}
    if first_position is not None:
        joined["position_ids"] = _positions(joined["attention_mask"], first_position)
    return PaddedPairs(joined, at_position)


def _widened(value: Tensor, width: int) -> Tensor:
    return torch.nn.functional.pad(value, (0, width - value.shape[-1]))
