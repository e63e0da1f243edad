"""Arrays that may outgrow the memory: beyond `MEMORY_BYTES` they lie in a file without a name, mapped.

The system reads and drops pages of such a file as it needs the memory for other things. The file lies under
the cache directory, not among temporary files, which many machines hold in memory, and is gone with the
process, however that ends.
"""

from __future__ import annotations

import mmap
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from math import prod
from typing import IO, Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from calmix.runtime.cache_directory import CACHE_VARIABLE, cache_directory
from calmix.user_error import UserError

MEMORY_BYTES = 1 << 28


def unnamed_file() -> IO[bytes]:
    """An empty file on disk that nobody else sees."""
    directory = cache_directory() / "scratch"
    with room_on_disk():
        directory.mkdir(parents=True, exist_ok=True)
        return tempfile.TemporaryFile(dir=directory)


def mapped(file: IO[bytes]) -> mmap.mmap:
    """The content of a file as memory."""
    with room_on_disk():
        file.flush()
        return mmap.mmap(file.fileno(), 0)


def zeros(shape: tuple[int, ...], dtype: DTypeLike = np.float64) -> NDArray[Any]:
    """`numpy.zeros`, on disk where it is large.

    >>> zeros((2, 3)).tolist()
    [[0.0, 0.0, 0.0], [0.0, 0.0, 0.0]]
    """
    size = prod(shape) * np.dtype(dtype).itemsize
    if size <= MEMORY_BYTES:
        return np.zeros(shape, dtype)
    file = unnamed_file()
    with room_on_disk():
        file.truncate(size)
    return np.frombuffer(mapped(file), dtype).reshape(shape)


class GrowingArray:
    """A flat array that is appended to, part by part.

    >>> numbers = GrowingArray(np.int32)
    >>> numbers.append([1, 2])
    >>> numbers.append([3])
    >>> numbers.array().tolist()
    [1, 2, 3]
    """

    def __init__(self, dtype: DTypeLike) -> None:
        self.dtype = np.dtype(dtype)
        self.parts: list[NDArray[Any]] = []
        self.bytes = 0
        self.file: IO[bytes] | None = None

    def append(self, part: Any) -> None:
        self.parts.append(np.ascontiguousarray(part, self.dtype))
        self.bytes += self.parts[-1].nbytes
        if self.bytes > MEMORY_BYTES:
            self.file = self.file or unnamed_file()
            with room_on_disk():
                for one in self.parts:
                    self.file.write(one.data)
            self.parts = []

    def array(self) -> NDArray[Any]:
        """All that was appended; nothing more can be."""
        if self.file is not None:
            return np.frombuffer(mapped(self.file), self.dtype)
        parts, self.parts = self.parts, []
        return np.concatenate([np.zeros(0, self.dtype), *parts])


@contextmanager
def room_on_disk() -> Iterator[None]:
    """A disk that is full or not to be written to is said in a line."""
    try:
        yield
    except OSError as error:
        raise UserError(
            f"rows that do not fit the memory cannot be kept on disk ({error.strerror or error})",
            file=cache_directory() / "scratch",
            remedy=f"make room there, or name another directory in {CACHE_VARIABLE}",
        ) from None
