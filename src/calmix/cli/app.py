"""The `calmix` command: one verb per file, and one place where errors become exit codes."""

from __future__ import annotations

import sys
from typing import Annotated

import typer
from safetensors import SafetensorError

from calmix.cli import (
    adapt,
    calibrate,
    compare,
    demo,
    distill,
    evaluate,
    export,
    methods,
    ood,
    predict,
    push,
    reproduce,
    train,
)
from calmix.cli import map as data_map
from calmix.cli.interruption import (
    INTERRUPTED,
    TERMINATED,
    Terminated,
    how_to_continue,
    leave_on_signals,
    raise_on_signals,
)
from calmix.cli.surroundings import (
    close_output,
    full_disk_line,
    os_error_line,
    print_what_a_terminal_cannot_show,
)
from calmix.printable import say
from calmix.runtime.optional_packages import missing_extra
from calmix.runtime.processes import destroy_process_group
from calmix.user_error import UserError

app = typer.Typer(
    name="calmix",
    help="Train classifiers whose confidence can be trusted.\n\n"
    "Start here: calmix train --train reviews.csv --test test.csv --output run\n\n"
    "Or see it work on real data, in a few minutes: calmix demo",
    context_settings={"help_option_names": ["-h", "--help"]},
    invoke_without_command=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
)
app.command("train")(train.train)
app.command("distill")(distill.distill)
app.command("compare")(compare.compare)
app.command("evaluate")(evaluate.evaluate)
app.command("calibrate")(calibrate.calibrate)
app.command("adapt")(adapt.adapt)
app.command("map")(data_map.map_rows)
app.command("predict")(predict.predict)
app.command("ood")(ood.ood)
app.command("export")(export.export)
app.command("push")(push.push)
app.command("reproduce")(reproduce.reproduce)
app.command("methods")(methods.methods)
app.command("demo")(demo.demo)


def _print_version(wanted: bool) -> None:
    if wanted:
        from calmix import __version__

        typer.echo(f"calmix {__version__}")
        raise typer.Exit


@app.callback()
def root(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """A bare call shows the help."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


def main(arguments: list[str] | None = None) -> None:
    """Exit 0 on success, 2 with one line on invalid input, 1 (with a traceback) on a fault of calmix."""
    given = sys.argv[1:] if arguments is None else arguments
    print_what_a_terminal_cannot_show()
    try:
        raise_on_signals()
        code = app(arguments, prog_name="calmix", standalone_mode=False)
        if sys.stdout is not None:
            sys.stdout.flush()  # whether somebody still reads is known now, not at the end of Python
    except UserError as error:
        code = _complain(error.on_command_line)
    except typer.TyperException as error:
        message = error.format_message() if hasattr(error, "format_message") else str(error)
        code = _complain(" ".join(message.split()))
    except BrokenPipeError:  # the reader has left, as `| head` does
        code = close_output()
    except SystemExit as ended:  # click makes 1 of it
        if not isinstance(ended.__context__, BrokenPipeError):
            raise
        code = close_output()
    except OSError as error:
        line = os_error_line(error)
        if line is None:
            raise
        code = _complain(line)
    except ImportError as error:
        line = missing_extra(error)
        if line is None:
            raise
        code = _complain(line)
    except typer.Abort as error:  # a RuntimeError, too
        # click takes the end of a damaged file for the end of the user's input.
        raise (error.__cause__ or error) from None
    except (RuntimeError, SafetensorError) as error:
        line = full_disk_line(error)
        if line is None:
            raise
        code = _complain(line)
    except KeyboardInterrupt:
        code = INTERRUPTED
    except Terminated:
        code = TERMINATED
    finally:
        destroy_process_group()
    if code in (INTERRUPTED, TERMINATED):  # typer, too, makes the one of Ctrl-C
        _complain(f"{'interrupted' if code == INTERRUPTED else 'terminated'}; {how_to_continue(given)}")
    code = code if isinstance(code, int) else 0
    if arguments is None:  # called from Python, the process goes on
        leave_on_signals(code)
    sys.exit(code)


def _complain(line: str) -> int:
    say(f"calmix: {line}")
    return 2
