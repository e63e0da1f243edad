"""A row of the table: a name, the command, and the file to make for it."""

from __future__ import annotations

import json
from typing import Any, NamedTuple


class Case(NamedTuple):
    name: str
    command: tuple[str, ...]
    file: str = ""
    content: bytes = b""


BASE = ("train", "--model", "ENCODER", "--output", "OUT", "--epochs", "1")
TRAIN = (*BASE, "--train", "GOOD")


def json_lines(label: str, *values: Any) -> bytes:
    """Different texts, each with one of the values in the column `label`."""
    rows = [{"text": f"a film {n}", label: value} for n, value in enumerate(values * 6)]
    return "\n".join(map(json.dumps, rows)).encode() + b"\n"


def csv_lines(header: str, *rows: str) -> bytes:
    """The rows again and again under a header; `#` in a row becomes its number."""
    lines = [row.replace("#", str(n)) for n, row in enumerate(rows * 12)]
    return "\n".join([header, *lines]).encode() + b"\n"
