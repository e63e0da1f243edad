"""`NAME:OPTION=VALUE:...`: how a thing with options is written in one word."""

from __future__ import annotations

from typing import Any

import yaml

from calmix.io.records import PARSER_ERRORS, parser_words
from calmix.user_error import UserError


def parse_specification(text: str, option: str) -> tuple[str, dict[str, Any]]:
    """The name and its options; `option` is the command-line option, for the message.

    >>> parse_specification("step:epochs=[60, 120]:factor=0.5", "--schedule")
    ('step', {'epochs': [60, 120], 'factor': 0.5})
    """
    name, *assignments = str(text).split(":")
    options = {}
    for assignment in assignments:
        key, equals, value = assignment.partition("=")
        if not equals or not key.strip():
            raise UserError(f"{option} {text!r}", remedy="write NAME:OPTION=VALUE")
        options[key.strip().replace("-", "_")] = parse_value(value, f"{option} {text!r}")
    return name.strip(), options


def parse_value(text: str, where: str) -> Any:
    """A number, true, false, a list, or a word; `where` is for the message. YAML alone takes 1e-3 for a word.

    >>> [parse_value(text, "--vary") for text in ("1e-3", "2", "true", "[0, 3]", "soft")]
    [0.001, 2, True, [0, 3], 'soft']
    """
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    try:
        return yaml.safe_load(text)
    except PARSER_ERRORS as error:
        raise UserError(f"{where} has no readable value ({parser_words(error)})") from None
