"""`calmix train`: from labelled files to a calibrated classifier."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

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
from calmix.io.run_directory import RunDirectory
from calmix.runtime.processes import is_first_process
from calmix.user_error import UserError


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
    if not options["output"]:
        raise UserError("no output directory", remedy="give --output DIRECTORY")
    options = _with_saved_config(options) if resume and not options["train"] else options
    if not options["train"]:
        raise UserError("no training data", remedy="give --train FILE")

    from calmix.training.configuration import TrainConfig
    from calmix.training.pipeline.first_look import look_first

    config = TrainConfig.from_dict(options, trust_remote_code=options.get("trust_remote_code", False))
    look_first(config, resume=resume)

    from calmix.report.model_card import write_model_card
    from calmix.report.run_report import write_run_report
    from calmix.training.pipeline.stages import train_staged

    run = train_staged(config, resume=resume)
    if not is_first_process():
        return
    write_model_card(run)
    write_run_report(run)
    if as_json:
        metrics = {name: value for name, value in run.metrics().items() if name != "files"}
        print_json({"run": str(run.path), **metrics})
    else:
        show_run(run)


def show_run(run: RunDirectory) -> None:
    """The headline metrics, what the data checks found, and where everything is."""
    from rich.console import Console

    from calmix.report.learning import learning_lines
    from calmix.report.tables import HEADLINE_KEYS, metrics_table

    metrics = run.metrics()
    console = Console()
    console.print(metrics_table(metrics, HEADLINE_KEYS).to_rich())
    for line in learning_lines(metrics):
        print_line(console, f"WARNING: {line}", style="bold red")
    for check in metrics["data_checks"]:
        print_line(console, f"{check['severity']}: {check['split']}: {check['message']}")
    if run.data_checks_file.is_file():
        print_line(console, f"rows:   {run.data_checks_file}")
    print_line(console, f"temperature {metrics['temperature']:.3f}, folded into the saved model")
    print_line(console, f"model:  {run.model}")
    print_line(console, f"report: {run.report_file}")


def _with_saved_config(options: dict[str, Any]) -> dict[str, Any]:
    """`calmix train --resume --output RUN` needs nothing more: the run knows its own options."""
    run = RunDirectory(Path(options["output"]))
    if not run.config_file.is_file():
        raise UserError("no run to resume here", file=run.path, remedy="give --train to start one")
    # Trust is the word of whoever calls, not of the run: somebody else may have made it.
    return {
        **run.config(),
        "output": options["output"],
        "trust_remote_code": options.get("trust_remote_code", False),
    }
