"""What parsers raise about a broken file, turned into one line for the user. The only place that does it."""

from __future__ import annotations

import struct
import tokenize
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa

from calmix.user_error import UserError

# Arrow, numpy, zipfile and json each raise what their parts raise: an integer of 5000 digits is a ValueError,
# a date beyond Python's years an OverflowError, a shape beyond the memory a MemoryError, a header that is no
# Python literal a SyntaxError or TokenError, an encrypted member a RuntimeError (as is nesting too deep),
# a character beyond Unicode in an array a SystemError.
PARSER_ERRORS = (
    pa.ArrowException,
    OSError,
    EOFError,
    ValueError,
    OverflowError,
    MemoryError,
    RuntimeError,
    SyntaxError,
    tokenize.TokenError,
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    KeyError,
    TypeError,
    AttributeError,
    SystemError,
)
BROKEN_REMEDY = "write or copy it again"


@contextmanager
def refusing(
    problem: str,
    file: str | Path,
    remedy: str = BROKEN_REMEDY,
    *,
    column: str | None = None,
    cite: bool = True,
) -> Iterator[None]:
    """Turn what a parser raises into a `UserError`; wrap calls of foreign parsers alone.

    With `cite` the parser's own words follow in brackets.

    >>> with refusing("not a whole parquet file", "a.parquet"):
    ...     raise pa.ArrowInvalid("no magic bytes")
    Traceback (most recent call last):
    calmix.user_error.UserError: a.parquet: not a whole parquet file (no magic bytes); write or copy it again
    """
    try:
        yield
    except UserError:
        raise
    except PARSER_ERRORS as error:
        cited = " ".join(str(error).split())[:120] or type(error).__name__
        problem = f"{problem} ({cited})" if cite else problem
        raise UserError(problem, file=file, column=column, remedy=remedy) from None
