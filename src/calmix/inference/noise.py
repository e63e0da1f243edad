"""Rows that are nothing but Gaussian noise, drawn with the mean and the variance of what training saw.

Images: every pixel of every channel is drawn from N(mean, variance) of the training images; where those are
all gray, so is the noise. Texts: the word vectors of real rows are replaced by draws from N(mean, variance)
of every dimension of the network's word embeddings, so that there is nothing to read but as much of it.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from calmix.data.images.pixels import PixelStatistics
from calmix.runtime.double_precision import in_double
from calmix.runtime.randomness import stream


@dataclass(frozen=True)
class NoiseImages:
    """A dataset of noise as `pixel_values` [3, height, width], normalised as the network expects it."""

    rows: int
    size: tuple[int, int]
    statistics: PixelStatistics
    mean: Sequence[float]
    std: Sequence[float]
    """Those of the image processor: what pixels are normalised by."""
    seed: int = 0

    is_choice = False

    def __len__(self) -> int:
        return self.rows

    def __getitem__(self, position: int) -> dict[str, Any]:
        channels = 1 if self.statistics.gray else 3
        drawn = stream(self.seed, "noise", position).normal(size=(channels, *self.size))
        # On the scale 0..1, not cut off there: noise has the stated variance.
        pixels = _channels(self.statistics.mean) + _channels(self.statistics.std) * drawn
        values = (pixels - _channels(self.mean)) / _channels(self.std)
        return {"pixel_values": values.astype(np.float32)}

    def by_length(self) -> tuple[NoiseImages, NDArray[np.int64]]:
        return self, np.arange(self.rows)


def _channels(values: Sequence[float]) -> NDArray[np.float64]:
    return np.asarray(values, dtype=np.float64).reshape(3, 1, 1)


def stack_pixels(features: Sequence[Mapping[str, Any]]) -> dict[str, Tensor]:
    """A collator for images that are ready."""
    return {"pixel_values": torch.from_numpy(np.stack([row["pixel_values"] for row in features]))}


@contextmanager
def noise_for_words(model: nn.Module, seed: int = 0) -> Iterator[None]:
    """Inside, the network reads noise in place of every word.

    What is drawn for a batch depends on the seed and on the batch's tokens, so that several passes over it
    read the same noise.
    """
    embeddings: Any = model.get_input_embeddings()  # type: ignore[operator]
    table = in_double(embeddings.weight)
    padding = embeddings.padding_idx
    if padding is not None:
        table = torch.cat([table[:padding], table[padding + 1 :]])
    device = embeddings.weight.device
    mean, std = table.mean(dim=0).float().to(device), table.std(dim=0, correction=0).float().to(device)

    def replace(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Tensor) -> Tensor:
        tokens: Tensor = args[0] if args else next(iter(kwargs.values()))
        tag = zlib.crc32(np.ascontiguousarray(tokens.cpu().numpy()).tobytes())
        drawn = stream(seed, "noise", tag).standard_normal(tuple(output.shape), dtype=np.float32)
        noise: Tensor = mean + std * torch.from_numpy(drawn).to(mean.device)
        return noise.to(output.dtype)

    handle = embeddings.register_forward_hook(replace, with_kwargs=True)
    try:
        yield
    finally:
        handle.remove()
