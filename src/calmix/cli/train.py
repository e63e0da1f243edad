"""`calmix train`: from labelled files to a calibrated classifier."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from calmix.cli import training_options as options
from calmix.cli.options import AsJson, Config, TrustRemoteCode, print_json, print_line
from calmix.cli.training_options import (
    COMMON,
    METHOD_HELP,
    TRAINING,
    complete_method,
    training_values,
)
from calmix.runtime.processes import is_first_process

if TYPE_CHECKING:
    from calmix.workflows.run import Run


def train(
    context: typer.Context,
    train: options.Train = None,
    validation: options.Validation = None,
    test: options.Test = None,
    text_column: options.TextColumn = None,
    pair_column: options.PairColumn = None,
    choices_column: options.ChoicesColumn = None,
    label_column: options.LabelColumn = None,
    id_column: options.IdColumn = None,
    image_column: options.ImageColumn = None,
    model: options.Model = "default",
    model_option: options.ModelOption = None,
    method: Annotated[
        str,
        typer.Option(help=METHOD_HELP, rich_help_panel=COMMON, autocompletion=complete_method),
    ] = "plain",
    alpha: options.Alpha = None,
    label_smoothing: options.LabelSmoothing = 0.0,
    method_option: options.MethodOption = None,
    epochs: options.Epochs = None,
    batch_size: options.BatchSize = 16,
    learning_rate: options.LearningRate = None,
    optimizer: options.Optimizer = None,
    schedule: options.Schedule = None,
    augment: options.Augment = None,
    max_length: options.MaxLength = 256,
    train_rows: options.TrainRows = None,
    train_region: options.TrainRegion = "all",
    aum_filter: options.AumFilter = False,
    aum_quantile: options.AumPercentile = 0.8,
    student_layers: options.StudentLayers = None,
    freeze_embeddings: options.FreezeEmbeddings = False,
    dynamics: options.Dynamics = "training",
    seed: Annotated[int, typer.Option(help="Same seed, same bits.", rich_help_panel=COMMON)] = 0,
    device: options.Device = "auto",
    threads: options.Threads = None,
    output: Annotated[
        str | None, typer.Option(help="The run directory to make.", rich_help_panel=COMMON)
    ] = None,
    plain_run: Annotated[
        str | None,
        typer.Option(help="The plain run a guided method starts from.", rich_help_panel=TRAINING),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with a run that was cut off.", rich_help_panel=COMMON)
    ] = False,
    checkpoint_steps: options.CheckpointSteps = None,
    checkpoint_minutes: options.CheckpointMinutes = 5.0,
    bins: options.Bins = 15,
    closed: options.Closed = "right",
    trust_remote_code: TrustRemoteCode = False,
    config: Config = None,
    as_json: AsJson = False,
) -> None:
    """Train a classifier and calibrate it.

    A guided method (aum-saliency, tdmixup, informed-mixup) trains a plain run first, which it shares with
    all that follow: it is kept in CALMIX_CACHE, by default ~/.cache/calmix.

    Example: calmix train --train reviews.csv --test test.csv --test books=books.csv --output run
    """
    run_training(training_values(context, without={"resume"}), resume=resume, as_json=as_json)


def run_training(options: dict[str, Any], *, resume: bool, as_json: bool) -> None:
    from calmix.workflows.train import train_run

    run = train_run(options, resume=resume)
    if not is_first_process():
        return
    if as_json:
        facts = {name: value for name, value in run.directory.metrics().items() if name != "files"}
        print_json({"run": str(run.path), **facts})
    else:
        show_run(run)


def show_run(run: Run) -> None:
    """The headline metrics, what the data checks found, and where everything is."""
    from rich.console import Console

    console = Console()
    for table in run.tables():
        console.print(table.to_rich())
    for line in run.warnings():
        print_line(console, f"WARNING: {line}", style="bold red")
    for line in run.lines():
        print_line(console, line)
