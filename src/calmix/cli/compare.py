"""`calmix compare`: which method should I use on my data?"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from calmix.cli.options import AsJson, Config, Figures, print_json, print_result, print_text
from calmix.cli.training_options import training_values, with_training_options
from calmix.training.configuration import METHODS, TAUGHT
from calmix.training.options import COMMON
from calmix.user_error import UserError, argument

if TYPE_CHECKING:
    from calmix.workflows.compare import Comparison

COMPARISON = "Comparison"


@with_training_options(
    without=(*TAUGHT, "method", "seed", "plain_run", "trust_remote_code"),
    output={"help": "The directory of the comparison. The same command again continues it."},
    threads={"help": "CPU threads of each run, the same for all runs of a comparison."},
)
def compare(
    context: typer.Context,
    methods: Annotated[
        list[str] | None,
        typer.Option(
            help=f"Names, with options: plain,cls-mixup:alpha=1. Of {METHODS}; plain is always included.",
            rich_help_panel=COMMON,
        ),
    ] = None,
    seeds: Annotated[
        list[str] | None,
        typer.Option(help="Default: 0,1,2. One seed cannot show a difference.", rich_help_panel=COMMON),
    ] = None,
    vary: Annotated[
        list[str] | None,
        typer.Option(
            help="NAME=V1,V2: an option of the methods or of training. Repeatable.",
            rich_help_panel=COMPARISON,
        ),
    ] = None,
    executor: Annotated[
        str,
        typer.Option(
            help="'local' processes, a 'ray' cluster, or 'inline' in this process.",
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
            help="Margin of 'no worse': points of accuracy, each with 0.02 of NLL. Default: 1.",
            rich_help_panel=COMPARISON,
        ),
    ] = None,
    from_directory: Annotated[
        Path | None,
        typer.Option(
            "--from", help="Render a stored comparison again; train nothing.", rich_help_panel=COMPARISON
        ),
    ] = None,
    ensemble: Annotated[
        Path | None,
        typer.Option(
            help="Directory for an ensemble of the best method's seeds, calibrated after averaging.",
            rich_help_panel=COMPARISON,
        ),
    ] = None,
    student: Annotated[
        Path | None,
        typer.Option(
            help="Directory for one student of that ensemble; needs --keep-models all.",
            rich_help_panel=COMPARISON,
        ),
    ] = None,
    arm: Annotated[
        str | None,
        typer.Option(
            help="The method of --ensemble and --student. Default: the best.", rich_help_panel=COMPARISON
        ),
    ] = None,
    figures: Figures = None,
    config: Config = None,
    as_json: AsJson = False,
) -> None:
    """Compare methods on your data, with statistics and a recommendation.

    The same command continues an interrupted comparison; with more methods or seeds it trains only these.

    Students can be compared too: plain:teacher=informed-mixup:distill_temperature=2 first trains the teacher
    with the same settings; student_layers=3 keeps 3 layers of its checkpoint. See 'calmix distill'.

    Example: calmix compare --methods plain,cls-mixup --seeds 0,1,2 --train reviews.csv --test test.csv
    --test books=books.csv --output comparison
    """
    from calmix.report.figures.files import check_figures
    from calmix.workflows.compare import OWN, Comparison, compare_runs

    check_figures(figures)
    values = training_values(context)
    if from_directory is not None:
        made = Comparison.open(from_directory, margin=margin, output=values.get("output"))
    else:
        own = {name: value for name, value in context.params.items() if name in OWN}
        made = compare_runs({**values, **own})
    if figures is not None:
        made.write_figures(figures)
    combined = combine(made, ensemble, student, arm)
    show_comparison(made, as_json=as_json, combined=combined)


def combine(
    comparison: Comparison, ensemble: Path | None, student: Path | None, arm: str | None
) -> dict[str, Any]:
    """What was made of the seeds of one method, as `--json` prints it."""
    if arm is not None and ensemble is None and student is None:
        raise UserError(
            f"{argument('arm', arm)} is the method of an ensemble or a student",
            remedy=f"give {argument('ensemble', 'DIR')} or {argument('student', 'DIR')}",
        )
    made: dict[str, Any] = {}
    if ensemble is not None:
        made["ensemble"] = {**comparison.ensemble(ensemble, arm), "output": str(ensemble)}
    if student is not None:
        run = comparison.student(student, arm)
        made["student"] = {"output": str(student), "splits": run.directory.metrics()["splits"]}
    return made


def show_comparison(
    comparison: Comparison, *, as_json: bool, combined: Mapping[str, Any] | None = None
) -> None:
    """Print the headline; exit code 1 if some runs failed."""
    if as_json:
        print_json({**comparison.content, **(combined or {})})
    else:
        print_result(comparison, folds_names=True)
        for line in combined_lines(combined or {}):
            print_text(line)
    if comparison.failures:
        raise typer.Exit(1)


def combined_lines(combined: Mapping[str, Any]) -> list[str]:
    from calmix.experiments.seed_ensemble import lines_of

    lines = lines_of(combined["ensemble"]) if "ensemble" in combined else []
    places = [f"{name + ':':10}{found['output']}" for name, found in combined.items()]
    return [*lines, *places]
