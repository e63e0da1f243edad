"""The bytes of a file, unpacked where its name ends in `.gz`."""

from __future__ import annotations

import gzip
import io
import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, cast

from calmix.io.formats import is_gzipped
from calmix.user_error import UserError

# Text packs to a third or a tenth of its size; only nothing but repetitions packs to less than a hundredth.
MOST_TIMES, ALLOWED_BYTES = 100, 1 << 30
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
BLANK = b" \t\r\n\xef\xbb\xbf"


class Unpacked(io.RawIOBase):
    """The bytes of a gzip stream, as far as they are in proportion to the packed ones."""

    def __init__(self, packed: BinaryIO, path: str | Path) -> None:
        self.stream = gzip.GzipFile(fileobj=packed)
        self.path, self.packed, self.count = path, os.fstat(packed.fileno()).st_size, 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        content = self.stream.read(len(buffer))
        buffer[: len(content)] = content
        self.count += len(content)
        check_proportion(self.count, self.packed, self.path)
        return len(content)


def check_proportion(unpacked: int, packed: int, path: str | Path) -> None:
    """Refuse what unpacks to so much more than it is that somebody must have made it so.

    >>> check_proportion(10 << 30, 1 << 30, "rows.csv.gz")
    >>> check_proportion(10 << 30, 1 << 20, "rows.csv.gz")
    Traceback (most recent call last):
    calmix.user_error.UserError: rows.csv.gz: it unpacks to more than 100 times its size and more than 1 GiB;
    unpack it yourself if you trust it
    """
    if unpacked > ALLOWED_BYTES and unpacked > MOST_TIMES * packed:
        raise UserError(
            f"it unpacks to more than {MOST_TIMES} times its size and more than {ALLOWED_BYTES >> 30} GiB",
            file=path,
            remedy="unpack it yourself if you trust it",
        )


@contextmanager
def open_bytes(path: str | Path) -> Iterator[BinaryIO]:
    """A stream of the file's unpacked bytes, after its byte order mark.

    What is wrong with the file as a file, now or while it is read, is a `UserError`.
    """
    if "\0" in str(path):
        raise UserError("no file can have a NUL in its name", file=str(path).replace("\0", "\\0"))
    try:
        with Path(path).open("rb") as packed:
            unpacked = io.BufferedReader(Unpacked(packed, path)) if is_gzipped(path) else packed
            stream = cast("BinaryIO", unpacked)
            begin = stream.peek(1 << 13)  # type: ignore[attr-defined]
            if len(begin) < 1 << 12 and not begin.strip(BLANK):
                raise UserError(
                    "the file is empty", file=path, remedy="write a header and one row per record"
                )
            if begin.startswith(BYTE_ORDER_MARK):
                stream.read(len(BYTE_ORDER_MARK))
            yield stream
    except (gzip.BadGzipFile, zlib.error, EOFError):
        raise UserError(
            "not a whole gzip file", file=path, remedy="copy it again, or remove .gz from its name"
        ) from None
    except FileNotFoundError:
        raise UserError("no such file", file=path, remedy="check the path") from None
    except OSError as error:
        raise UserError(f"cannot be read ({error.strerror or error})", file=path) from None
