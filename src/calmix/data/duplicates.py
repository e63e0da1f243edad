"""Rows with the same input: texts that agree but for case and blanks, images with the same bytes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from calmix.data.rows import Rows

InputKey = tuple[str, ...]


def input_keys(rows: Rows) -> list[InputKey]:
    """What makes two rows the same input. The choices of a question may be in any order.

    >>> one = Rows.from_columns(["a"], ["Good  film"], source="a.csv")
    >>> input_keys(one)
    [('good film',)]
    """
    if rows.task == "image":
        return [(digest,) for digest in rows.digests()]
    texts = [without_case(text) for text in rows.texts()]
    if rows.task == "pair":
        return list(zip(texts, map(without_case, rows.pairs()), strict=True))
    if rows.task == "choice":
        return [
            (text, *sorted(map(without_case, choices)))
            for text, choices in zip(texts, rows.choices(), strict=True)
        ]
    return [(text,) for text in texts]


def without_case(text: str) -> str:
    """A text without its case and with single blanks.

    >>> without_case(" A  Film\\n")
    'a film'
    """
    return " ".join(text.casefold().split())


def repeated(keys: Sequence[InputKey]) -> list[list[int]]:
    """The positions of every key that occurs more than once.

    >>> repeated([("a",), ("b",), ("a",)])
    [[0, 2]]
    """
    positions: defaultdict[InputKey, list[int]] = defaultdict(list)
    for position, key in enumerate(keys):
        positions[key].append(position)
    return [group for group in positions.values() if len(group) > 1]
