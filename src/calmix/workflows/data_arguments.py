"""The data arguments of a workflow: names stay names, objects are held in memory under a name of theirs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from calmix.data.columns import ColumnNames
from calmix.data.objects import hold_data, is_columns, is_place
from calmix.data.splits import RESERVED_NAMES, SPLIT_NAME
from calmix.io.memory_tables import MemoryData
from calmix.user_error import UserError


class GivenData:
    """Turns data into sources that readers take. What it holds is readable as long as it lives."""

    def __init__(self, columns: ColumnNames) -> None:
        self.columns = columns
        self.held: list[MemoryData] = []

    @classmethod
    def with_columns(cls, options: Mapping[str, Any]) -> GivenData:
        """With the columns that the options name; an object of texts and labels gets these names."""
        kinds = ("text", "pair", "choices", "label", "id", "image")
        return cls(ColumnNames.from_options(**{kind: options.get(f"{kind}_column") for kind in kinds}))

    def source(self, data: Any, argument: str) -> str:
        """The name of a file, or that under which an object is held."""
        if is_place(data):
            return str(data)
        self.held.append(hold_data(data, argument, self.columns))
        return self.held[-1].name

    def optional(self, data: Any, argument: str) -> str | None:
        return None if data is None else self.source(data, argument)

    def named(self, data: Any, argument: str) -> list[str]:
        """`NAME=SOURCE` of every set in a mapping of sets; sources alone of one set, or of a list of files.
        A list of texts is a list of files here: texts stand in a mapping, or in a table.

        >>> given = GivenData(ColumnNames())
        >>> given.named({"imdb": "imdb.csv"}, "test"), given.named(["a.csv", "b=b.csv"], "test")
        (['imdb=imdb.csv'], ['a.csv', 'b=b.csv'])
        """
        if data is None:
            return []
        if isinstance(data, list | tuple) and all(is_place(one) for one in data):
            return [str(one) for one in data]
        if not isinstance(data, Mapping) or is_columns(data, self.columns):
            return [self.source(data, argument)]
        for name in data:
            if not SPLIT_NAME.fullmatch(str(name)) or str(name).lower() in RESERVED_NAMES:
                raise UserError(
                    f"{argument}: a set cannot be named {name!r}",
                    remedy="use letters, digits, '-', '_' and '.', and neither train nor validation",
                )
        return [f"{name}={self.source(part, f'{argument}[{name!r}]')}" for name, part in data.items()]
