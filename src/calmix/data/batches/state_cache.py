"""Hidden states of token sequences on disk: memory-mapped, computed once, found by content.

DIR/<network>/00000.npy         states of many sequences end to end, [tokens, features]
              00000.index.npy   which sequences, and where each begins
              00000.json        sizes and hashes of both; written last: without it they do not count
              used              touched whenever the states are opened

A sequence is found by a hash of its tokens, so that all splits, seeds and runs share the states of a text.
Directories that were not used for longest are removed where a new one would exceed the limit.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calmix.data.batches.encoding import EncodedRows
from calmix.io.manifest import find_damage, make_manifest, sync
from calmix.io.run_directory import remove_leftovers, replacing, write_json
from calmix.user_error import UserError, argument

GIB = 1 << 30
SEGMENT_BYTES = GIB // 4
"""A process that is killed loses at most this much of its work."""
ENTRY = np.dtype([("key", "S16"), ("start", "<i8"), ("length", "<i8")])

Tokens = Mapping[str, NDArray[np.int32]]
Compute = Callable[[Tokens], NDArray[np.float32]]


class NoRoom(UserError):
    """The states of some sequences do not fit."""


def sequences_of(rows: EncodedRows) -> Iterator[dict[str, NDArray[np.int32]]]:
    """The token ids of every sequence; a row of a choice task has several."""
    for start, end in zip(rows.offsets[:-1].tolist(), rows.offsets[1:].tolist(), strict=True):
        yield {name: values[start:end] for name, values in rows.tokens.items()}


def sequence_keys(rows: EncodedRows) -> NDArray[np.bytes_]:
    """A hash of every sequence: token ids and segments.

    >>> tokens = {"input_ids": np.array([2, 7, 3, 2, 7, 3], dtype=np.int32)}
    >>> ids, cut = np.array(["a", "b"]), np.zeros(2, bool)
    >>> rows = EncodedRows(tokens, np.array([0, 3, 6]), 1, False, None, ids, cut)
    >>> first, second = sequence_keys(rows)
    >>> bool(first == second)
    True
    """
    keys = np.empty(len(rows.offsets) - 1, dtype="S16")
    for number, tokens in enumerate(sequences_of(rows)):
        digest = hashlib.blake2b(digest_size=16)
        for name in sorted(tokens):
            digest.update(name.encode())
            digest.update(np.ascontiguousarray(tokens[name], dtype="<i4").data)
        keys[number] = digest.digest()
    return keys


@dataclass(frozen=True)
class Missing:
    """Sequences without states, each once: the rows that hold them, and their place there."""

    sequences: tuple[dict[str, NDArray[np.int32]], ...]
    keys: NDArray[np.bytes_]

    @property
    def tokens(self) -> int:
        return sum(len(sequence["input_ids"]) for sequence in self.sequences)


class StateCache:
    """The states that one network gives, in one precision."""

    def __init__(self, directory: Path, width: int, precision: str = "float32") -> None:
        self.directory, self.width, self.dtype = directory, width, np.dtype(precision)
        self.segments: list[NDArray[Any]] = []
        self._open()

    def _open(self) -> None:
        """Map what is there and whole; anything else is computed again."""
        self.segments, entries, places = [], [np.empty(0, ENTRY)], [np.empty(0, np.int64)]
        for record in sorted(self.directory.glob("[0-9]*.json")):
            if not self._is_whole(record):
                continue
            entries.append(np.load(record.with_suffix(".index.npy"), allow_pickle=False))
            places.append(np.full(len(entries[-1]), len(self.segments)))
            self.segments.append(np.load(record.with_suffix(".npy"), mmap_mode="r", allow_pickle=False))
        self.entries, self.places = np.concatenate(entries), np.concatenate(places)
        self.order = np.argsort(self.entries["key"], kind="stable")
        self.sorted_keys = self.entries["key"][self.order]
        if self.segments:
            (self.directory / "used").touch()

    def _is_whole(self, record: Path) -> bool:
        try:
            manifest = json.loads(record.read_text(encoding="utf-8"))
            return find_damage(self.directory, manifest) is None
        except (OSError, ValueError, AttributeError):
            return False

    def find(self, keys: NDArray[np.bytes_]) -> NDArray[np.int64]:
        """The entry of every key, −1 where there is none."""
        if not len(self.sorted_keys):
            return np.full(len(keys), -1, dtype=np.int64)
        at = np.minimum(np.searchsorted(self.sorted_keys, keys), len(self.sorted_keys) - 1)
        return np.where(self.sorted_keys[at] == keys, self.order[at], -1).astype(np.int64)

    def missing(self, splits: Sequence[EncodedRows]) -> Missing:
        """The sequences of some splits that have no states yet."""
        sequences, keys, seen = [], [], set()
        for rows in splits:
            wanted = sequence_keys(rows)
            absent = self.find(wanted) < 0
            for key, is_absent, tokens in zip(wanted.tolist(), absent, sequences_of(rows), strict=True):
                if is_absent and key not in seen:
                    seen.add(key)
                    sequences.append(tokens)
                    keys.append(key)
        return Missing(tuple(sequences), np.array(keys, dtype="S16"))

    def bytes_for(self, tokens: int) -> int:
        return tokens * self.width * self.dtype.itemsize

    def fill(
        self, missing: Missing, compute: Compute, report: Callable[[int], object] = lambda done: None
    ) -> None:
        """Compute and write states; the caller holds the lock. `report` gets the number of sequences done."""
        self.directory.mkdir(parents=True, exist_ok=True)
        remove_leftovers(self.directory)
        for record in self.directory.glob("[0-9]*.json"):
            if not self._is_whole(record):
                for file in self.directory.glob(f"{record.stem}.*"):
                    file.unlink()
        lengths = np.array([len(sequence["input_ids"]) for sequence in missing.sequences], dtype=np.int64)
        of_segment = np.cumsum(lengths) * self.width * self.dtype.itemsize // SEGMENT_BYTES
        for number in np.unique(of_segment):
            self._write_segment(missing, np.flatnonzero(of_segment == number), lengths, compute, report)
        self._open()

    def _write_segment(
        self,
        missing: Missing,
        members: NDArray[np.int64],
        lengths: NDArray[np.int64],
        compute: Compute,
        report: Callable[[int], object],
    ) -> None:
        entries = np.empty(len(members), ENTRY)
        entries["key"], entries["length"] = missing.keys[members], lengths[members]
        entries["start"] = np.cumsum(lengths[members]) - lengths[members]
        record = self._fresh_record()
        files = [record.with_suffix(".npy"), record.with_suffix(".index.npy")]
        shape = (int(lengths[members].sum()), self.width)
        with replacing(files[0]) as fresh:
            states = np.lib.format.open_memmap(fresh, mode="w+", dtype=self.dtype, shape=shape)
            for member, entry in zip(members.tolist(), entries, strict=True):
                computed = compute(missing.sequences[member])
                states[entry["start"] : entry["start"] + entry["length"]] = self._in_range(computed)
                report(member + 1)
            states.flush()
            del states
            sync(fresh)
        with replacing(files[1]) as fresh, fresh.open("wb") as file:
            np.save(file, entries, allow_pickle=False)
        write_json(record, make_manifest(self.directory, files))

    def _in_range(self, states: NDArray[np.float32]) -> NDArray[np.float32]:
        if self.dtype == np.float16 and not np.abs(states).max() < np.finfo(np.float16).max:
            raise UserError(
                "the activations of this network are too large for half precision",
                remedy=f"use {argument('freeze_cache', 'float32')}",
            )
        return states

    def _fresh_record(self) -> Path:
        taken = [int(path.name.split(".")[0]) for path in self.directory.glob("[0-9]*.json")]
        return self.directory / f"{max(taken, default=-1) + 1:05d}.json"

    def states(self, entry: int) -> NDArray[Any]:
        """The states of an entry, [tokens, features], without a copy."""
        start, length = int(self.entries["start"][entry]), int(self.entries["length"][entry])
        return self.segments[int(self.places[entry])][start : start + length]


def make_room(root: Path, needed: int, limit: int, keep: Path) -> None:
    """Remove the states of other networks, those first that were not used for longest, until `needed` bytes
    more stay within the limit. What cannot fit is refused."""
    others = [path for path in root.iterdir() if path.is_dir() and path != keep] if root.is_dir() else []
    sizes = {path: size_of(path) for path in others}
    kept = size_of(keep)
    if kept + needed > limit:
        raise NoRoom(
            f"the cached activations would take {size_in_words(kept + needed)}, and the limit is "
            f"{size_in_words(limit)}",
            remedy=f"use {argument('freeze_cache', 'float16')}, raise {argument('freeze_cache_limit')}, or "
            f"use {argument('freeze_cache', 'off')}, which runs the frozen layers in every step",
        )
    root.mkdir(parents=True, exist_ok=True)
    for path in sorted(others, key=last_used):
        if kept + needed + sum(sizes.values()) <= limit:
            break
        shutil.rmtree(path, ignore_errors=True)  # who still reads it keeps what it has mapped
        del sizes[path]
    free = shutil.disk_usage(root).free
    if needed > free:
        raise NoRoom(
            f"the cached activations take {size_in_words(needed)}, and {size_in_words(free)} are free",
            file=root,
            remedy="free some space, set CALMIX_CACHE to another disk, or use "
            f"{argument('freeze_cache', 'off')}",
        )


def size_of(directory: Path) -> int:
    return sum(file.stat().st_size for file in directory.glob("*") if file.is_file())


def last_used(directory: Path) -> float:
    mark = directory / "used"
    return mark.stat().st_mtime if mark.is_file() else 0.0


def size_in_words(size: int) -> str:
    """
    >>> size_in_words(3 << 29), size_in_words(300_000)
    ('1.5 GiB', '0.3 MiB')
    """
    return f"{size / GIB:.1f} GiB" if size >= GIB else f"{size / 2**20:.1f} MiB"
