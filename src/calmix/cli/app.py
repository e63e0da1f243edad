"""The `calmix` command: one verb per file, and one place where errors become exit codes."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from calmix.cli import calibrate, compare, demo, distill, evaluate, methods, ood, predict, train
from calmix.cli import map as data_map
from calmix.processes import leave_group
from calmix.user_error import UserError

app = typer.Typer(
    name="calmix",
    help="Train classifiers whose confidence can be trusted.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
)
app.command("train")(train.train)
app.command("distill")(distill.distill)
app.command("compare")(compare.compare)
app.command("evaluate")(evaluate.evaluate)
app.command("calibrate")(calibrate.calibrate)
app.command("map")(data_map.map_rows)
app.command("predict")(predict.predict)
app.command("ood")(ood.ood)
app.command("methods")(methods.methods)
app.command("demo")(demo.demo)


def _print_version(wanted: bool) -> None:
    if wanted:
        from calmix import __version__

        typer.echo(f"calmix {__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Train classifiers whose confidence can be trusted."""


def main(arguments: list[str] | None = None) -> None:
    """Exit 0 on success, 2 with one line on bad input, 1 (with a traceback) on a fault of calmix."""
    try:
        code = app(arguments, prog_name="calmix", standalone_mode=False)
    except UserError as error:
        code = _complain(str(error))
    except typer.TyperException as error:
        said = error.format_message() if hasattr(error, "format_message") else str(error)
        code = _complain(" ".join(said.split()))
    except (typer.Abort, KeyboardInterrupt):
        code = 130
    finally:
        leave_group()
    sys.exit(code if isinstance(code, int) else 0)


def _complain(line: str) -> int:
    print(f"calmix: {line}", file=sys.stderr)
    return 2
