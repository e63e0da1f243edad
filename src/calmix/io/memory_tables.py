"""Tables that were given as objects, by a name that says so: `in memory: 2,000 rows, fingerprint 1f0c...`.

The name goes wherever the name of a file goes: into `config.yaml`, into a model card, to a reader. It holds
as long as somebody holds the `MemoryData`, and equal content has equal names: a run that is resumed with the
same rows finds the same configuration.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from weakref import WeakSet

from calmix.io.table import DataTable
from calmix.user_error import UserError

PREFIX = "in memory: "
DIGITS = 16
WHOLE = ""
"""The only split of data that has none."""
_held: WeakSet[MemoryData] = WeakSet()
_count = itertools.count()


@dataclass(frozen=True, eq=False)
class MemoryData:
    """Tables by split, or a single one, as `WHOLE`."""

    name: str
    tables: Mapping[str, DataTable]
    number: int = field(default_factory=_count.__next__)
    """Equal data may be given twice; the newest says best which argument it is."""

    def table(self, split: str) -> DataTable:
        """The table of a split. A single table is itself whatever split is asked for."""
        if WHOLE in self.tables:
            return self.tables[WHOLE]
        if split not in self.tables:
            held = ", ".join(self.tables)
            raise UserError(f"no split {split!r}; the splits are: {held}", file=self.name)
        return self.tables[split]


def hold(tables: Mapping[str, DataTable]) -> MemoryData:
    """Give tables a name under which `memory_data` finds them while the result is alive.

    >>> rows = DataTable("train", ("text",), 2, {"text": ["good", "bad"]}.__getitem__)
    >>> held = hold({WHOLE: rows})
    >>> held.name, memory_data(held.name) is held
    ('in memory: 2 rows, fingerprint 768171a25f144c1d', True)
    """
    digest = hashlib.sha256()
    for split, table in tables.items():
        _add(digest, split)
        for name in table.names:
            _add(digest, name)
            _add_all(digest, table.read_column(name))
    rows = sum(table.row_count for table in tables.values())
    splits = "" if WHOLE in tables else f"{len(tables)} splits, "
    name = f"{PREFIX}{splits}{rows:,} row{'s' * (rows != 1)}, fingerprint {digest.hexdigest()[:DIGITS]}"
    made = MemoryData(name, dict(tables))
    _held.add(made)
    return made


def memory_data(source: str | Path) -> MemoryData | None:
    """What a name stands for; None for the name of anything else, an error if it is not there any more."""
    if not is_in_memory(source):
        return None
    found = [one for one in _held if one.name == str(source)]
    if not found:
        raise UserError(
            "these rows are not in memory any more", file=source, remedy="give the same rows again, in Python"
        )
    return max(found, key=lambda one: one.number)


def is_in_memory(source: str | Path) -> bool:
    return str(source).startswith(PREFIX)


def _add_all(digest: hashlib._Hash, values: Iterable[Any]) -> None:
    for value in values:
        _add(digest, value)
    digest.update(b"]")


def _add(digest: hashlib._Hash, value: Any) -> None:
    """With its kind and length: no two contents share a spelling."""
    if isinstance(value, list | tuple):
        digest.update(b"[")
        _add_all(digest, value)
        return
    if isinstance(value, dict):
        digest.update(b"{")
        _add_all(digest, (part for pair in value.items() for part in pair))
        return
    content = value if isinstance(value, bytes) else str(value).encode("utf-8", "surrogatepass")
    digest.update(f"{type(value).__name__} {len(content)} ".encode())
    digest.update(content)
