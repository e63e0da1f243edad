"""The last layer of an encoder, computed for the one position that the head reads.

BERT and its kin classify by the state of the first token after the last layer. That layer needs the keys and
values of all tokens; queries, attention, the feed-forward part and the norms are needed for one token alone.
For texts of T tokens and width d, a layer takes 12 d² multiplications per token, this one 2 d² + 10 d² / T:
of six layers almost one is saved, in forward and backward alike. The logits are the same up to rounding;
dropout draws fewer numbers.

The network stays whole: `remove` gives it its own layer back. Whether the head really reads the first token
alone is tried on a few rows, not read off a list of architectures.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

from calmix.models.hf_compat import SelfAttention, base_model, self_attention
from calmix.models.mix_points import MixPoints

LARGEST_DIFFERENCE = 1e-4
"""Of the logits of the probe, relative to the largest: float32 stays well below it, another result above."""


class PooledLayer:
    """The last layer of a network in its short form, until `remove`."""

    def __init__(self, layer: nn.Module, attention: SelfAttention) -> None:
        self.layer, self.attention = layer, attention
        self.before = layer.__dict__.get("forward")
        layer.forward = self.forward

    def forward(self, hidden_states: Tensor, attention_mask: Tensor | None = None, *_: Any, **__: Any) -> Any:
        first, parts = hidden_states[:, :1], self.attention
        query, key, value = (
            parts.by_head(project(states))
            for project, states in (
                (parts.query, first),
                (parts.key, hidden_states),
                (parts.value, hidden_states),
            )
        )
        mask = None if attention_mask is None else attention_mask[:, :, :1]
        if mask is not None and mask.is_floating_point():
            mask = mask.to(query.dtype)
        dropout = parts.dropout if self.layer.training else 0.0
        seen = scaled_dot_product_attention(query, key, value, attn_mask=mask, dropout_p=dropout)
        return parts.finish(seen.transpose(1, 2).flatten(2), first)

    def remove(self) -> None:
        if self.before is None:
            self.layer.__dict__.pop("forward", None)
        else:
            self.layer.forward = self.before


def pool_last_layer(model: nn.Module, probe: Mapping[str, Any]) -> PooledLayer | None:
    """Shorten the last layer of a network; None, and nothing is changed, where its head reads more than the
    first token or the layer is not of a known form. `probe`: a batch of a few rows, without labels."""
    network = base_model(model)
    points = MixPoints(network)
    if not points.layers or points.is_shared or points.lowest >= points.depth:
        return None
    layer = points.layers[-1]
    attention = self_attention(layer, network)
    if attention is None:
        return None
    was_training = [(module, module.training) for module in network.modules()]
    network.eval()
    try:
        expected = _logits(network, probe)
        pooled = PooledLayer(layer, attention)
        try:
            found = _logits(network, probe)
        except (RuntimeError, TypeError, IndexError, ValueError):
            found = None  # the head wants all positions
        scale = expected.abs().max().clamp(min=1)
        if found is None or not float((found - expected).abs().max() / scale) <= LARGEST_DIFFERENCE:
            pooled.remove()
            return None
        return pooled
    finally:
        for module, mode in was_training:
            module.training = mode


@contextmanager
def pooled_last_layer(model: nn.Module, probe: Mapping[str, Any]) -> Iterator[None]:
    """The last layer in its short form inside the block, where it has one."""
    pooled = pool_last_layer(model, probe)
    try:
        yield
    finally:
        if pooled is not None:
            pooled.remove()


@torch.no_grad()
def _logits(network: Callable[..., Any], probe: Mapping[str, Any]) -> Tensor:
    logits: Tensor = network(**probe).logits
    return logits
