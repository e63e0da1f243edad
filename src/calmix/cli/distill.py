"""`calmix distill`: a student that learns from a teacher's predictions and the labels."""

from __future__ import annotations

from typing import Annotated

import typer

from calmix.cli import training_options as options
from calmix.cli.options import AsJson, Config, TrustRemoteCode, config_tables, parse_assignments
from calmix.cli.train import run_training
from calmix.cli.training_options import (
    COMMON,
    DATA,
    METHOD_HELP,
    OUTPUT,
    TRAINING,
    complete_method,
    training_values,
)
from calmix.user_error import UserError

DISTILLATION = "Distillation"


def distill(
    context: typer.Context,
    teacher: Annotated[
        list[str] | None,
        typer.Option(
            help="A run, a checkpoint, a predictions file with row ids, or a method to train a teacher with "
            "first; several times: their probabilities are averaged.",
            rich_help_panel=COMMON,
        ),
    ] = None,
    distill_temperature: Annotated[
        float,
        typer.Option(help="Temperature of teacher and student in the loss.", rich_help_panel=DISTILLATION),
    ] = 1.0,
    label_weight: Annotated[
        float,
        typer.Option(
            help="α: weight of the labels; that of the teacher is 1 - α.", rich_help_panel=DISTILLATION
        ),
    ] = 0.5,
    student_layers: Annotated[
        int | None,
        typer.Option(
            help="The student is --model cut to this many layers, evenly spread, first and last kept.",
            rich_help_panel=DISTILLATION,
        ),
    ] = None,
    unlabelled: Annotated[
        str | None,
        typer.Option(
            help="Further rows, learned from the teacher alone; labels are not read.", rich_help_panel=DATA
        ),
    ] = None,
    teacher_temperature: Annotated[
        bool,
        typer.Option(
            help="Learn the teacher's calibrated predictions, or the uncalibrated ones.",
            rich_help_panel=DISTILLATION,
        ),
    ] = True,
    teacher_model: Annotated[
        str | None,
        typer.Option(
            help="Of a teacher that is trained first; default: --model.", rich_help_panel=DISTILLATION
        ),
    ] = None,
    teacher_label_smoothing: Annotated[
        float, typer.Option(help="Of a teacher that is trained first.", rich_help_panel=DISTILLATION)
    ] = 0.0,
    teacher_option: Annotated[
        list[str] | None,
        typer.Option(
            help="NAME=VALUE, an option of the method of a teacher that is trained first.",
            rich_help_panel=DISTILLATION,
        ),
    ] = None,
    teacher_learning_rate: Annotated[
        float | None,
        typer.Option(
            help="Of a teacher that is trained first; default: --learning-rate, or as suits its model.",
            rich_help_panel=DISTILLATION,
        ),
    ] = None,
    teacher_epochs: Annotated[
        int | None,
        typer.Option(
            help="Of a teacher that is trained first; default: --epochs, or as suits its rows.",
            rich_help_panel=DISTILLATION,
        ),
    ] = None,
    train: options.Train = None,
    validation: options.Validation = None,
    test: options.Test = None,
    text_column: options.TextColumn = None,
    pair_column: options.PairColumn = None,
    choices_column: options.ChoicesColumn = None,
    label_column: options.LabelColumn = None,
    id_column: options.IdColumn = None,
    image_column: options.ImageColumn = None,
    model: Annotated[
        str | None,
        typer.Option(
            help="The student: 'default', a checkpoint directory or a hub name. Left out: the network that "
            "the first teacher's run started from.",
            rich_help_panel=COMMON,
        ),
    ] = None,
    model_option: options.ModelOption = None,
    method: Annotated[
        str,
        typer.Option(
            help=f"Of the student: {METHOD_HELP}", rich_help_panel=TRAINING, autocompletion=complete_method
        ),
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
        typer.Option(help="The plain run a guided student starts from.", rich_help_panel=TRAINING),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with a run that was cut off.", rich_help_panel=OUTPUT)
    ] = False,
    checkpoint_steps: options.CheckpointSteps = None,
    checkpoint_minutes: options.CheckpointMinutes = 5.0,
    bins: options.Bins = 15,
    closed: options.Closed = "right",
    trust_remote_code: TrustRemoteCode = False,
    config: Config = None,
    as_json: AsJson = False,
) -> None:
    """Train a student on labels and on what a teacher says about the same rows.

    The teacher reads the texts once, with its own tokenizer; its logits are kept. The loss of a row is α
    times that of the method plus (1 - α) τ² KL(teacher || student), both tempered by τ.

    Example: calmix distill --teacher big-run --model default --student-layers 3 --train reviews.csv
    --test test.csv --distill-temperature 2 --label-weight 0.5 --output small-run
    """
    network = None
    if not (resume and not train):  # a run to resume knows its own options
        if not teacher:
            raise UserError("no teacher", remedy="give --teacher RUN, or --teacher METHOD to train one first")
        from calmix.workflows.distill import network_of

        network = None if model else network_of(teacher[0])
    values = training_values(context, without={"resume", "teacher_option"}, network=network)
    values["teacher_options"] = {
        **config_tables(context).get("teacher_options", {}),
        **parse_assignments(teacher_option, "--teacher-option"),
    }
    run_training(values, resume=resume, as_json=as_json)
