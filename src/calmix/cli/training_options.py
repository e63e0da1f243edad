"""The options of the verbs that train, made from their declarations in `TrainConfig`."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import wraps
from typing import Annotated, Any

import typer

from calmix.cli.options import config_tables, parse_assignments, text_assignments
from calmix.mixing.catalogue import method_cards
from calmix.training.configuration import OPTIONS
from calmix.training.options import TRAINING, Option
from calmix.user_error import UserError, flag_of

KEYWORD = inspect.Parameter.KEYWORD_ONLY
Alpha = Annotated[
    float | None, typer.Option(help="Mixing ratios are drawn from Beta(α, α).", rich_help_panel=TRAINING)
]


def with_training_options(
    *, before: str = "config", without: Collection[str] = (), **changes: Mapping[str, Any]
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a verb the options of `TrainConfig`, in front of its own parameter `before`.

    The verb reads them with `training_values(context)`. `without`: options that it has not. `changes`: what
    its declaration of an option says otherwise, such as `output={"help": "..."}`.
    """
    offered = [name for name, option in OPTIONS.items() if option.flag and name not in without]
    offered.sort(key=lambda name: "group" not in changes.get(name, {}))  # first what the verb is about
    made = [
        parameter
        for name in offered
        for parameter in _parameters(dataclasses.replace(OPTIONS[name], **changes.get(name, {})))
    ]

    def decorate(verb: Callable[..., None]) -> Callable[..., None]:
        own = inspect.signature(verb, eval_str=True)
        names = list(own.parameters)
        place = names.index(before)
        parameters = [own.parameters[name].replace(kind=KEYWORD) for name in names]

        @wraps(verb)
        def call(**given: Any) -> None:
            verb(**{name: given[name] for name in names})

        signature = own.replace(parameters=[*parameters[:place], *made, *parameters[place:]])
        call.__signature__ = signature  # type: ignore[attr-defined]
        call.__annotations__ = {found.name: found.annotation for found in signature.parameters.values()}
        return call

    return decorate


def _parameters(option: Option) -> Iterator[inspect.Parameter]:
    """The parameters of a verb that an option is given with."""
    if option.name == "label_smoothing":  # the one option of methods that has a flag of its own
        yield inspect.Parameter("alpha", KEYWORD, default=None, annotation=Alpha)
    is_list = option.kind in (tuple, dict)
    kind: Any = list[str] if is_list else option.kind
    default = None if is_list else option.default
    # What a file cannot switch on need not be switched off.
    flags = () if option.saved else (flag_of(option.name),)
    facts = typer.Option(
        *flags,
        help=option.help + (f" One of {', '.join(option.choices)}." if option.choices else ""),
        rich_help_panel=option.group,
        autocompletion=complete_method if option.name == "method" else None,
    )
    kind = kind | None if default is None else kind
    yield inspect.Parameter(option.parameter, KEYWORD, default=default, annotation=Annotated[kind, facts])


def complete_method() -> list[str]:
    """For the shell."""
    return list(method_cards())


def training_values(context: typer.Context) -> dict[str, Any]:
    """The options of training that a command line and its configuration file give."""
    given = {
        name: value
        for name, value in context.params.items()
        if (source := context.get_parameter_source(name)) is not None and source.name != "DEFAULT"
    }
    tables = config_tables(context)
    values: dict[str, Any] = {}
    for name, option in OPTIONS.items():
        if option.kind is dict:
            parse = parse_assignments if option.parse is None else text_assignments
            parsed = parse(given.get(option.parameter), flag_of(name))
            table = tables.get(name, {})
            if not isinstance(table, dict):
                raise UserError(f"{name} is {table!r:.60}", remedy="give a table of names and values")
            values[name] = {**table, **parsed}
        elif name in given:
            values[name] = given[name]
    if given.get("alpha") is not None:
        values["method_options"]["alpha"] = given["alpha"]
    return {name: value for name, value in values.items() if value != {}}
