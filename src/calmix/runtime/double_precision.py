"""Double precision on every device."""

from __future__ import annotations

import torch
from torch import Tensor

WITHOUT_DOUBLE = ("mps",)
"""Kinds of devices that have no float64: Apple's GPUs."""


def in_double(values: Tensor) -> Tensor:
    """The values as float64: where they are, or on the CPU where their device has none.

    Elsewhere nothing is moved, which would wait for the device.

    >>> in_double(torch.tensor([1, 2]))
    tensor([1., 2.], dtype=torch.float64)
    """
    kept = values.detach()
    return (kept.cpu() if kept.device.type in WITHOUT_DOUBLE else kept).to(torch.float64)
