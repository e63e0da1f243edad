"""`calmix map`: which training rows are easy, ambiguous, probably mislabelled?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from calmix.cli.options import AsJson, Config, Figures, print_json, print_result
from calmix.runtime.processes import is_first_process

TEXTS, NOISE = "Texts", "Label noise"
# Parameters that are of the command line alone.
OWN = ("config", "as_json", "figures")


def map_rows(
    context: typer.Context,
    source: Annotated[
        Path,
        typer.Argument(help="A run, a dynamics.parquet, a cartography folder or an aum_values.csv."),
    ],
    output: Annotated[Path | None, typer.Option(help="The directory to create.")] = None,
    fraction: Annotated[float, typer.Option(help="The share of rows in each region.", show_default="1/3")] = 1
    / 3,
    stratify: Annotated[bool, typer.Option("--stratify", help="Take the share within each class.")] = False,
    data: Annotated[
        str | None,
        typer.Option(help="The file with the texts; for a run, its training file.", rich_help_panel=TEXTS),
    ] = None,
    text_column: Annotated[
        str | None, typer.Option(help="Default: as in training.", rich_help_panel=TEXTS)
    ] = None,
    pair_column: Annotated[
        str | None, typer.Option(help="Default: as in training.", rich_help_panel=TEXTS)
    ] = None,
    choices_column: Annotated[
        str | None, typer.Option(help="Default: as in training.", rich_help_panel=TEXTS)
    ] = None,
    id_column: Annotated[
        str | None, typer.Option(help="Default: as in training.", rich_help_panel=TEXTS)
    ] = None,
    retrain: Annotated[
        bool,
        typer.Option(
            "--retrain",
            help="Train threshold passes: they test which labels are wrong.",
            rich_help_panel=NOISE,
        ),
    ] = False,
    percentile: Annotated[
        float,
        typer.Option(
            help="Flag rows with an AUM below this quantile over the threshold samples.",
            rich_help_panel=NOISE,
        ),
    ] = 0.99,
    runs: Annotated[
        int,
        typer.Option(
            help="Threshold passes: 2 test every row, 1 leaves some rows untested.", rich_help_panel=NOISE
        ),
    ] = 2,
    epochs: Annotated[
        int | None, typer.Option(help="Epochs of a pass; default: the run's.", rich_help_panel=NOISE)
    ] = None,
    seed: Annotated[
        int | None, typer.Option(help="Seed of the passes; default: the run's.", rich_help_panel=NOISE)
    ] = None,
    device: Annotated[
        str | None, typer.Option(help="auto, cpu, cuda or mps; default: the run's.", rich_help_panel=NOISE)
    ] = None,
    threads: Annotated[
        int | None, typer.Option(help="CPU threads; default: the run's.", rich_help_panel=NOISE)
    ] = None,
    figures: Figures = None,
    config: Config = None,
    as_json: AsJson = False,
) -> None:
    """Draw the data map of a run, and list the rows that are most likely mislabelled.

    Without --retrain the labels are not tested: the list holds the rows with the lowest AUM.

    Example: calmix map run --output map

    Example: calmix map run --output map --retrain
    """
    from calmix.report.figures.files import check_figures
    from calmix.workflows.map import map as map_source

    check_figures(figures)
    options = {name: value for name, value in context.params.items() if name not in ("source", *OWN)}
    found = map_source(source, **options)
    if not is_first_process():
        return
    if figures is not None:
        found.write_figures(figures)
    if as_json:
        print_json(found.content)
    else:
        from rich.console import Console

        print_result(found, found.tables(Console().width))
