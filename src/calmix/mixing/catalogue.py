"""The catalogue of methods: every method's declarations, read from its file without running it.

`calmix methods` and the check of `--method` answer at once: importing the classes would load torch first.
A method that another package registers has no file here and is imported.
"""

from __future__ import annotations

import ast
import difflib
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from calmix.user_error import UserError

ENTRY_POINT_GROUP = "calmix.methods"
PACKAGE = Path(__file__).parent


@dataclass(frozen=True)
class MethodCard:
    """What a method declares about itself."""

    name: str
    summary: str
    pairs: str
    mix_point: str
    needs: tuple[str, ...]
    citation: str
    multi_label: bool = False
    options: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class _Declared:
    """The class variables and the options (dataclass fields) that the body of a class declares."""

    bases: tuple[str, ...]
    facts: dict[str, Any]
    options: dict[str, Any]


@cache
def method_cards() -> dict[str, MethodCard]:
    """All methods by name, `plain` first.

    >>> method_cards()["cls-mixup"].options["alpha"]
    0.4
    """
    shared = dict(_classes(PACKAGE))
    cards = [
        _card(shared | own, name) for own in _method_files() for name in own if "name" in own[name].facts
    ]
    for entry_point in entry_points(group=ENTRY_POINT_GROUP):
        cls = entry_point.load()
        facts = {fact.name: getattr(cls, fact.name) for fact in fields(MethodCard) if fact.name != "options"}
        cards.append(MethodCard(**facts, options={option.name: option.default for option in fields(cls)}))
    return {card.name: card for card in sorted(cards, key=lambda card: (card.name != "plain", card.name))}


def check_method(name: str, options: Mapping[str, Any]) -> None:
    """The name of a method and its options, as far as they can be judged without importing it.

    >>> check_method("plian", {})
    Traceback (most recent call last):
    calmix.user_error.UserError: unknown method 'plian'; did you mean plain?
    """
    cards = method_cards()
    if name not in cards:
        raise unknown_method(name, cards)
    check_option_names(name, options, cards[name].options)
    if "alpha" in options:
        check_alpha(options["alpha"])


def unknown_method(name: str, known: Iterable[str]) -> UserError:
    names = list(known)
    near = difflib.get_close_matches(name, names, n=3, cutoff=0.4)
    remedy = f"did you mean {' or '.join(near)}?" if near else f"there are: {', '.join(names)}"
    return UserError(f"unknown method {name!r}", remedy=remedy)


def check_option_names(method: str, options: Iterable[str], known: Iterable[str]) -> None:
    names = list(known)
    for option in options:
        if option not in names:
            raise UserError(
                f"method {method!r} has no option {option!r}", remedy=f"it has: {', '.join(names)}"
            )


def check_alpha(alpha: Any) -> None:
    """λ is drawn from Beta(α, α); 0 mixes nothing."""
    try:
        value = float(alpha)
    except (TypeError, ValueError):
        raise UserError(f"alpha is {alpha!r}", remedy="give a number") from None
    if not math.isfinite(value) or value < 0:
        raise UserError(f"alpha is {value}", remedy="give a number of at least 0, such as 0.4")


def _method_files() -> Iterator[dict[str, _Declared]]:
    for file in sorted((PACKAGE / "methods").glob("*.py")):
        yield dict(_declared_in(file))


def _card(classes: dict[str, _Declared], name: str) -> MethodCard:
    """A class's own declarations over those of its bases, the options in the order dataclasses give them."""
    facts: dict[str, Any] = {}
    options: dict[str, Any] = {}
    for declared in dict.fromkeys(_lineage(classes, name)):
        facts |= declared.facts
        options |= declared.options
    wanted = {fact.name for fact in fields(MethodCard)} - {"options"}
    return MethodCard(**{key: value for key, value in facts.items() if key in wanted}, options=options)


def _lineage(classes: dict[str, _Declared], name: str) -> Iterator[_Declared]:
    """The bases of a class, the furthest first, then itself."""
    for base in classes[name].bases:
        if base in classes:
            yield from _lineage(classes, base)
    yield classes[name]


def _classes(directory: Path) -> Iterator[tuple[str, _Declared]]:
    for file in sorted(directory.glob("*.py")):
        yield from _declared_in(file)


def _declared_in(file: Path) -> Iterator[tuple[str, _Declared]]:
    tree = ast.parse(file.read_text(encoding="utf-8"))
    for node in tree.body:
        if not isinstance(node, ast.ClassDef):
            continue
        facts: dict[str, Any] = {}
        options: dict[str, Any] = {}
        for line in node.body:
            if (
                isinstance(line, ast.AnnAssign)
                and isinstance(line.target, ast.Name)
                and line.value is not None
            ):
                is_fact = ast.unparse(line.annotation).startswith("ClassVar")
                place = facts if is_fact else options
                place[line.target.id] = _literal(line.value)
        yield node.name, _Declared(tuple(ast.unparse(base) for base in node.bases), facts, options)


def _literal(value: ast.expr) -> Any:
    """A declaration is a literal or a fraction of two; other values belong to classes that are no methods."""
    if isinstance(value, ast.BinOp) and isinstance(value.op, ast.Div):
        return _literal(value.left) / _literal(value.right)
    try:
        return ast.literal_eval(value)
    except ValueError:
        return None
