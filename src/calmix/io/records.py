"""Records in JSON and YAML: what runs, comparisons and checkpoints say about themselves.

A record may be cut short, edited, or made by somebody else. What cannot be read, and a key that is not
there, is a `UserError` that names the file, wherever it is found.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import yaml

from calmix.user_error import UserError

REMEDY = "restore it, or make it again"


class MissingKey(UserError, KeyError):
    """A key that a record lacks: for the user a damaged file, for code that asks a `KeyError` as ever."""

    def __str__(self) -> str:  # a KeyError would show the quoted line
        return Exception.__str__(self)


class Record(dict[str, Any]):
    """A dictionary read from a file, which a missing key names.

    >>> Record({"seed": 1}, "run/metrics.json")["task"]
    Traceback (most recent call last):
    calmix.io.records.MissingKey: run/metrics.json: damaged: it has no 'task'; restore it, or make it again
    """

    def __init__(self, content: Any = (), file: str | Path = "record") -> None:
        super().__init__(content)
        self.file = file

    def __missing__(self, key: str) -> NoReturn:
        raise MissingKey(f"damaged: it has no {key!r}", file=self.file, remedy=REMEDY)

    def __reduce__(self) -> tuple[Any, ...]:
        return Record, (dict(self), self.file)


# PyYAML's safe dumper knows the type `dict` alone, not what inherits from it.
yaml.SafeDumper.add_representer(Record, yaml.SafeDumper.represent_dict)


def damaged(file: str | Path, problem: str) -> UserError:
    return UserError(f"damaged: {problem}", file=file, remedy=REMEDY)


def read_json_record(file: Path) -> Record:
    """A JSON object; the objects within it are records, too."""
    return _read(file, lambda text: _parsed(text, file), "JSON")


def _parsed(text: str, file: Path) -> Any:
    content = json.loads(text, object_hook=lambda found: Record(found, file))
    if "\\u" in text:  # half a surrogate pair is no character, and cannot be written again
        json.dumps(content, ensure_ascii=False).encode("utf-8")
    return content


def read_yaml_record(file: Path) -> Record:
    return _read(file, yaml.safe_load, "YAML")


def _read(file: Path, parse: Callable[[str], Any], kind: str) -> Record:
    try:
        content = parse(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise damaged(file, f"it cannot be read ({error.strerror})") from None
    except PARSER_ERRORS as error:
        raise damaged(file, f"not valid {kind} ({parser_words(error)})") from None
    if not isinstance(content, dict):
        raise damaged(file, f"a {type(content).__name__} where names and values are expected")
    return Record(content, file)


# What the parsers of JSON and YAML raise. PyYAML builds dates and numbers of tags without a check of its own
# (`!!int abc`, month 13), and nesting ends the stack.
PARSER_ERRORS = (
    yaml.YAMLError, ValueError, TypeError, AttributeError, RecursionError, OverflowError, IndexError,
)  # fmt: skip


def parser_words(error: Exception) -> str:
    """One short line of what a parser says.

    >>> parser_words(RecursionError("maximum recursion depth exceeded"))
    'nested too deeply'
    """
    if isinstance(error, RecursionError):
        return "nested too deeply"
    return " ".join(str(error).split())[:200]
