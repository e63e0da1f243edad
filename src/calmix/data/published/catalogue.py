"""The datasets of the papers, as their authors publish them: `published:NAME[/SPLIT][@DIRECTORY]`.

    published:snli                        from the Hugging Face hub
    published:snli@DOWNLOADS/snli_1.0     from the authors' own files in a directory
    published:mnli/test@DIRECTORY         that split, whichever is asked for

`datasets.yaml` declares the columns, label map and file names of each. Rows without a gold label are dropped
and counted.
"""

from __future__ import annotations

import difflib
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from calmix.data.labels import map_labels
from calmix.data.published.files import read_published_files
from calmix.io.table import DataTable
from calmix.user_error import UserError

PREFIX = "published:"
DECLARED = Path(__file__).with_name("datasets.yaml")


@dataclass(frozen=True)
class PublishedDataset:
    """One record of `datasets.yaml`."""

    name: str
    columns: Mapping[str, str | Sequence[str]]
    hub: str | None = None
    splits: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, Sequence[str]] = field(default_factory=dict)
    folders: Mapping[str, str] = field(default_factory=dict)
    header: Mapping[str, Any] | None = None
    lines: Mapping[str, Any] | None = None
    images: Mapping[str, Any] | None = None
    join: Sequence[str] = ()
    prefix: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    drop: Sequence[str] = ()
    several: bool = False


@dataclass(frozen=True)
class PublishedName:
    """What `published:NAME[/SPLIT][@DIRECTORY]` says.

    >>> PublishedName.parse("published:mnli/test@downloads/mnli")
    PublishedName(dataset='mnli', split='test', directory='downloads/mnli')
    """

    dataset: str
    split: str | None
    directory: str | None

    @classmethod
    def parse(cls, source: str) -> PublishedName:
        name, at, directory = source.removeprefix(PREFIX).partition("@")
        dataset, _, split = name.partition("/")
        return cls(dataset, split or None, directory if at else None)


@cache
def published_datasets() -> dict[str, PublishedDataset]:
    """All records, by name."""
    declared = yaml.safe_load(DECLARED.read_text(encoding="utf-8"))
    return {name: PublishedDataset(name=name, **facts) for name, facts in declared.items()}


def is_published(source: str | Path) -> bool:
    return isinstance(source, str) and source.startswith(PREFIX)


def find_published(source: str) -> tuple[PublishedDataset, PublishedName]:
    """The record that a source names; an unknown name is an error that suggests the nearest one."""
    asked = PublishedName.parse(source)
    known = published_datasets()
    if asked.dataset not in known:
        near = difflib.get_close_matches(asked.dataset, known, n=1)
        remedy = f"did you mean {PREFIX}{near[0]}?" if near else f"there are: {', '.join(known)}"
        raise UserError(f"no published dataset {asked.dataset!r}", remedy=remedy)
    return known[asked.dataset], asked


def has_published_split(source: str, split: str) -> bool:
    """Whether a dataset brings a split along. One that was named by its split brings no other."""
    dataset, asked = find_published(source)
    if asked.split is not None:
        return False
    if asked.directory is None:
        return split in dataset.splits
    return split in dataset.files or split in dataset.folders


def published_table(source: str, split: str) -> DataTable:
    """A split with the columns `text`, `text_pair` or `choices`, or `image`, and `label`."""
    dataset, asked = find_published(source)
    wanted = asked.split or split
    if asked.directory is not None:
        table = read_published_files(dataset, Path(asked.directory), wanted)
    else:
        table = _from_hub(dataset, wanted)
    return map_labels(
        arranged(table, dataset), "label", dataset.labels, drop=dataset.drop, drops_missing=True
    )


def _from_hub(dataset: PublishedDataset, split: str) -> DataTable:
    from calmix.data.hub import read_hub_table

    if dataset.hub is None:
        raise UserError(
            f"{dataset.name} is not on the hub",
            remedy=f"get it from its authors, and name its directory: {PREFIX}{dataset.name}@DIRECTORY",
        )
    return read_hub_table(dataset.hub, dataset.splits.get(split, split))


def arranged(table: DataTable, dataset: PublishedDataset) -> DataTable:
    """The source's columns under calmix's names: choices from several columns, texts joined, one label."""

    def read_column(name: str) -> Sequence[Any]:
        named = dataset.columns[name]
        if name == "choices":
            return _choices(table, named, dataset.prefix)
        if name == "text" and dataset.join and set(dataset.join) <= set(table.names):
            parts = [table.read_column(part) for part in dataset.join]
            return [" ".join(str(part).strip() for part in row) for row in zip(*parts, strict=True)]
        values = table.column(first_of(table, named), "the columns of datasets.yaml")
        if name == "label" and dataset.several:
            return _one_of_several(values, table.read_column(first_of(table, dataset.columns["text"])))
        return values

    names = tuple(dataset.columns)
    return DataTable(table.source, names, table.row_count, read_column)


def first_of(table: DataTable, names: str | Sequence[str]) -> str:
    """The first of the names that the table has; without any, the first."""
    several = [names] if isinstance(names, str) else list(names)
    return next((name for name in several if name in table.names), several[0])


def _choices(table: DataTable, names: str | Sequence[str], prefix: str | None) -> list[list[str]]:
    option = "the columns of datasets.yaml"
    if isinstance(names, str):
        return [list(row) for row in table.column(names, option)]
    endings = [table.column(name, option) for name in names]
    rows = [[str(ending) for ending in row] for row in zip(*endings, strict=True)]
    if prefix is None:
        return rows
    begun = table.column(prefix, option)
    return [[f"{begin} {ending}" for ending in row] for begin, row in zip(begun, rows, strict=True)]


def _one_of_several(values: Sequence[Any], texts: Sequence[Any]) -> list[str]:
    """Of several labels, one drawn by a hash of the text: the same on every machine."""
    drawn = []
    for value, text in zip(values, texts, strict=True):
        several = value.split(",") if isinstance(value, str) else [str(one) for one in value]
        digest = hashlib.blake2b(str(text).encode(), digest_size=8).digest()
        drawn.append(several[int.from_bytes(digest, "big") % len(several)].strip() if several else "")
    return drawn
