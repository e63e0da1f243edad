"""Dropout before the last layer of transformers' ResNet, which has none of its own.

How much is written into the configuration; whoever loads the checkpoint without calmix has the same network
without dropout, which is what evaluation wants.
"""

from __future__ import annotations

from typing import Any

from torch import nn

CONFIG_KEY = "head_dropout"


def add_head_dropout(model: Any) -> None:
    """As the configuration says, in place; no parameter is added or renamed."""
    share = getattr(model.config, CONFIG_KEY, None)
    if share:
        flatten, _ = model.classifier
        model.classifier[0] = nn.Sequential(flatten, nn.Dropout(share))
