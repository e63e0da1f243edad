"""Text of unknown origin, made safe to print: a label or a path must not move the cursor or hide a line."""

from __future__ import annotations

import re
import sys

# Control characters, which begin the escape sequences of terminals; marks that turn the direction of writing,
# by which text is shown in another order than it has; separators that some take for the end of a line; marks
# that nobody sees, by which two names look alike (not the joiners, which some scripts need); halves of
# surrogate pairs, which cannot be written as UTF-8.
UNSAFE = re.compile(
    "[\x00-\x1f\x7f-\x9f\xad\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb\ud800-\udfff]"
)


def printable(text: str) -> str:
    r"""The text with unsafe characters spelled out, as Python would write them.

    >>> printable("\x1b[31mred\x1b[0m")
    '\\x1b[31mred\\x1b[0m'
    >>> printable("abc\u202etxt.exe")
    'abc\\u202etxt.exe'
    >>> printable("gold\ufeff"), printable("\ud800")
    ('gold\\ufeff', '\\ud800')
    """
    return UNSAFE.sub(lambda found: found[0].encode("unicode_escape").decode("ascii"), text)


def printable_json(text: str) -> str:
    r"""JSON with unsafe characters as JSON spells them out: the values stay what they are.

    >>> import json
    >>> shown = printable_json(json.dumps("\x9b1m\u202e", ensure_ascii=False))
    >>> shown, json.loads(shown) == "\x9b1m\u202e"
    ('"\\u009b1m\\u202e"', True)
    """
    # Between the values of indented JSON stands the end of a line, the one control character that is no text.
    return UNSAFE.sub(lambda found: found[0] if found[0] == "\n" else f"\\u{ord(found[0]):04x}", text)


def say(line: object) -> None:
    """Print one line on standard error."""
    print(printable(str(line)), file=sys.stderr, flush=True)


def duration(seconds: float) -> str:
    """
    >>> duration(7.26), duration(192.4), duration(180), duration(7384)
    ('7.3 s', '3 min 12 s', '3 min', '2 h 3 min')
    """
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(int(seconds), 60)
    if minutes >= 60:
        return f"{minutes // 60} h {minutes % 60} min"
    return f"{minutes} min {rest} s" if rest else f"{minutes} min"
