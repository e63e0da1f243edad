"""Options that all verbs share: `--config` and `--json`."""

from __future__ import annotations

import difflib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
import yaml

from calmix.printable import printable, printable_json
from calmix.training.specification import parse_value
from calmix.user_error import UserError

if TYPE_CHECKING:
    from rich.console import Console

EXTRAS = "calmix.config.extras"
# Keys of a configuration file that are tables, and so have no option of their own.
TABLES = ("trainer", "method_options", "model_options", "teacher_options")


def load_config(context: typer.Context, file: Path | None) -> Path | None:
    """Values of a YAML file become the defaults of the options; options on the command line win."""
    if file is None:
        return None
    if not file.is_file():
        raise UserError("no such configuration file", file=file)
    try:
        content = yaml.safe_load(file.read_text()) or {}
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise UserError(f"not valid YAML ({' '.join(str(error).split())})", file=file) from error
    if not isinstance(content, dict):
        raise UserError("a configuration file holds 'option: value' lines", file=file)
    values = {str(key).replace("-", "_"): value for key, value in content.items() if value is not None}
    known = parameters_by_key(context)
    if "trust_remote_code" in values:  # a file may come with a run that somebody else has made
        remedy = "give --trust-remote-code on the command line"
        raise UserError("trust in remote code is not read from a file", file=file, remedy=remedy)
    for key in values:
        if key not in known and key not in TABLES:
            near = difflib.get_close_matches(key, [*known, *TABLES], n=1)
            remedy = f"did you mean {near[0]!r}?" if near else f"known keys: {', '.join(sorted(known))}"
            raise UserError(f"unknown key {key!r}", file=file, remedy=remedy)
    tables = {name: values.pop(name) for name in TABLES if name in values}
    for name, table in tables.items():
        if not isinstance(table, dict):
            raise UserError(f"{name!r} must be a table of names and values", file=file)
    several = {
        str(parameter.name) for parameter in context.command.params if getattr(parameter, "multiple", False)
    }
    values = {known[key]: value for key, value in values.items()}
    values = {
        name: [value] if name in several and not isinstance(value, list) else value
        for name, value in values.items()
    }
    context.meta[EXTRAS] = tables
    context.default_map = {**(context.default_map or {}), **values}
    return file


def parameters_by_key(context: typer.Context) -> dict[str, str]:
    """The parameter of every key. A key is spelled as its option is; a parameter cannot always be (`in`)."""
    return {
        option.lstrip("-").replace("-", "_"): str(parameter.name)
        for parameter in context.command.params
        if parameter.name not in ("config", "as_json", "trust_remote_code")
        for option in parameter.opts
    }


def config_tables(context: typer.Context) -> dict[str, dict[str, Any]]:
    """Those of `TABLES` that the configuration file holds."""
    return dict(context.meta.get(EXTRAS, {}))


def parse_assignments(assignments: list[str] | None, option: str) -> dict[str, Any]:
    """`name=value` pairs.

    >>> parse_assignments(["alpha=4e-1", "layers=[0, 3]"], "--method-option")
    {'alpha': 0.4, 'layers': [0, 3]}
    """
    parsed = {}
    for assignment in assignments or []:
        name, equals, value = assignment.partition("=")
        if not equals or not name:
            raise UserError(f"{option} {assignment!r}", remedy=f"write {option} NAME=VALUE")
        parsed[name.strip().replace("-", "_")] = parse_value(value, f"{option} {assignment!r}")
    return parsed


def print_json(content: Any) -> None:
    """One JSON object on standard output, and nothing else."""
    print(printable_json(json.dumps(content, indent=2, allow_nan=False, ensure_ascii=False)))


def print_text(line: str) -> None:
    """A line on standard output, without the control characters of a terminal."""
    print(printable(line))


def print_line(console: Console, line: str, style: str | None = None) -> None:
    """A line as it is: never broken, so that a path in it can be copied, never read as markup, and without
    the control characters of a terminal."""
    console.print(printable(line), soft_wrap=True, highlight=False, markup=False, style=style)


Config = Annotated[
    Path | None,
    typer.Option(
        "--config", callback=load_config, is_eager=True, help="A YAML file with any of these options."
    ),
]
TrustRemoteCode = Annotated[
    bool,
    typer.Option(
        "--trust-remote-code",
        help="Run the Python files of a checkpoint that brings its own. Give it for code that you have read.",
    ),
]
PREDICTIONS = "Predictions files"
ProbColumns = Annotated[
    str | None,
    typer.Option(
        help="Probabilities: NAME,NAME,.. one column per class in class order; one column of lists; or one "
        "column for two classes. Default: probs, prob_X, proba_X, probabilities, prob, or columns named like "
        "the labels.",
        rich_help_panel=PREDICTIONS,
    ),
]
LogitColumns = Annotated[
    str | None,
    typer.Option(
        help="Logits, likewise. Default: logits, logit_X, logit; predictions beside label_ids.",
        rich_help_panel=PREDICTIONS,
    ),
]
ClassNames = Annotated[
    str | None,
    typer.Option(
        help="NAME,NAME,.. the classes in the order of columns or lists, where the file does not name them.",
        rich_help_panel=PREDICTIONS,
    ),
]
PositiveClass = Annotated[
    str | None,
    typer.Option(
        help="The class that a single column of scores speaks of, of two classes.",
        rich_help_panel=PREDICTIONS,
    ),
]
AsJson = Annotated[
    bool, typer.Option("--json", help="Print the result as one JSON object on standard output.")
]
