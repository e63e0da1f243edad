"""Images as rows keep them: the bytes of an image file, or the path of one.

An array is kept as an uncompressed image file (PNM: a line of text, then the pixels), so that there is one
kind of thing to keep and nothing is lost or compressed. Networks see RGB: a gray image has three equal
channels.
"""

from __future__ import annotations

import hashlib
import io
import re
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from calmix.user_error import UserError

if TYPE_CHECKING:
    from PIL.Image import Image

StoredImage = bytes | str
Pixels = NDArray[np.uint8]

EXTENSIONS = (".png", ".jpg", ".jpeg", ".jfif", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm")
PNM_HEADER = re.compile(rb"P([56])\n(\d+) (\d+)\n255\n")


class UnreadableImage(UserError):
    """An image that could be read when its rows were, and no longer can."""


class ImageFacts(NamedTuple):
    size: tuple[int, int]
    """(height, width), turned as the camera says."""
    digest: str
    """A hash of the bytes of the file."""


def as_pnm(pixels: Pixels) -> bytes:
    """An array [height, width], or [height, width, 3], as the bytes of an image file.

    >>> as_pnm(np.zeros((1, 2), dtype=np.uint8))
    b'P5\\n2 1\\n255\\n\\x00\\x00'
    """
    kind = b"P5" if pixels.ndim == 2 else b"P6"
    height, width = pixels.shape[:2]
    return b"%s\n%d %d\n255\n" % (kind, width, height) + pixels.tobytes()


def decode(image: StoredImage) -> Pixels:
    """The pixels [height, width, 3] of a kept image, turned as its camera says.

    >>> decode(as_pnm(np.array([[7, 9]], dtype=np.uint8))).tolist()
    [[[7, 7, 7], [9, 9, 9]]]
    """
    file = None if isinstance(image, bytes) else image
    try:
        content = image if isinstance(image, bytes) else Path(image).read_bytes()
        header = PNM_HEADER.match(content)
        if header is not None:
            return _pnm_pixels(content, header)
        with _opened(content) as opened:
            return _rgb(opened)
    except OSError as error:
        raise UnreadableImage(f"the image cannot be read ({error.strerror})", file=file) from None
    except ValueError as error:
        raise UnreadableImage(str(error), file=file) from None


def inspect(content: bytes) -> ImageFacts:
    """What the bytes of an image file hold. Every pixel is decoded: half an image is found here, not when
    training comes to it. A ValueError says what is wrong."""
    digest = hashlib.blake2b(content, digest_size=16).hexdigest()
    header = PNM_HEADER.match(content)
    if header is not None:
        height, width = _pnm_pixels(content, header).shape[:2]
        return ImageFacts((height, width), digest)
    with _opened(content) as opened:
        if opened.mode in ("F", "I"):
            raise ValueError(f"an image of mode {opened.mode}, whose range is not known")
        width, height = opened.size
        if opened.draft(None, (1, 1)) is None:
            height, width = _rgb(opened).shape[:2]
        else:  # a JPEG: all of the file is read, and an eighth of either side computed
            # The camera was held on its side, and the image is turned when it is decoded.
            turned = opened.getexif().get(0x0112) in (5, 6, 7, 8)
            opened.load()
            height, width = (width, height) if turned else (height, width)
    return ImageFacts((height, width), digest)


@contextmanager
def _opened(content: bytes) -> Iterator[Image]:
    """An image file while it is looked at; what its format's reader raises becomes a ValueError."""
    from PIL import Image, UnidentifiedImageError

    try:
        with Image.open(io.BytesIO(content)) as opened:
            yield opened
    except UnidentifiedImageError:
        raise ValueError("not an image file" if content else "an empty file") from None
    except (OSError, SyntaxError, EOFError, struct.error, Image.DecompressionBombError) as error:
        raise ValueError(f"the image cannot be decoded ({error})") from None


def _pnm_pixels(content: bytes, header: re.Match[bytes]) -> Pixels:
    width, height = int(header[2]), int(header[3])
    channels = 1 if header[1] == b"5" else 3
    if len(content) - header.end() < channels * width * height:
        raise ValueError("the image cannot be decoded (its end is missing)")
    pixels = np.frombuffer(content, np.uint8, channels * width * height, header.end())
    pixels = pixels.reshape(height, width, channels)
    return pixels if channels == 3 else np.repeat(pixels, 3, axis=2)


def _rgb(opened: Image) -> Pixels:
    from PIL import Image, ImageOps

    turned: Image.Image = ImageOps.exif_transpose(opened) or opened
    if turned.mode.startswith("I;16"):  # 16 bits of gray, which PIL would cut off at 255
        gray = (np.asarray(turned) >> 8).astype(np.uint8)
        return np.repeat(gray[:, :, None], 3, axis=2)
    if turned.has_transparency_data:
        # On white, as on a page: what is transparent has any colour, often black.
        page = Image.new("RGBA", turned.size, "white")
        turned = Image.alpha_composite(page, turned.convert("RGBA"))
    return np.asarray(turned.convert("RGB"))


def resized(pixels: Pixels, size: tuple[int, int]) -> Pixels:
    """The image at (height, width), by PIL's bilinear filter, which is what image processors use."""
    if pixels.shape[:2] == size:
        return pixels
    from PIL import Image

    return np.asarray(Image.fromarray(pixels).resize((size[1], size[0]), Image.Resampling.BILINEAR))


def is_gray(pixels: NDArray[Any]) -> bool:
    """Whether the three channels [..., 3] are equal."""
    return bool((pixels[..., 0] == pixels[..., 1]).all() and (pixels[..., 0] == pixels[..., 2]).all())
