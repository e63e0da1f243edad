"""Rows of images as a dataset, and the collator that makes `pixel_values` of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from calmix.data.images.augmentation import Augmentation
from calmix.data.images.stored import Pixels, StoredImage, decode, is_gray, resized
from calmix.data.rows import Rows

if TYPE_CHECKING:
    import torch

# Decoded images are kept where all take no more than this; others are decoded when they are asked for.
MOST_KEPT_BYTES = 1 << 30
# So many images, or pixels, tell the mean and the deviation of all: a thousand photographs of 10 megapixels.
STATISTICS_ROWS = 5000
STATISTICS_PIXELS = 10**10


@dataclass(frozen=True)
class EncodedImages:
    """A map-style dataset of images [height, width, 3].

    With a `size`, (height, width), every image has it; without, the image processor of the collator sees to
    it. `in_epoch` gives a row as training sees it, indexing gives it as it is.
    """

    images: tuple[StoredImage, ...]
    size: tuple[int, int] | None
    labels: NDArray[Any] | None
    row_ids: NDArray[np.str_]
    digests: tuple[str, ...]
    augmentation: Augmentation | None = None

    is_choice = False
    sequences_per_row = 1

    def __len__(self) -> int:
        return len(self.row_ids)

    @cached_property
    def kept(self) -> list[Pixels] | None:
        if self.size is None or len(self) * self.size[0] * self.size[1] * 3 > MOST_KEPT_BYTES:
            return None
        return [self._decode(position) for position in range(len(self))]

    def pixels(self, position: int) -> Pixels:
        return self._decode(position) if self.kept is None else self.kept[position]

    def _decode(self, position: int) -> Pixels:
        pixels = decode(self.images[position])
        return pixels if self.size is None else resized(pixels, self.size)

    def __getitem__(self, position: int) -> dict[str, Any]:
        return self._features(self.pixels(position), position)

    def in_epoch(self, position: int, epoch: int) -> dict[str, Any]:
        pixels = self.pixels(position)
        if self.augmentation is not None:
            pixels = self.augmentation(pixels, position, epoch)
        return self._features(pixels, position)

    def _features(self, pixels: Pixels, position: int) -> dict[str, Any]:
        features: dict[str, Any] = {"pixel_values": pixels}
        if self.labels is not None:
            features["labels"] = self.labels[position]
        return features

    def by_length(self) -> tuple[EncodedImages, NDArray[np.int64]]:
        """The rows, and where each came from: images have no length to sort by."""
        return self, np.arange(len(self))

    def content(self) -> list[NDArray[Any]]:
        """Arrays that tell this dataset from others, but for ids and labels."""
        return [np.frombuffer("".join(self.digests).encode(), dtype=np.uint8)]


def encode_images(
    rows: Rows, size: tuple[int, int] | None, augmentation: Augmentation | None = None
) -> EncodedImages:
    return EncodedImages(
        images=tuple(rows.images()),
        size=size,
        labels=rows.network_labels if rows.is_labelled else None,
        row_ids=rows.row_ids,
        digests=tuple(rows.digests()),
        augmentation=augmentation,
    )


@dataclass(frozen=True)
class PixelStatistics:
    """Mean and deviation of every channel, on the scale 0..1, and whether all images are gray."""

    mean: tuple[float, float, float]
    std: tuple[float, float, float]
    gray: bool

    @classmethod
    def of(cls, rows: Rows) -> PixelStatistics:
        """Of all pixels of a split; of evenly spread rows where there are many, or large ones."""
        images, sizes = rows.images(), np.array(rows.image_sizes(), dtype=np.int64)
        all_pixels = int(sizes.prod(axis=1).sum())
        step = max(len(images) // STATISTICS_ROWS, -(-all_pixels // STATISTICS_PIXELS), 1)
        counts, gray = np.zeros((3, 256), dtype=np.int64), True
        for image in images[::step]:
            pixels = decode(image)
            counts += [np.bincount(pixels[:, :, channel].ravel(), minlength=256) for channel in range(3)]
            gray = gray and is_gray(pixels)
        values = np.arange(256)
        count, total, squares = counts[0].sum(), counts @ values, counts @ values**2
        # Exact: whole numbers below 2^53, so that nothing cancels.
        variance = np.maximum(squares / count - (total / count) ** 2, 0.0)
        mean, std = total / count / 255, np.sqrt(variance) / 255
        return cls(tuple(mean.tolist()), tuple(std.tolist()), gray)


@dataclass(frozen=True)
class PixelCollator:
    """Images of equal size, stacked: `pixel_values` = (x / 255 - mean) / std, [rows, 3, height, width]."""

    mean: tuple[float, ...]
    std: tuple[float, ...]

    def __call__(self, features: Sequence[dict[str, Any]]) -> dict[str, torch.Tensor]:
        import torch

        stacked = np.stack([row["pixel_values"] for row in features])
        scale = (1 / (255 * np.asarray(self.std))).astype(np.float32)
        shift = (np.asarray(self.mean) / np.asarray(self.std)).astype(np.float32)
        values = torch.from_numpy(stacked * scale - shift).permute(0, 3, 1, 2)
        return {"pixel_values": values, **collated_labels(features)}


@dataclass(frozen=True)
class ProcessorCollator:
    """Whatever the image processor of a network does with its images."""

    processor: Any

    def __call__(self, features: Sequence[dict[str, Any]]) -> dict[str, torch.Tensor]:
        images = [np.ascontiguousarray(row["pixel_values"]) for row in features]
        batch = self.processor(images, input_data_format="channels_last", return_tensors="pt")
        return {"pixel_values": batch["pixel_values"], **collated_labels(features)}


def collated_labels(features: Sequence[dict[str, Any]]) -> dict[str, torch.Tensor]:
    import torch

    if "labels" not in features[0]:
        return {}
    return {"labels": torch.from_numpy(np.asarray([row["labels"] for row in features]))}
