"""Options that all verbs share: `--config` and `--json`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
import yaml

from calmix.io.records import PARSER_ERRORS, parser_words
from calmix.printable import printable, printable_json
from calmix.training.configuration import OPTIONS
from calmix.training.options import check_known
from calmix.training.specification import parse_value
from calmix.user_error import UserError, argument

if TYPE_CHECKING:
    from rich.console import Console

    from calmix.report.tables import Table
    from calmix.workflows.result import Result

EXTRAS = "calmix.config.extras"
# Keys of a configuration file that are tables: an option gives one entry of them, if there is one.
TABLES = [name for name, option in OPTIONS.items() if option.kind is dict]


def load_config(context: typer.Context, file: Path | None) -> Path | None:
    """Values of a YAML file become the defaults of the options; options on the command line win."""
    if file is None:
        return None
    if not file.is_file():
        raise UserError("no such configuration file", file=file)
    try:
        content = yaml.safe_load(file.read_text(encoding="utf-8")) or {}
    except OSError as error:
        raise UserError(f"cannot be read ({error.strerror})", file=file) from None
    except PARSER_ERRORS as error:
        raise UserError(f"not valid YAML ({parser_words(error)})", file=file) from None
    if not isinstance(content, dict):
        raise UserError("a configuration file holds 'option: value' lines", file=file)
    values = {str(key).replace("-", "_"): value for key, value in content.items() if value is not None}
    known = parameters_by_key(context)
    if "trust_remote_code" in values:  # a file may come with a run that somebody else has made
        remedy = "give --trust-remote-code on the command line"
        raise UserError("trust in remote code is not read from a file", file=file, remedy=remedy)
    trains = "method_option" in known
    try:
        check_known(values, [*known, *(TABLES if trains else ())], "unknown key")
        for key, value in values.items():
            check_value(context, key, value, trains=trains)
    except UserError as error:
        raise UserError(error.args[0], file=file) from None
    context.meta[EXTRAS] = {name: values.pop(name) for name in TABLES if name in values}
    several = {str(found.name) for found in context.command.params if getattr(found, "multiple", False)}
    given = {
        known[key]: [value] if known[key] in several and not isinstance(value, list) else value
        for key, value in values.items()
    }
    context.default_map = {**(context.default_map or {}), **given}
    return file


def check_value(context: typer.Context, key: str, value: Any, *, trains: bool) -> None:
    """Refuse what the parser of a command line would turn into something else: true into 1, a list into text.
    It reads numbers from text by itself: YAML takes 1e-3 for text."""
    if trains and key in OPTIONS and not isinstance(value, str):
        OPTIONS[key].check(value)
    if key in TABLES and isinstance(value, dict):
        return
    name = parameters_by_key(context).get(key)
    option: Any = next((found for found in context.command.params if found.name == name), None)
    if option is None:
        return
    takes_several = getattr(option, "multiple", False) or option.nargs != 1
    is_flag = getattr(option, "is_flag", False)
    if isinstance(value, dict) or (isinstance(value, list) and not takes_several):
        raise UserError(f"{argument(key)} is a {type(value).__name__}", remedy="give one value")
    if isinstance(value, bool) != is_flag:
        remedy = "give true or false" if is_flag else "give a value; in quotes if it is text"
        raise UserError(f"{argument(key)} is {value!r}", remedy=remedy)


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


def text_assignments(assignments: list[str] | None, option: str) -> dict[str, str]:
    """`name=value` pairs of texts: a label may be -1, and a class may be called no.

    >>> text_assignments(["-1=no"], "--label-map")
    {'-1': 'no'}
    """
    parsed = {}
    for assignment in assignments or []:
        name, equals, value = assignment.partition("=")
        if not equals or not name.strip() or not value.strip():
            raise UserError(f"{option} {assignment!r}", remedy=f"write {option} NAME=CLASS")
        parsed[name.strip()] = value.strip()
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


def print_result(
    found: Result,
    tables: Sequence[Table] | None = None,
    *,
    folds_names: bool = False,
) -> None:
    """What a workflow found: headings, tables, warnings and lines. `tables` replaces those of the result;
    `folds_names` breaks long names of the first column, since a name that is cut off says nothing."""
    from rich.console import Console

    console = Console()
    for line in found.headings():
        print_line(console, line)
    for table in found.tables() if tables is None else tables:
        shown = table.to_rich()
        if folds_names:
            shown.columns[0].overflow = "fold"
        console.print(shown)
    for line in found.warnings():
        print_line(console, f"WARNING: {line}", style="bold red")
    for line in found.lines():
        print_line(console, line)


def workflow_options(context: typer.Context, *without: str) -> dict[str, Any]:
    """What a verb passes on to its workflow: its parameters by name, but for those of the command line."""
    own = ("config", "as_json", *without)
    return {name: value for name, value in context.params.items() if name not in own}


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
        help="Run the Python files that a checkpoint contains. Only for code that you have read.",
    ),
]
Figures = Annotated[
    Path | None, typer.Option(help="Also write the figures as SVG and PDF to this directory.")
]
COLUMNS, COMPUTING = "Columns", "Computing"
TrainedColumn = Annotated[str | None, typer.Option(help="Default: as in training.", rich_help_panel=COLUMNS)]
BatchSize = Annotated[int, typer.Option(help="Rows per batch.", rich_help_panel=COMPUTING)]
Device = Annotated[str, typer.Option(help="auto, cpu, cuda or mps.", rich_help_panel=COMPUTING)]
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
        help="Logits, in the same forms. Default: logits, logit_X, logit; predictions beside label_ids.",
        rich_help_panel=PREDICTIONS,
    ),
]
ClassNames = Annotated[
    str | None,
    typer.Option(
        help="NAME,NAME,.. the classes in the order of columns or lists, if the file does not name them.",
        rich_help_panel=PREDICTIONS,
    ),
]
PositiveClass = Annotated[
    str | None,
    typer.Option(
        help="Of two classes, the one that a single column of scores belongs to.",
        rich_help_panel=PREDICTIONS,
    ),
]
MultiLabel = Annotated[
    bool,
    typer.Option(
        "--multi-label",
        help="Rows have several labels, or none: lists of names, with an independent score per label.",
        rich_help_panel=PREDICTIONS,
    ),
]
LabelSeparator = Annotated[
    str | None,
    typer.Option(
        help="Separator of several labels in the label column, such as ';'. Implies --multi-label.",
        rich_help_panel=PREDICTIONS,
    ),
]
LabelColumns = Annotated[
    str | None,
    typer.Option(
        help="NAME,NAME,.. columns of 0 and 1, one per label. Implies --multi-label.",
        rich_help_panel=PREDICTIONS,
    ),
]
AsJson = Annotated[
    bool, typer.Option("--json", help="Print the result as one JSON object on standard output.")
]
