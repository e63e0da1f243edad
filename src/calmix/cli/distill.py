"""`calmix distill`: a student that learns from a teacher's predictions and the labels."""

from __future__ import annotations

from typing import Annotated

import typer

from calmix.cli.options import AsJson, Config, Figures
from calmix.cli.train import run_training
from calmix.cli.training_options import training_values, with_training_options
from calmix.training.options import COMMON, RUN
from calmix.user_error import UserError


@with_training_options(
    before="resume",
    teacher={"group": COMMON},
    model={
        "default": None,
        "help": "The student: 'default', a checkpoint directory or a hub name. Default: the network that the "
        "first teacher's run started from.",
    },
)
def distill(
    context: typer.Context,
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue a run that was interrupted.", rich_help_panel=RUN)
    ] = False,
    figures: Figures = None,
    config: Config = None,
    as_json: AsJson = False,
) -> None:
    """Train a student on the labels and a teacher's predictions.

    The teacher predicts every row once, with its own tokenizer; its logits are cached. The loss of a row is
    α times that of the method plus (1 - α) τ² KL(teacher || student), both at temperature τ.

    Example: calmix distill --teacher big-run --model default --student-layers 3 --train reviews.csv
    --test test.csv --distill-temperature 2 --label-weight 0.5 --output small-run
    """
    values = training_values(context)
    if not (resume and "train" not in values):  # a run to resume knows its own options
        if not values.get("teacher"):
            raise UserError("no teacher", remedy="give --teacher RUN, or --teacher METHOD to train one first")
        from calmix.workflows.distill import with_network_of

        values = with_network_of(values["teacher"][0], values)
    run_training(values, resume=resume, as_json=as_json, figures=figures)
