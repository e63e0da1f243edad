"""The bytes of a file, unpacked where its name ends in `.gz`."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, cast

from calmix.io.formats import is_gzipped
from calmix.user_error import UserError

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
BLANK = b" \t\r\n\xef\xbb\xbf"


@contextmanager
def open_bytes(path: str | Path) -> Iterator[BinaryIO]:
    """A stream of the file's unpacked bytes, after its byte order mark.

    What is wrong with the file as a file, now or while it is read, is a `UserError`.
    """
    if "\0" in str(path):
        raise UserError("no file can have a NUL in its name", file=str(path).replace("\0", "\\0"))
    try:
        with Path(path).open("rb") as packed:
            stream = cast("BinaryIO", gzip.GzipFile(fileobj=packed) if is_gzipped(path) else packed)
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
