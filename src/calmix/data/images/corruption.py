"""The usual corruptions of images, at three strengths.

    noise        Gaussian, of standard deviation 0.08, 0.16 and 0.32 of the range
    blur         Gaussian, of radius 0.02, 0.04 and 0.08 of the short side
    contrast     the distance from the mean gray times 0.6, 0.4 and 0.2
    brightness   0.15, 0.3 and 0.45 of the range added
    pixelate     reduced to 0.6, 0.4 and 0.25 of the size and enlarged again

After Hendrycks & Dietterich (ICLR 2019), with strengths of our own that do for images of any size.
"""

from __future__ import annotations

import numpy as np

from calmix.data.images.stored import Pixels

CORRUPTIONS = ("noise", "blur", "contrast", "brightness", "pixelate")
NOISE = (0.08, 0.16, 0.32)
BLUR = (0.02, 0.04, 0.08)
CONTRAST = (0.6, 0.4, 0.2)
BRIGHTNESS = (0.15, 0.3, 0.45)
PIXELATE = (0.6, 0.4, 0.25)


def corrupted(pixels: Pixels, turn: int, generator: np.random.Generator) -> Pixels:
    """An image [height, width, 3] under the corruption whose turn it is, at a drawn strength.

    >>> gray = np.full((4, 4, 3), 100, dtype=np.uint8)
    >>> corrupted(gray, CORRUPTIONS.index("contrast"), np.random.default_rng(0))[0, 0].tolist()
    [100, 100, 100]
    """
    from PIL import Image, ImageFilter

    kind, level = CORRUPTIONS[turn % len(CORRUPTIONS)], int(generator.integers(3))
    if kind in ("blur", "pixelate"):
        picture = Image.fromarray(pixels)
        width, height = picture.size
        if kind == "blur":
            radius = BLUR[level] * min(width, height)
            return np.asarray(picture.filter(ImageFilter.GaussianBlur(radius)))
        small = max(round(width * PIXELATE[level]), 1), max(round(height * PIXELATE[level]), 1)
        reduced = picture.resize(small, Image.Resampling.BOX)
        return np.asarray(reduced.resize((width, height), Image.Resampling.NEAREST))
    values = pixels.astype(np.float64)
    if kind == "noise":
        # One draw for all channels: a gray image stays gray.
        values += 255 * NOISE[level] * generator.normal(size=(*pixels.shape[:2], 1))
    elif kind == "contrast":
        values = values.mean() + CONTRAST[level] * (values - values.mean())
    else:
        values += 255 * BRIGHTNESS[level]
    return np.asarray(np.clip(np.round(values), 0, 255).astype(np.uint8))
