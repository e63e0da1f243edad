"""`calmix compare`: which method should I use on my data?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from calmix.cli.options import AsJson, Config, print_json, print_line
from calmix.cli.training_options import training_values, with_training_options
from calmix.training.configuration import METHODS, TAUGHT, TrainConfig
from calmix.training.model_settings import with_model_settings
from calmix.training.options import COMMON
from calmix.user_error import UserError

if TYPE_CHECKING:
    from calmix.experiments.comparison import CompareConfig
    from calmix.experiments.results import Results

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
    values = training_values(context)
    if from_directory is not None:
        from calmix.experiments.comparison import load, with_margin

        results = with_margin(load(from_directory), margin)
        show_comparison(results, Path(values.get("output", from_directory)), as_json=as_json)
        return
    if not values.get("output"):
        raise UserError("no output directory", remedy="give --output DIRECTORY")
    if not values.get("train"):
        raise UserError("no training data", remedy="give --train FILE")
    if not methods:
        raise UserError("no methods to compare", remedy="give --methods plain,cls-mixup")

    from calmix.experiments.comparison import CompareConfig
    from calmix.experiments.grid import parse_seeds, split_list
    from calmix.experiments.required_runs import DEFAULT_MARGIN

    run_comparison(
        CompareConfig(
            base=TrainConfig.from_dict(with_model_settings(values)),
            methods=tuple(method for text in methods for method in split_list(text)),
            seeds=parse_seeds(seeds or ["0,1,2"]),
            vary=tuple(vary or ()),
            executor=executor,
            workers=workers,
            keep_models=keep_models,
            margin=DEFAULT_MARGIN if margin is None else margin,
        ),
        as_json=as_json,
    )


def run_comparison(config: CompareConfig, *, as_json: bool) -> None:
    """Compare, write everything and show it; exit code 1 if some runs failed."""
    from calmix.experiments.comparison import compare as compare_runs

    results = compare_runs(config)
    show_comparison(results, config.directory, as_json=as_json)
    if results.failures:
        raise typer.Exit(1)


def show_comparison(results: Results, directory: Path, *, as_json: bool) -> None:
    """Write the summary and the report, and print the headline."""
    from calmix.experiments.comparison import report_data
    from calmix.report.comparison import write_comparison_report
    from calmix.report.comparison_tables import write_markdown_summary

    directory.mkdir(parents=True, exist_ok=True)
    data = report_data(results, directory)
    write_markdown_summary(data, directory / "summary.md")
    write_comparison_report(data, directory / "report.html")
    _describe_chosen_run(data)
    if as_json:
        print_json(data)
    else:
        _print(data, directory)


def _describe_chosen_run(data: dict[str, Any]) -> None:
    """The recommended model gets what `calmix train` gives it: a model card and a report of its own."""
    from calmix.io.run_directory import RunDirectory
    from calmix.report.model_card import write_model_card
    from calmix.report.run_report import write_run_report

    if data["recommendation"]["model"]:
        run = RunDirectory(Path(data["recommendation"]["model"]).parent)
        write_model_card(run)
        write_run_report(run)


def _print(data: dict[str, Any], directory: Path) -> None:
    from rich.console import Console

    from calmix.report.comparison_tables import HEADLINE_METRICS, next_step, summary_tables

    console = Console()
    for table in summary_tables(data, HEADLINE_METRICS):
        shown = table.to_rich()
        shown.columns[0].overflow = "fold"  # a name that is cut off says nothing
        console.print(shown)
    recommendation = data["recommendation"]
    print_line(console, recommendation["sentence"])
    for line in recommendation["lines"]:
        print_line(console, f"  {line}")
    for line in (recommendation["choice"], next_step(recommendation), recommendation["command"]):
        if line:
            print_line(console, line)
    for note in recommendation["notes"]:
        print_line(console, f"note: {note}")
    for failure in data["failures"]:
        print_line(console, f"failed: {failure['arm']}, seed {failure['seed']}: {failure['reason']}")
    for name, path in (("model", recommendation["model"]), ("report", directory / "report.html")):
        if path:
            print_line(console, f"{name + ':':8}{path}")
