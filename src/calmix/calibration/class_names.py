"""Classes are matched by name, whatever its spelling; never by position.

`True`, `true` and `TRUE` are one name, `1` and `1.0` another. Where two classes are called 0 and 1, true is
1 and false is 0, and the other way round. A spelling that two classes share names neither of them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import numpy as np
import numpy.typing as npt

from calmix.calibration.input_checks import Integers

NUMBER = re.compile(r"[+-]?[0-9]+(\.[0-9]*)?")
TRUTH = {"true": "1", "false": "0", "1": "true", "0": "false"}
LISTED = 12


class DifferentClasses(ValueError):
    """Two sets of class names that do not match; the message lists both."""


class ClassLookup:
    """Where each class stands, by any spelling of its name.

    >>> lookup = ClassLookup(("True", "False"))
    >>> [lookup.find(name) for name in ("True", "false", "1", "0.0", "maybe")]
    [0, 1, 0, 1, None]
    >>> ClassLookup(("1", "1.0")).find("1.0"), ClassLookup(("1", "1.0")).find("01")
    (1, None)
    """

    def __init__(self, names: Sequence[str]) -> None:
        self._exact = {name: place for place, name in enumerate(names)}
        spellings = [spelling(name) for name in names]
        self._spelled = {
            spelled: place for place, spelled in enumerate(spellings) if spellings.count(spelled) == 1
        }
        self._is_truth = sorted(spellings) in (["0", "1"], ["false", "true"])

    def find(self, name: str) -> int | None:
        """The place of a class, None where no class has this name."""
        if name in self._exact:
            return self._exact[name]
        spelled = spelling(name)
        if spelled in self._spelled:
            return self._spelled[spelled]
        return self._spelled.get(TRUTH.get(spelled, "")) if self._is_truth else None


def spelling(name: str) -> str:
    """One spelling for names that differ in nothing but their writing.

    >>> [spelling(name) for name in ("TRUE", "1.0", "-1", "+1", "0.50", "Cat", "1e3")]
    ['true', '1', '-1', '1', '0.5', 'Cat', '1e3']
    """
    if name.lower() in ("true", "false"):
        return name.lower()
    if not NUMBER.fullmatch(name):
        return name
    whole, _, fraction = name.lstrip("+-").partition(".")
    digits = whole.lstrip("0") or "0"
    fraction = fraction.rstrip("0")
    unsigned = f"{digits}.{fraction}" if fraction else digits
    return f"-{unsigned}" if name.startswith("-") and unsigned != "0" else unsigned


def is_number_name(name: str) -> bool:
    """Whether a class is called by a number or a truth value, so that labels of that kind name it.

    >>> [is_number_name(name) for name in ("2", "-1.0", "True", "p1")]
    [True, True, True, False]
    """
    return bool(NUMBER.fullmatch(name)) or name.lower() in ("true", "false")


def same_when_typed(names: Sequence[str]) -> tuple[str, str] | None:
    """Two names that a csv reader takes for one number or truth value, if there are any.

    >>> same_when_typed(("1", "2", "1.0")), same_when_typed(("1e3", "1000")), same_when_typed(("0x1", "1"))
    (('1', '1.0'), ('1e3', '1000'), ('0x1', '1'))
    >>> same_when_typed(("true", "True")), same_when_typed(("cat", "Cat", "1", "-1"))
    (('true', 'True'), None)
    """
    seen: dict[float | str, str] = {}
    for name in names:
        value: float | str | None = name.lower() if name.lower() in ("true", "false") else None
        with suppress(ValueError):
            value = float(int(name, 16)) if name.lower().startswith("0x") else float(name)
        if value is not None and seen.setdefault(value, name) != name:
            return seen[value], name
    return None


def numbered_names(classes: int) -> tuple[str, ...]:
    """The names of classes that have none: their indices.

    >>> numbered_names(3)
    ('0', '1', '2')
    """
    return tuple(str(k) for k in range(classes))


def are_numbered(names: Sequence[str]) -> bool:
    """Whether the names are the indices 0..C-1 in their order, as those of classes without names are.

    >>> are_numbered(("0", "1")), are_numbered(("1", "0")), are_numbered(("1", "2"))
    (True, False, False)
    """
    return tuple(names) == numbered_names(len(names))


def class_order(theirs: Sequence[str], ours: Sequence[str]) -> Integers:
    """Where each of our classes stands among theirs; `DifferentClasses` where the sets differ.

    >>> class_order(("fox", "cat", "dog"), ("cat", "dog", "fox")).tolist()
    [1, 2, 0]
    >>> class_order(("1.0", "0.0"), ("0", "1")).tolist()
    [1, 0]
    """
    lookup = ClassLookup(theirs)
    found = [lookup.find(name) for name in ours]
    if len(theirs) != len(ours) or None in found or len(set(found)) != len(found):
        raise DifferentClasses(f"the classes differ: {listed(ours)} and {listed(theirs)}")
    return np.array(found, dtype=np.int64)


def listed(names: Sequence[str]) -> str:
    """All names, or the first of many.

    >>> listed(["cat", "dog"])
    'cat, dog'
    """
    more = f", ... ({len(names)} in all)" if len(names) > LISTED else ""
    return ", ".join(names[:LISTED]) + more


def label_name(value: Any) -> str:
    """The name that a label of any type stands for.

    >>> [label_name(value) for value in (True, 2, 1.0, "cat", np.int8(-1), np.bool_(False), b"dog")]
    ['True', '2', '1.0', 'cat', '-1', 'False', 'dog']
    """
    return value.decode() if isinstance(value, bytes) else str(value)


def find_labels(labels: npt.NDArray[Any], names: Sequence[str]) -> tuple[Integers, int | None]:
    """The class index of every label by its name, and the first row whose label names no class.

    >>> find_labels(np.array(["dog", "cat", "cow"]), ("cat", "dog"))
    (array([ 1,  0, -1]), 2)
    """
    lookup = ClassLookup(names)
    if labels.dtype == object:
        known: dict[str, int] = {}
        texts = [label_name(label) for label in labels.tolist()]
        for text in texts:
            if text not in known:
                found = lookup.find(text)
                known[text] = -1 if found is None else found
        indices = np.array([known[text] for text in texts], dtype=np.int64)
    else:
        values, inverse = np.unique(labels, return_inverse=True)
        places = [lookup.find(label_name(value)) for value in values.tolist()]
        indices = np.array([-1 if place is None else place for place in places], dtype=np.int64)[inverse]
    unknown = np.flatnonzero(indices < 0)
    return indices, int(unknown[0]) if unknown.size else None
