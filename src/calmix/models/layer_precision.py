"""The layers of an encoder in bfloat16 while they are trained; everything else in float32.

Matrix products of a layer take most of a step. Processors with AVX512-BF16 or AMX multiply bfloat16 at two to
eight times the speed of float32. Weights, their gradients, the optimiser, the residual stream, norms, the
head and the loss stay in float32, so that logits and margins keep their digits; so does everything in
evaluation mode, which is what predictions and metrics are made of.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from calmix.models.hf_compat import WIDTHS, base_model, reads_images
from calmix.models.mix_points import MixPoints

LEAST_WIDTH = 256
"""Of an encoder whose layers are worth it: narrower ones spend their time between matrix products. Measured
with `python -m benchmarks.layer_precision`."""


def processor_multiplies_bfloat16() -> bool:
    """Whether the CPU has instructions for it; without, it is slower than float32."""
    found: Any = torch.cpu.get_capabilities() if hasattr(torch.cpu, "get_capabilities") else {}
    return bool(found.get("avx512_bf16") or found.get("amx_bf16"))


def device_multiplies_bfloat16(device: str) -> bool:
    """The rule of `--precision auto` for the hardware. CUDA's part is untried, and Apple GPUs use float32."""
    if device == "cpu":
        return processor_multiplies_bfloat16()
    is_there = device == "cuda" and torch.cuda.is_available()
    return is_there and torch.cuda.is_bf16_supported(including_emulation=False)


def is_wide(model: nn.Module) -> bool:
    """Whether an encoder of texts is wide enough for its layers to be most of a step."""
    network: Any = base_model(model)
    config: Any = getattr(network, "config", None)
    width = next((value for name in WIDTHS if isinstance(value := getattr(config, name, None), int)), 0)
    return not reads_images(network) and width >= LEAST_WIDTH


class BfloatLayers:
    """The layers of a network, each run in bfloat16 while it is in training mode, until `remove`."""

    def __init__(self, model: nn.Module) -> None:
        self.layers = MixPoints(model).layers
        self.before = [layer.__dict__.get("forward") for layer in self.layers]
        for layer in self.layers:
            layer.forward = _in_bfloat16(layer, layer.forward)

    def remove(self) -> None:
        for layer, before in zip(self.layers, self.before, strict=True):
            if before is None:
                layer.__dict__.pop("forward", None)
            else:
                layer.forward = before


def _in_bfloat16(layer: nn.Module, run: Callable[..., Any]) -> Callable[..., Any]:
    device = next(layer.parameters()).device.type

    def forward(*args: Any, **kwargs: Any) -> Any:
        if not layer.training:
            return run(*args, **kwargs)
        with torch.autocast(device, torch.bfloat16):
            return run(*args, **kwargs)

    return forward
