"""Rows: a split as an Arrow table, on disk where it is large, whose rows keep their ids through selections.

row_id     string         split-n, or the id column
text       string
text_pair  string         text pairs only
choices    list<string>   multiple choice only
label      int64          index into `label_names`; absent in unlabelled input
label_set  list<int64>    in place of `label` where rows have several labels, or none: indices in order
weight     float64        how much the row counts; only where weights were asked for
slice      string         the group of the row, "" where it is missing; only where one was asked for
label_probs list<float64> soft label, one probability per class; `label` is then its argmax

Rows of images have, in place of `text`, `image` (bytes of an image file, or the path of one), `digest` (a
hash of those bytes) and `size` (height and width).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import ArrayLike, NDArray

from calmix.data.columns import Task
from calmix.data.images.stored import ImageFacts, StoredImage, inspect
from calmix.io.arrow_values import ArrowColumn, joined, text_array

COLUMN_TYPES = {
    "row_id": pa.string(),
    "text": pa.string(),
    "text_pair": pa.string(),
    "choices": pa.list_(pa.string()),
    "image": pa.large_binary(),
    "digest": pa.string(),
    "size": pa.list_(pa.int32()),
    "label": pa.int64(),
    "label_set": pa.list_(pa.int64()),
    "weight": pa.float64(),
    "label_probs": pa.list_(pa.float64()),
    "slice": pa.string(),
}
OF_THE_LABEL = ("label", "label_set", "weight", "label_probs")
TAKEN_ROWS = 1 << 16
INPUTS = (["row_id", "text"], ["row_id", "image", "digest", "size"])


@dataclass(frozen=True, eq=False)
class Rows:
    """A split: inputs, ids and, unless it is to be predicted, labels.

    >>> rows = Rows.from_columns(["a", "b"], ["good", "bad"], labels=[1, 0], label_names=("neg", "pos"))
    >>> rows.task, len(rows), rows.labels.tolist(), rows.select([1]).row_ids.tolist()
    ('single', 2, [1, 0], ['b'])
    """

    table: pa.Table
    label_names: tuple[str, ...]
    source: str
    dropped: int = 0
    """Rows of the source that are not among them, since they have no label."""

    def __post_init__(self) -> None:
        names = self.table.column_names
        expected = [name for name in COLUMN_TYPES if name in names]
        if names != expected or not any(names[: len(begin)] == begin for begin in INPUTS):
            raise ValueError(f"columns {names}: expected row_id, text [, text_pair | choices] [, label]")
        if "text_pair" in names and "choices" in names:
            raise ValueError("rows have either text_pair or choices, not both")
        for name in names:
            column = self.table.column(name)
            is_path = name == "image" and column.type == pa.string()
            if (column.type != COLUMN_TYPES[name] and not is_path) or column.null_count:
                raise ValueError(f"column {name}: expected {COLUMN_TYPES[name]} without nulls")
        if (
            "label" in names
            and len(self)
            and not 0 <= self.labels.min() <= self.labels.max() < self.class_count
        ):
            raise ValueError(f"labels outside 0..{self.class_count - 1}")

    @classmethod
    def from_columns(
        cls,
        row_ids: Sequence[str],
        texts: Sequence[str],
        *,
        pairs: Sequence[str] | None = None,
        choices: Sequence[Sequence[str]] | None = None,
        labels: ArrayLike | None = None,
        label_names: Sequence[str] = (),
        source: str = "memory",
    ) -> Rows:
        """Rows from plain sequences of equal length."""
        given: dict[str, Any] = {
            "row_id": row_ids,
            "text": texts,
            "text_pair": pairs,
            "choices": choices,
            "label": None if labels is None else np.asarray(labels, dtype=np.int64),
        }
        columns = {
            name: _as_arrow(values, COLUMN_TYPES[name])
            for name, values in given.items()
            if values is not None
        }
        return cls(pa.table(columns), tuple(label_names), source)

    @classmethod
    def from_images(
        cls,
        row_ids: Sequence[str],
        images: Sequence[StoredImage],
        *,
        facts: Sequence[ImageFacts] | None = None,
        labels: ArrayLike | None = None,
        label_names: Sequence[str] = (),
        source: str = "memory",
    ) -> Rows:
        """Rows of images, all given as bytes or all as paths; `facts` where they are known already."""
        if facts is None:
            contents = (image if isinstance(image, bytes) else Path(image).read_bytes() for image in images)
            facts = list(map(inspect, contents))
        are_paths = bool(images) and isinstance(images[0], str)
        columns = {
            "row_id": pa.array(list(row_ids), pa.string()),
            "image": pa.array(list(images), pa.string() if are_paths else COLUMN_TYPES["image"]),
            "digest": pa.array([fact.digest for fact in facts], pa.string()),
            "size": pa.array([list(fact.size) for fact in facts], COLUMN_TYPES["size"]),
        }
        if labels is not None:
            columns["label"] = pa.array(np.asarray(labels, dtype=np.int64))
        return cls(pa.table(columns), tuple(label_names), source)

    def __len__(self) -> int:
        return int(self.table.num_rows)

    def __repr__(self) -> str:
        return f"Rows({len(self)} rows, {self.task}, {self.class_count} classes, {self.source!r})"

    @property
    def task(self) -> Task:
        names = self.table.column_names
        if "image" in names:
            return "image"
        return "pair" if "text_pair" in names else "choice" if "choices" in names else "single"

    @property
    def is_labelled(self) -> bool:
        return "label" in self.table.column_names or self.is_multi_label

    @property
    def is_multi_label(self) -> bool:
        """Whether rows have several labels, or none."""
        return "label_set" in self.table.column_names

    @property
    def class_count(self) -> int:
        return len(self.label_names)

    @property
    def row_ids(self) -> NDArray[np.str_]:
        return text_array(self.table.column("row_id"))

    def ids_at(self, positions: ArrayLike) -> list[str]:
        """The ids of some rows."""
        return list(self.table.column("row_id").take(pa.array(positions, pa.int64())).to_pylist())

    @property
    def labels(self) -> NDArray[np.int64]:
        """The class index of every row."""
        if not self.is_labelled:
            raise ValueError(f"{self.source}: these rows have no labels")
        return np.asarray(self.table.column("label").to_numpy(), dtype=np.int64)

    @property
    def label_sets(self) -> list[list[int]]:
        """The label indices of every row, where rows have several or none."""
        return list(self.table.column("label_set").to_pylist())

    @property
    def multi_hot(self) -> NDArray[np.float32]:
        """[rows, labels] of 0 and 1, where rows have several labels or none."""
        hot = np.zeros((len(self), self.class_count), dtype=np.float32)
        for row, places in enumerate(self.label_sets):
            hot[row, places] = 1
        return hot

    @property
    def network_labels(self) -> NDArray[Any]:
        """What a network is trained to say: class indices, or 0 and 1 of every label."""
        return self.multi_hot if self.is_multi_label else self.labels

    @property
    def strata(self) -> NDArray[np.int64]:
        """One class for every row, to sample by: its label; the rarest of several, or that it has none."""
        if not self.is_multi_label:
            return self.labels if self.is_labelled else np.zeros(len(self), dtype=np.int64)
        counts, none = self.label_counts, self.class_count
        rarest = [min(places, key=counts.__getitem__, default=none) for places in self.label_sets]
        return np.array(rarest, dtype=np.int64)

    @property
    def label_counts(self) -> NDArray[np.int64]:
        """How many rows each class has."""
        labels = np.concatenate([[], *self.label_sets]) if self.is_multi_label else self.labels
        return np.bincount(labels.astype(np.int64), minlength=self.class_count).astype(np.int64)

    def texts(self) -> list[str]:
        """The text of every row; of an image its path, or its id where it came from an array."""
        if self.task == "image":
            are_paths = self.table.column("image").type == pa.string()
            return list(self.table.column("image" if are_paths else "row_id").to_pylist())
        return list(self.table.column("text").to_pylist())

    def images(self) -> list[StoredImage]:
        return list(self.table.column("image").to_pylist())

    def digests(self) -> list[str]:
        """A hash of the content of every image."""
        return list(self.table.column("digest").to_pylist())

    def image_sizes(self) -> list[tuple[int, int]]:
        """(height, width) of every image."""
        return [(height, width) for height, width in self.table.column("size").to_pylist()]

    def pairs(self) -> list[str]:
        return list(self.table.column("text_pair").to_pylist())

    def choices(self) -> list[list[str]]:
        return list(self.table.column("choices").to_pylist())

    def select(self, indices: ArrayLike) -> Rows:
        """The rows at these positions, in this order, with their ids."""
        positions = np.asarray(indices)
        if positions.size == 0:
            positions = positions.astype(np.int64)
        if positions.dtype.kind not in "iu":
            raise ValueError("select takes row positions; turn a mask into them with numpy.flatnonzero")
        if positions.size and (positions.min() < 0 or positions.max() >= len(self)):
            raise IndexError(f"row positions outside 0..{len(self) - 1}")
        parts = (positions[start : start + TAKEN_ROWS] for start in range(0, len(positions), TAKEN_ROWS))
        taken = joined(self._taken(part) for part in parts)
        return replace(self, table=taken if len(positions) else self.table.slice(0, 0))

    def _taken(self, positions: NDArray[Any]) -> pa.Table:
        """Arrow joins all chunks of a column that is taken from: of ordered positions, only the few near."""
        first, last = int(positions.min()), int(positions.max())
        near = self.table.slice(first, last - first + 1)
        return near.take(pa.array(positions.astype(np.int64) - first))

    def chunks(self, rows: int) -> Iterator[Rows]:
        """The rows, so many at a time, without a copy."""
        for start in range(0, len(self), rows):
            yield replace(self, table=self.table.slice(start, rows))

    def without_labels(self) -> Rows:
        known = [name for name in OF_THE_LABEL if name in self.table.column_names]
        return replace(self, table=self.table.drop_columns(known)) if known else self

    def with_column(self, name: str, values: Any) -> Rows:
        """The same rows with `weight`, `label_probs`, `label_set` or `slice`."""
        columns = {**{n: self.table.column(n) for n in self.table.column_names}}
        columns[name] = pa.array(values, COLUMN_TYPES[name])
        return replace(self, table=pa.table({n: columns[n] for n in COLUMN_TYPES if n in columns}))

    @property
    def weights(self) -> NDArray[np.float64] | None:
        """How much each row counts; None where all count alike."""
        if "weight" not in self.table.column_names:
            return None
        return np.asarray(self.table.column("weight").to_numpy(), dtype=np.float64)

    @property
    def slices(self) -> list[str] | None:
        """The group of every row; None where none was asked for."""
        known = "slice" in self.table.column_names
        return list(self.table.column("slice").to_pylist()) if known else None

    @property
    def soft_labels(self) -> NDArray[np.float64] | None:
        """[rows, classes]; None where labels are hard."""
        if "label_probs" not in self.table.column_names:
            return None
        lists = self.table.column("label_probs").combine_chunks()
        return np.asarray(lists.flatten().to_numpy(), dtype=np.float64).reshape(len(self), -1)

    def fingerprint(self) -> str:
        """SHA-256 of ids, inputs, labels and label names, the same in every process and file format.

        Every list goes in as its length, the lengths of its texts in UTF-8 and their bytes, so that no
        two contents share a spelling.
        """
        digest = hashlib.sha256()
        _add_texts(digest, _as_arrow(self.label_names, pa.string()))
        for name in self.table.column_names:
            # The digest speaks for images; what a row is measured with does not change what is learned.
            if name in ("image", "size", "slice"):
                continue
            _add_texts(digest, _as_arrow([name], pa.string()))
            column = self.table.column(name)
            if name in ("weight", "label_probs"):
                values = self.weights if name == "weight" else self.soft_labels
                assert values is not None
                digest.update(values.astype("<f8").tobytes())
            elif name == "label":
                digest.update(self.labels.astype("<i8").tobytes())
            elif name == "label_set":
                sets = self.label_sets
                flat = [len(sets), *map(len, sets), *(place for places in sets for place in places)]
                digest.update(np.array(flat, dtype="<i8").tobytes())
            elif name == "choices":
                digest.update(pc.list_value_length(column).to_numpy().astype("<i8").tobytes())
                _add_texts(digest, pa.chunked_array([one.flatten() for one in column.chunks], pa.string()))
            else:
                _add_texts(digest, column)
        return digest.hexdigest()


def _as_arrow(values: Any, kind: pa.DataType) -> pa.ChunkedArray:
    """A column as it was read, or from Python values."""
    if isinstance(values, ArrowColumn):
        return values.arrow.cast(kind)
    made = pa.array(values if isinstance(values, np.ndarray) else list(values), kind)
    return made if isinstance(made, pa.ChunkedArray) else pa.chunked_array([made], kind)


def _add_texts(digest: hashlib._Hash, texts: pa.ChunkedArray) -> None:
    digest.update(np.array([len(texts)], dtype="<i8").tobytes())
    for chunk in texts.chunks:
        digest.update(pc.binary_length(chunk).to_numpy().astype("<i8").tobytes())
    for chunk in texts.chunks:
        if len(chunk):
            offsets = np.frombuffer(chunk.buffers()[1], np.int32)[
                chunk.offset : chunk.offset + len(chunk) + 1
            ]
            digest.update(memoryview(chunk.buffers()[2] or b"")[offsets[0] : offsets[-1]])
