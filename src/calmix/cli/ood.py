"""`calmix ood`: detect out-of-domain data."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from calmix.cli.options import (
    AsJson,
    BatchSize,
    Config,
    Device,
    Figures,
    TrainedColumn,
    TrustRemoteCode,
    print_json,
    print_result,
    print_text,
    workflow_options,
)

if TYPE_CHECKING:
    from calmix.workflows.detect_ood import OodResult


def ood(
    context: typer.Context,
    run: Annotated[
        Path, typer.Argument(help="A finished run, or a comparison: its methods side by side, over seeds.")
    ],
    in_source: Annotated[
        str | None,
        typer.Option("--in", help="In-domain rows. Default: the run's unnamed test set."),
    ] = None,
    out: Annotated[
        list[str] | None,
        typer.Option(help="[NAME=]FILE of out-of-domain data; no labels needed. Repeatable."),
    ] = None,
    noise: Annotated[
        str | None, typer.Option(help="'gaussian': also noise with mean and variance of the training inputs.")
    ] = None,
    mc_dropout: Annotated[
        int,
        typer.Option(
            help="Also the scores of this many passes with dropout; each pass reads all rows again."
        ),
    ] = 0,
    keep_rate: Annotated[
        float,
        typer.Option(
            help="Share of in-domain rows above the saved threshold, which is fitted on validation rows."
        ),
    ] = 0.95,
    seed: Annotated[int, typer.Option(help="For noise, dropout and intervals.")] = 0,
    output: Annotated[Path | None, typer.Option(help="The report. Default: ood.html in RUN.")] = None,
    text_column: TrainedColumn = None,
    pair_column: TrainedColumn = None,
    choices_column: TrainedColumn = None,
    image_column: TrainedColumn = None,
    batch_size: BatchSize = 64,
    device: Device = "auto",
    trust_remote_code: TrustRemoteCode = False,
    figures: Figures = None,
    config: Config = None,
    as_json: AsJson = False,
) -> None:
    """Out-of-domain detection: AUROC, AUPR and FPR@95 of in-domain rows against others.

    Example: calmix ood run --in test.npz --out letters=notmnist.npz --noise gaussian

    The recommended score and a threshold on it are saved with the run, for calmix predict --reject-ood.
    Row weights play no part: every row counts once.

    Every kept run of a comparison, by method: calmix ood comparison --out letters=notmnist.npz
    """
    from calmix.report.figures.files import check_figures
    from calmix.workflows.detect_ood import detect_ood

    check_figures(figures)
    options = workflow_options(context, "run", "in_source", "figures")

    def show(result: OodResult) -> None:
        if as_json:
            print_json(result.content)
        else:
            print_result(result)

    found = detect_ood(run, in_=in_source, **options, show=show)
    if figures is not None:
        found.write_figures(figures)
    if not as_json:
        if found.threshold_file is not None:
            print_text(f"threshold: {found.threshold_file} (calmix predict --reject-ood)")
        print_text(f"report: {found.report}")
