"""Images as rows keep them: the bytes of an image file, or the path of one.

An array is kept as an uncompressed image file (PNM: a line of text, then the pixels), so that there is one
kind of thing to keep and nothing is lost or compressed. Networks see RGB: a gray image has three equal
channels.
"""

from __future__ import annotations

import hashlib
import io
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from calmix.user_error import UserError

if TYPE_CHECKING:
    from PIL.Image import Image

StoredImage = bytes | str
Pixels = NDArray[np.uint8]

EXTENSIONS = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm")
PNM_HEADER = re.compile(rb"P([56])\n(\d+) (\d+)\n255\n")


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
    content = image if isinstance(image, bytes) else Path(image).read_bytes()
    header = PNM_HEADER.match(content)
    if header is None:
        try:
            return _decode_file(content)
        except (OSError, SyntaxError, ValueError) as error:  # what each format's reader raises
            file = None if isinstance(image, bytes) else image
            raise UserError(f"the image cannot be decoded ({error})", file=file) from None
    width, height = int(header[2]), int(header[3])
    if header[1] == b"5":
        gray = np.frombuffer(content, np.uint8, width * height, header.end()).reshape(height, width, 1)
        return np.repeat(gray, 3, axis=2)
    return np.frombuffer(content, np.uint8, 3 * width * height, header.end()).reshape(height, width, 3)


def _decode_file(content: bytes) -> Pixels:
    from PIL import Image, ImageOps

    with Image.open(io.BytesIO(content)) as opened:
        turned: Image.Image = ImageOps.exif_transpose(opened) or opened
        if turned.mode.startswith("I;16"):  # 16 bits of gray, which PIL would cut off at 255
            gray = (np.asarray(turned) >> 8).astype(np.uint8)
            return np.repeat(gray[:, :, None], 3, axis=2)
        return np.asarray(turned.convert("RGB"))


def inspect(content: bytes) -> tuple[tuple[int, int], str]:
    """((height, width), digest) of the bytes of an image file, without decoding the pixels.

    A ValueError says what is wrong with them.
    """
    digest = hashlib.blake2b(content, digest_size=16).hexdigest()
    header = PNM_HEADER.match(content)
    if header is not None:
        return (int(header[3]), int(header[2])), digest
    from PIL import Image, UnidentifiedImageError

    try:
        with Image.open(io.BytesIO(content)) as opened:
            if opened.mode in ("F", "I"):
                raise ValueError(f"an image of mode {opened.mode}, whose range is not known")
            width, height = opened.size
            # 5 to 8: the camera was held on its side, and the image is turned when it is decoded.
            turned = opened.getexif().get(0x0112, 1) >= 5
    except (UnidentifiedImageError, OSError, SyntaxError, Image.DecompressionBombError) as error:
        raise ValueError(f"not an image file ({type(error).__name__})") from None
    return ((width, height) if turned else (height, width)), digest


def resized(pixels: Pixels, size: tuple[int, int]) -> Pixels:
    """The image at (height, width), by PIL's bilinear filter, which is what image processors use."""
    if pixels.shape[:2] == size:
        return pixels
    from PIL import Image

    return np.asarray(Image.fromarray(pixels).resize((size[1], size[0]), Image.Resampling.BILINEAR))


def is_gray(pixels: NDArray[Any]) -> bool:
    """Whether the three channels [..., 3] are equal."""
    return bool((pixels[..., 0] == pixels[..., 1]).all() and (pixels[..., 0] == pixels[..., 2]).all())
