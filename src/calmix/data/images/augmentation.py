"""Random crops, flips and rotations of training images.

What happens to a row is a pure function of (seed, epoch, row), so that a resumed run sees the images that an
unbroken one would, in any number of processes.

    crop       the image on a border of 4 black pixels, cut back to its size at a random place
    flip       left and right exchanged, for half of the rows
    rotation   by an angle drawn from -15..15 degrees, around the middle
    resized    a part of 8 to 100 % of the image, 3:4 to 4:3 of its shape, enlarged to its size (ImageNet)
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from calmix.data.images.stored import Pixels
from calmix.runtime.randomness import stream
from calmix.user_error import UserError, argument

STEPS = ("crop", "flip", "rotation", "resized")
BORDER = 4
LARGEST_ANGLE = 15.0
# Szegedy et al. 2015, and torchvision's RandomResizedCrop.
LEAST_AREA, NARROWEST = 0.08, 3 / 4


def parse_steps(text: str | None) -> tuple[str, ...]:
    """`crop,flip` -> the steps, in the order in which they are taken.

    >>> parse_steps("flip,crop"), parse_steps("none"), parse_steps(None)
    (('crop', 'flip'), (), ())
    """
    named = [part.strip() for part in (text or "none").split(",") if part.strip()]
    for name in named:
        if name not in STEPS and name != "none":
            raise UserError(
                f"{argument('augment')}: no such step {name!r}",
                remedy=f"choose of {', '.join(STEPS)}, or none",
            )
    return tuple(step for step in STEPS if step in named)


@lru_cache(maxsize=2)
def epoch_draws(seed: int, epoch: int, rows: int) -> NDArray[np.float64]:
    """Four uniform numbers in [0, 1) for every row of an epoch: crop down, crop right, flip, angle."""
    return stream(seed, "augmentation", epoch).random((rows, 4))


@lru_cache(maxsize=2)
def part_draws(seed: int, epoch: int, rows: int) -> NDArray[np.float64]:
    """Two more for `resized`: area and shape."""
    return stream(seed, "augmentation: part", epoch).random((rows, 2))


@dataclass(frozen=True)
class Augmentation:
    """How training images are changed, for a set of `rows` images."""

    steps: tuple[str, ...]
    seed: int
    rows: int

    def __call__(self, pixels: Pixels, position: int, epoch: int) -> Pixels:
        """The image of a row as it is seen in an epoch."""
        down, right, flip, angle = epoch_draws(self.seed, epoch, self.rows)[position]
        if "rotation" in self.steps:
            pixels = rotated(pixels, LARGEST_ANGLE * (2 * angle - 1))
        if "resized" in self.steps:
            area, shape = part_draws(self.seed, epoch, self.rows)[position]
            pixels = resized_part(pixels, area, shape, down, right)
        if "crop" in self.steps:
            places = 2 * BORDER + 1
            pixels = cropped(pixels, int(down * places), int(right * places))
        if "flip" in self.steps and flip < 0.5:
            pixels = pixels[:, ::-1]
        return pixels


def cropped(pixels: Pixels, down: int, right: int, border: int = BORDER) -> Pixels:
    """The image on a black border, cut to its own size `down` and `right` of the corner.

    >>> cropped(np.array([[[1], [2]], [[3], [4]]], dtype=np.uint8), 1, 0, border=1)[:, :, 0].tolist()
    [[0, 1], [0, 3]]
    """
    height, width = pixels.shape[:2]
    framed = np.zeros((height + 2 * border, width + 2 * border, pixels.shape[2]), dtype=pixels.dtype)
    framed[border : border + height, border : border + width] = pixels
    return framed[down : down + height, right : right + width]


def part_of(height: int, width: int, area: float, shape: float) -> tuple[int, int]:
    """Height and width of a part, from uniform numbers: its area, and the logarithm of its shape.

    >>> part_of(100, 100, 1.0, 0.5), part_of(100, 100, 0.0, 0.5), part_of(100, 100, 0.5, 1.0)
    ((100, 100), (28, 28), (64, 85))
    """
    share = LEAST_AREA + (1 - LEAST_AREA) * area
    ratio = NARROWEST ** (1 - 2 * shape)
    sides = (height * (share / ratio) ** 0.5, width * (share * ratio) ** 0.5)
    return min(max(round(sides[0]), 1), height), min(max(round(sides[1]), 1), width)


def resized_part(pixels: Pixels, area: float, shape: float, down: float, right: float) -> Pixels:
    """A part of the image at a place (uniform numbers), enlarged to the size of the image."""
    from PIL import Image

    height, width = pixels.shape[:2]
    tall, wide = part_of(height, width, area, shape)
    top, left = int(down * (height - tall + 1)), int(right * (width - wide + 1))
    part = np.ascontiguousarray(pixels[top : top + tall, left : left + wide])
    return np.asarray(Image.fromarray(part).resize((width, height), Image.Resampling.BILINEAR))


def rotated(pixels: Pixels, degrees: float) -> Pixels:
    """The image turned counter-clockwise; what comes from outside is black."""
    from PIL import Image

    return np.asarray(Image.fromarray(pixels).rotate(degrees, Image.Resampling.BILINEAR))
