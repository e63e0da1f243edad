"""What a page carries inside itself: data as JSON and base64, style and script with their hashes.

The content security policy of every page admits its own style and script by hash and nothing else, so that
no text of the data can load or run anything, even if it got out of its place.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

import numpy as np
import numpy.typing as npt
from markupsafe import Markup


@dataclass(frozen=True)
class Asset:
    """A style sheet or a script as it stands in the page, with its source for the policy."""

    text: Markup
    source: str

    @classmethod
    def of(cls, names: Sequence[str]) -> Asset:
        """These files of `report/templates`, one after the other."""
        text = "\n".join(template_part(name) for name in names)
        return cls(Markup(text), f"'sha256-{_base64_text(hashlib.sha256(text.encode()).digest())}'")


def template_part(name: str) -> str:
    return files("calmix.report").joinpath("templates", name).read_text(encoding="utf-8")


def json_block(content: Any) -> Markup:
    """JSON for a <script> block: no "<", so that no text can end the block or open a comment.

    >>> json_block({"label": "</script>"})
    Markup('{"label": "\\\\u003c/script>"}')
    """
    return Markup(json.dumps(content, ensure_ascii=False, allow_nan=False).replace("<", "\\u003c"))


def base64_array(column: npt.NDArray[Any], kind: str) -> str:
    """The numbers as base64 of a little-endian array of this kind, such as "<f4".

    >>> base64_array(np.array([1, 2]), "<i2")
    'AQACAA=='
    """
    return _base64_text(np.ascontiguousarray(column, dtype=kind).tobytes())


def _base64_text(content: bytes) -> str:
    return base64.b64encode(content).decode("ascii")
