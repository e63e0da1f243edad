"""`calmix train`: from labelled files to a calibrated classifier."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from calmix.cli.options import AsJson, Config, Figures, print_json, print_result
from calmix.cli.training_options import training_values, with_training_options
from calmix.runtime.processes import is_first_process
from calmix.training.configuration import TAUGHT
from calmix.training.options import COMMON
from calmix.user_error import UserError


@with_training_options(before="resume", without=TAUGHT)
def train(
    context: typer.Context,
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue a run that was interrupted.", rich_help_panel=COMMON)
    ] = False,
    figures: Figures = None,
    config: Config = None,
    as_json: AsJson = False,
) -> None:
    """Train a classifier and calibrate it.

    A guided method (aum-saliency, tdmixup, informed-mixup) first trains a plain run. It is stored in
    CALMIX_CACHE, by default ~/.cache/calmix, and later runs reuse it.

    Example: calmix train --train reviews.csv --test test.csv --test books=books.csv --output run
    """
    run_training(training_values(context), resume=resume, as_json=as_json, figures=figures)


def run_training(
    options: dict[str, Any], *, resume: bool, as_json: bool, figures: Path | None = None
) -> None:
    from calmix.report.figures.files import check_figures
    from calmix.workflows.train import train_run

    check_figures(figures)
    if figures is not None and any(
        options.get(name) for name in ("multi_label", "label_separator", "label_columns")
    ):
        raise UserError("--figures is for rows of one label", remedy="leave it out")
    run = train_run(options, resume=resume)
    if not is_first_process():
        return
    if figures is not None:
        run.write_figures(figures)
    if as_json:
        facts = {name: value for name, value in run.directory.metrics().items() if name != "files"}
        print_json({"run": str(run.path), **facts})
    else:
        print_result(run)
