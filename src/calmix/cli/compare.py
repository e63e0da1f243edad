"""`calmix compare`: which method should I use on my data?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from calmix.cli.options import AsJson, Config, print_json, print_line
from calmix.cli.training_options import training_values, with_training_options
from calmix.training.configuration import METHODS, TAUGHT
from calmix.training.options import COMMON

if TYPE_CHECKING:
    from calmix.workflows.compare import Comparison

COMPARISON = "Comparison"


@with_training_options(
    without=(*TAUGHT, "method", "seed", "plain_run", "trust_remote_code"),
    output={"help": "The directory of the comparison. The same command again continues it."},
    threads={"help": "CPU threads of each run; fixed by the first."},
)
def compare(
    context: typer.Context,
    methods: Annotated[
        list[str] | None,
        typer.Option(
            help=f"plain,cls-mixup:alpha=1,... of {METHODS}; plain is always in.",
            rich_help_panel=COMMON,
        ),
    ] = None,
    seeds: Annotated[
        list[str] | None,
        typer.Option(help="0,1,2 by default. One seed tells nothing.", rich_help_panel=COMMON),
    ] = None,
    vary: Annotated[
        list[str] | None,
        typer.Option(
            help="NAME=V1,V2: an option of the methods or a setting of training, any number of times.",
            rich_help_panel=COMPARISON,
        ),
    ] = None,
    executor: Annotated[
        str,
        typer.Option(
            help="'local' processes, 'ray': a cluster or a local one, or 'inline': in this process.",
            rich_help_panel=COMPARISON,
        ),
    ] = "local",
    workers: Annotated[
        int | None, typer.Option(help="Runs at a time; they share the cores.", rich_help_panel=COMPARISON)
    ] = None,
    keep_models: Annotated[
        str,
        typer.Option(help="The 'best' seed of each method, 'all' or 'none'.", rich_help_panel=COMPARISON),
    ] = "best",
    margin: Annotated[
        float | None,
        typer.Option(
            help="Points of accuracy within which a method is no worse (with 0.02 of NLL each); default: 1.",
            rich_help_panel=COMPARISON,
        ),
    ] = None,
    from_directory: Annotated[
        Path | None,
        typer.Option(
            "--from", help="Render a stored comparison again; train nothing.", rich_help_panel=COMPARISON
        ),
    ] = None,
    config: Config = None,
    as_json: AsJson = False,
) -> None:
    """Compare methods on your data, with statistics and a recommendation.

    A teacher makes an arm a student: plain:teacher=informed-mixup:distill_temperature=2 trains the teacher
    once in the same recipe; student_layers=3 is its checkpoint cut. See 'calmix distill'.

    A comparison that was cut off, or is asked for more methods or seeds, goes on and repeats no run.

    Example: calmix compare --methods plain,cls-mixup --seeds 0,1,2 --train reviews.csv --test test.csv
    --test books=books.csv --output comparison
    """
    from calmix.workflows.compare import Comparison, compare_runs

    values = training_values(context)
    if from_directory is not None:
        made = Comparison.open(from_directory, margin=margin, output=values.get("output"))
        show_comparison(made, as_json=as_json)
        return
    own = {
        "methods": methods,
        "seeds": seeds,
        "vary": vary,
        "executor": executor,
        "workers": workers,
        "keep_models": keep_models,
        "margin": margin,
    }
    show_comparison(compare_runs({**values, **own}), as_json=as_json)


def show_comparison(comparison: Comparison, *, as_json: bool) -> None:
    """Print the headline; exit code 1 if some runs failed."""
    if as_json:
        print_json(comparison.content)
    else:
        from rich.console import Console

        console = Console()
        for table in comparison.tables():
            shown = table.to_rich()
            shown.columns[0].overflow = "fold"  # a name that is cut off says nothing
            console.print(shown)
        for line in comparison.lines():
            print_line(console, line)
    if comparison.failures:
        raise typer.Exit(1)
