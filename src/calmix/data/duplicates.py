"""Rows with the same input: texts that agree but for case and blanks, images with the same bytes.

Inputs are compared by hashes of 16 bytes: millions of texts are never held at a time.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from calmix.data.rows import Rows

InputKeys = NDArray[np.bytes_]
KEY_BYTES = 16
CHUNK_ROWS = 1 << 14


def input_keys(rows: Rows) -> InputKeys:
    """A hash of what makes two rows the same input. The choices of a question may be in any order.

    >>> rows = Rows.from_columns(["a", "b", "c"], ["Good  film", "good film ", "bad film"])
    >>> first, second, third = input_keys(rows)
    >>> bool(first == second), bool(first == third)
    (True, False)
    """
    hashes = (
        hashlib.blake2b(repr(parts).encode("utf-8", "surrogatepass"), digest_size=KEY_BYTES).digest()
        for chunk in rows.chunks(CHUNK_ROWS)
        for parts in _inputs(chunk)
    )
    return np.fromiter(hashes, dtype=f"S{KEY_BYTES}", count=len(rows))


def _inputs(rows: Rows) -> Iterator[tuple[str, ...]]:
    if rows.task == "image":
        return zip(rows.digests(), strict=True)
    texts = map(without_case, rows.texts())
    if rows.task == "pair":
        return zip(texts, map(without_case, rows.pairs()), strict=True)
    if rows.task == "choice":
        choices = (sorted(map(without_case, given)) for given in rows.choices())
        return ((text, *given) for text, given in zip(texts, choices, strict=True))
    return zip(texts, strict=True)


def without_case(text: str) -> str:
    """A text without its case and with single blanks.

    >>> without_case(" A  Film\\n")
    'a film'
    """
    return " ".join(text.casefold().split())


def repeated(keys: InputKeys) -> list[list[int]]:
    """The positions of every key that occurs more than once, in their order.

    >>> repeated(np.array([b"a", b"b", b"a"]))
    [[0, 2]]
    """
    order = np.argsort(keys, kind="stable")
    starts = np.flatnonzero(np.append(True, keys[order][1:] != keys[order][:-1])) if len(keys) else order
    ends = np.append(starts[1:], len(keys))
    groups = [order[starts[one] : ends[one]].tolist() for one in np.flatnonzero(ends - starts > 1)]
    return sorted(groups)


def first_places(keys: InputKeys, known: InputKeys) -> NDArray[np.int64]:
    """Where each key stands first among the known ones, −1 where it does not.

    >>> first_places(np.array([b"b", b"c"]), np.array([b"a", b"b", b"b"])).tolist()
    [1, -1]
    """
    if not len(known):
        return np.full(len(keys), -1, dtype=np.int64)
    order = np.argsort(known, kind="stable")
    at = np.minimum(np.searchsorted(known, keys, sorter=order), len(known) - 1)
    return np.where(known[order[at]] == keys, order[at], -1).astype(np.int64)
