"""Rows with damaged inputs and unchanged labels: what a temperature for unknown domains is fitted on.

Every copy of a text is damaged in one of four ways, in turn from row to row and copy to copy:

    drop         words are left out, each with the given probability; at least one stays
    swap         words change places with the next one
    characters   in a word a character is left out, doubled, replaced or exchanged with the next
    replace      words are replaced by words drawn from all rows

The strength, the share of words that are damaged, is drawn from 0.1, 0.3 and 0.5. Both texts of a pair, and
the question and all choices of a row, are damaged alike. Images: see `images.corruption`. What happens to a
row is a pure function of (seed, copy, row).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from calmix.data.images.corruption import corrupted
from calmix.data.images.stored import as_pnm, decode
from calmix.data.rows import Rows
from calmix.runtime.randomness import stream

KINDS = ("drop", "swap", "characters", "replace")
STRENGTHS = (0.1, 0.3, 0.5)
COPIES = 4
LETTERS = "abcdefghijklmnopqrstuvwxyz"


def perturbed(rows: Rows, copy: int, *, seed: int = 0) -> Rows:
    """A damaged copy of rows, with their ids and labels."""
    names = [f"{row_id}~{copy}" for row_id in rows.row_ids]
    labels = rows.labels if rows.is_labelled else None
    known: dict[str, Any] = {"labels": labels, "label_names": rows.label_names, "source": rows.source}
    draws = [stream(seed, "perturbation", copy, place) for place in range(len(rows))]
    if rows.task == "image":
        pictures = [
            as_pnm(corrupted(decode(image), place + copy, draw))
            for place, (image, draw) in enumerate(zip(rows.images(), draws, strict=True))
        ]
        return Rows.from_images(names, pictures, **known)
    words = sorted({word for text in rows.texts() for word in text.split()}) or ["-"]
    levels = [STRENGTHS[int(draw.integers(len(STRENGTHS)))] for draw in draws]

    def damage(texts: Sequence[str]) -> list[str]:
        return [
            damaged(text, KINDS[(place + copy) % len(KINDS)], level, draw, words)
            for place, (text, level, draw) in enumerate(zip(texts, levels, draws, strict=True))
        ]

    choices = None
    if rows.task == "choice":
        columns = [damage(column) for column in zip(*rows.choices(), strict=True)]
        choices = [list(row) for row in zip(*columns, strict=True)]
    pairs = damage(rows.pairs()) if rows.task == "pair" else None
    return Rows.from_columns(names, damage(rows.texts()), pairs=pairs, choices=choices, **known)


def damaged(
    text: str, kind: str, strength: float, generator: np.random.Generator, words: Sequence[str]
) -> str:
    """One text, damaged in one way.

    >>> damaged("a b c", "drop", 1.0, np.random.default_rng(0), ["x"]) in ("a", "b", "c")
    True
    >>> damaged("a b c", "replace", 1.0, np.random.default_rng(0), ["x"])
    'x x x'
    >>> damaged("a b c", "swap", 1.0, np.random.default_rng(0), ["x"])
    'b c a'
    """
    parts = text.split()
    hit = generator.random(len(parts)) < strength
    if not parts or not hit.any():
        return text
    if kind == "drop":
        kept = [part for part, gone in zip(parts, hit, strict=True) if not gone]
        parts = kept or [parts[int(generator.integers(len(parts)))]]
    elif kind == "swap":
        for place in np.flatnonzero(hit[:-1]):
            parts[place], parts[place + 1] = parts[place + 1], parts[place]
    else:
        for place in np.flatnonzero(hit):
            parts[place] = (
                mistyped(parts[place], generator)
                if kind == "characters"
                else words[int(generator.integers(len(words)))]
            )
    return " ".join(parts)


def mistyped(word: str, generator: np.random.Generator) -> str:
    """A word with one slip: a character left out, doubled, replaced, or exchanged with the next.

    >>> len(mistyped("word", np.random.default_rng(0))) in (3, 4, 5)
    True
    """
    place, slip = int(generator.integers(len(word))), int(generator.integers(4))
    before, here, after = word[:place], word[place], word[place + 1 :]
    if slip == 0 and len(word) > 1:
        return before + after
    if slip == 1:
        return before + here + here + after
    if slip == 2 and after:
        return before + after[0] + here + after[1:]
    return before + LETTERS[int(generator.integers(len(LETTERS)))] + after
