"""`calmix reproduce`: the tables of the papers."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Annotated

import typer

from calmix.cli.options import AsJson, print_json, print_result, print_text
from calmix.user_error import UserError


def reproduce(
    preset: Annotated[
        str | None,
        typer.Argument(help="PAPER/TABLE, as --list names them, or a preset file of your own (.yaml)."),
    ] = None,
    list_presets: Annotated[
        bool, typer.Option("--list", help="List every table and figure, with what it needs and costs.")
    ] = False,
    scale: Annotated[
        str,
        typer.Option(
            help="'full': the paper's setting; 'small': small networks, fewer rows; 'smoke': seconds, to see "
            "that it runs."
        ),
    ] = "small",
    data_dir: Annotated[
        Path | None,
        typer.Option(help="A directory with one folder per data set; 'full' reads the hub without it."),
    ] = None,
    output: Annotated[
        Path | None, typer.Option(help="Directory of runs and pages; the same command continues.")
    ] = None,
    from_directory: Annotated[
        Path | None,
        typer.Option(
            "--from",
            help="Render the pages of a directory again, train nothing; with --list: its state.",
        ),
    ] = None,
    executor: Annotated[
        str,
        typer.Option(help="'local' processes, a 'ray' cluster, or 'inline' in this process."),
    ] = "local",
    workers: Annotated[int | None, typer.Option(help="Runs at a time; they share the cores.")] = None,
    threads: Annotated[int | None, typer.Option(help="CPU threads of each run.")] = None,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or mps.")] = "auto",
    as_json: AsJson = False,
) -> None:
    """Reproduce a table or figure of the papers, with a verdict on every claim.

    The same command continues after an interruption: finished runs are in OUTPUT/work.

    Example: calmix reproduce tdmixup/table2 --scale small --data-dir data --output out
    """
    if list_presets:
        _list(from_directory, as_json=as_json)
        return
    if from_directory is not None:
        if output is not None:
            raise UserError("--from writes its pages beside the results", remedy="leave out --output")
        _render(from_directory, as_json=as_json)
        return
    if preset is None:
        raise UserError("no preset", remedy="name one of 'calmix reproduce --list'")
    if output is None:
        raise UserError("no output directory", remedy="give --output DIRECTORY")

    from calmix.workflows.reproduce import reproduce as reproduce_preset

    found = reproduce_preset(
        preset,
        output=output,
        scale=scale,
        data_dir=data_dir,
        executor=executor,
        workers=workers,
        threads=threads,
        device=device,
    )
    if as_json:
        print_json(found.as_dict())
    else:
        print_result(found, folds_names=True)
    if found.outcome.failures:
        raise typer.Exit(1)


def _list(directory: Path | None, *, as_json: bool) -> None:
    from calmix.report.reproductions.listing import preset_lines, preset_records
    from calmix.reproduction.outcome import find_outcomes

    records = preset_records(find_outcomes(directory) if directory is not None else ())
    if as_json:
        print_json({"presets": records})
        return
    width = shutil.get_terminal_size().columns
    for line in preset_lines(records, width, verdicts=directory is not None):
        typer.echo(line)


def _render(directory: Path, *, as_json: bool) -> None:
    from calmix.report.reproductions.pages import write_pages

    written = [str(path) for path in write_pages(directory)]
    if as_json:
        print_json({"output": str(directory), "files": written})
        return
    for path in written:
        print_text(path)
