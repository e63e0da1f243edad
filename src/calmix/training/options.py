"""How an option of training is declared: once, in the field of `TrainConfig` that holds its value.

The checks, the command line, `--config`, the fingerprint, what a comparison may vary, `config.yaml`, the
settings in the model card and the reference of all options follow from the declaration.
"""

from __future__ import annotations

import dataclasses
import difflib
import math
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from numbers import Integral, Real
from typing import Any, Literal, get_args, get_origin, get_type_hints

from calmix.user_error import UserError, argument, flag_of

# The panels of `--help`. The first is typer's own, which it shows first: what most people give.
COMMON, DATA, TRAINING, DISTILLATION, RUN = "Options", "Data", "Training", "Distillation", "Run"
GROUPS = (COMMON, DATA, TRAINING, DISTILLATION, RUN)

REQUIRED = dataclasses.MISSING
Affects = Literal["result", "content", "record", "nothing"]
KINDS = {
    bool: "true or false", int: "a whole number", float: "a number", str: "text",
    tuple: "a list of texts", dict: "a table of names and values",
}  # fmt: skip


@dataclass(frozen=True)
class Option:
    """A field of `TrainConfig` as it was declared with `option`."""

    help: str
    group: str
    affects: Affects
    """"result": what the run learns; its value is part of the fingerprint. "content": likewise, but what
    it stands for is hashed in its place (the rows of a file, all options of the method). "record": how the
    run is measured and written down. "nothing": where it is written, and how often it is saved."""
    choices: tuple[str, ...] = ()
    least: float | None = None
    above: float | None = None
    most: float | None = None
    below: float | None = None
    vary: bool = False
    """Whether the runs of one comparison may differ in it."""
    private: bool = False
    """Names a place on the machine of the user: left out of the model card."""
    needs: str | None = None
    """The option without which this one means nothing."""
    saved: bool = True
    """Whether `config.yaml` holds it."""
    flag: bool = True
    """Whether the command line offers it; else it is a table in `--config`."""
    trainer: str | None = None
    """The field of `MixupArguments` that it sets."""
    parse: Callable[[Any], Any] | None = None
    """Reads a value that is more than one of `KINDS`, and checks it."""
    formerly: str | None = None
    """Its name in the `config.yaml` of older runs."""
    name: str = ""
    kind: type = str
    is_optional: bool = False
    default: Any = None
    is_required: bool = False

    @property
    def parameter(self) -> str:
        """Its name among the parameters of a verb: a table is given one entry at a time."""
        return flag_of(self.name).lstrip("-").replace("-", "_")

    def check(self, value: Any) -> Any:
        """The value in the type of the option; what cannot be such a value is an error."""
        if value is None and self.is_optional:
            return None
        if self.parse is not None:
            return self.parse(value)
        made = self._typed(value)
        if made is None:
            given = repr(value) if value is None or isinstance(value, str | Real) else f"a {_named(value)}"
            raise UserError(f"{argument(self.name)} is {given}", remedy=f"give {self.expected}")
        if self.choices and made not in self.choices:
            raise UserError(
                f"{argument(self.name)} is {made!r}", remedy=f"choose one of {', '.join(self.choices)}"
            )
        if isinstance(made, int | float) and not self._is_within(made):
            raise UserError(f"{argument(self.name)} is {made}", remedy=f"give {self.expected}")
        return made

    def _typed(self, value: Any) -> Any:
        """In the type of the option, None if there is no such value. A bool is no number."""
        if self.kind is bool:
            return value if isinstance(value, bool) else None
        if self.kind in (int, float):
            is_number = isinstance(value, Integral if self.kind is int else Real)
            return self.kind(value) if is_number and not isinstance(value, bool) else None
        if self.kind is dict:
            is_table = value is None or (
                isinstance(value, Mapping) and all(isinstance(key, str) for key in value)
            )
            return dict(value or {}) if is_table else None
        if self.kind is tuple:
            several = value if isinstance(value, list | tuple) else () if value is None else (value,)
            return tuple(map(os.fspath, several)) if all(map(_is_text, several)) else None
        return os.fspath(value) if _is_text(value) else None

    def _is_within(self, value: float) -> bool:
        return (
            math.isfinite(value)
            and (self.least is None or value >= self.least)
            and (self.above is None or value > self.above)
            and (self.most is None or value <= self.most)
            and (self.below is None or value < self.below)
        )

    @property
    def expected(self) -> str:
        """What a value must be, in words."""
        if self.choices:
            return f"one of {', '.join(self.choices)}"
        bounds = {
            "of at least": self.least,
            "above": self.above,
            "of at most": self.most,
            "below": self.below,
        }
        parts = [f"{words} {bound:.12g}" for words, bound in bounds.items() if bound is not None]
        return " ".join([KINDS[self.kind], " and ".join(parts)]).strip()


def option(default: Any, help: str, group: str, *, affects: Affects = "result", **facts: Any) -> Any:
    """A dataclass field that declares an option: see `Option`."""
    # An option that changes the result is one that runs may be compared by, unless its declaration says no.
    facts = {"vary": affects == "result", **facts}
    metadata = {"option": Option(help=help, group=group, affects=affects, **facts)}
    if isinstance(default, dict):
        return field(default_factory=dict, metadata=metadata)
    return field(default=default, metadata=metadata)


def options_of(config: type) -> dict[str, Option]:
    """The options that a dataclass declares, by name."""
    hints = get_type_hints(config)
    found = {}
    for declared in dataclasses.fields(config):
        hint = hints[declared.name]
        kinds = [kind for kind in get_args(hint) if kind is not type(None)]
        is_optional = type(None) in get_args(hint)
        plain = kinds[0] if is_optional else hint
        is_required = declared.default is REQUIRED
        is_table = declared.default_factory is not REQUIRED
        found[declared.name] = dataclasses.replace(
            declared.metadata["option"],
            name=declared.name,
            kind=get_origin(plain) or plain,
            is_optional=is_optional,
            default={} if is_table else None if is_required else declared.default,
            is_required=is_required and not is_table,
        )
    return found


def check_known(names: Iterable[str], known: Iterable[str], what: str = "no such option") -> None:
    """
    >>> check_known(["epoch"], ["epochs", "seed"])
    Traceback (most recent call last):
    calmix.user_error.UserError: no such option 'epoch'; did you mean 'epochs'?
    """
    listed = list(dict.fromkeys(known))
    for name in names:
        if name not in listed:
            near = difflib.get_close_matches(str(name), listed, n=1)
            remedy = f"did you mean {near[0]!r}?" if near else f"there are: {', '.join(listed)}"
            raise UserError(f"{what} {name!r}", remedy=remedy)


def reference(options: Mapping[str, Option]) -> str:
    """All options in Markdown, group by group, as the documentation shows them."""
    parts = []
    for group in GROUPS:
        rows = ["| option | default | what it does |", "|---|---|---|"]
        for declared in (found for found in options.values() if found.group == group):
            default = "required" if declared.is_required else _shown(declared.default)
            name = f"`{flag_of(declared.name)}`" if declared.flag else f"`{declared.name}:` in `--config`"
            text = declared.help + (f" One of {', '.join(declared.choices)}." if declared.choices else "")
            rows.append(f"| {name} | {default} | {text.replace('|', chr(92) + '|')} |")
        parts.append("\n".join([f"## {'Common' if group == COMMON else group}", "", *rows]))
    return "\n\n".join(parts) + "\n"


def _shown(default: Any) -> str:
    if isinstance(default, tuple):
        default = ",".join(map(str, default)) or None
    return "–" if default in (None, {}) else f"`{str(default).lower()}`"


def _is_text(value: Any) -> bool:
    return isinstance(value, str | os.PathLike) and isinstance(os.fspath(value), str)


def _named(value: Any) -> str:
    return "table" if isinstance(value, Mapping) else type(value).__name__
