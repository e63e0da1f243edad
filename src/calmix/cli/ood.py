"""`calmix ood`: does the model know what it does not know?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from calmix.cli.options import AsJson, Config, TrustRemoteCode, print_json, print_line, print_text

COLUMNS, COMPUTING = "Columns", "Computing"


def ood(
    run: Annotated[
        Path, typer.Argument(help="A finished run, or a comparison: its methods side by side, over seeds.")
    ],
    in_source: Annotated[
        str | None,
        typer.Option("--in", help="In-domain rows. Default: the run's test set without a name."),
    ] = None,
    out: Annotated[
        list[str] | None,
        typer.Option(help="[NAME=]FILE of other data, any number of times; no labels needed."),
    ] = None,
    noise: Annotated[
        str | None, typer.Option(help="'gaussian': also noise with the mean and variance of training.")
    ] = None,
    mc_dropout: Annotated[
        int,
        typer.Option(help="Also scores of so many passes with dropout on; each takes as long as the rest."),
    ] = 0,
    keep_rate: Annotated[
        float,
        typer.Option(help="Share of in-domain rows that the saved threshold keeps, from validation rows."),
    ] = 0.95,
    seed: Annotated[int, typer.Option(help="For noise, dropout and intervals.")] = 0,
    output: Annotated[Path | None, typer.Option(help="The report. Default: ood.html in RUN.")] = None,
    text_column: Annotated[
        str | None, typer.Option(help="Default: as in training.", rich_help_panel=COLUMNS)
    ] = None,
    pair_column: Annotated[
        str | None, typer.Option(help="Default: as in training.", rich_help_panel=COLUMNS)
    ] = None,
    choices_column: Annotated[
        str | None, typer.Option(help="Default: as in training.", rich_help_panel=COLUMNS)
    ] = None,
    image_column: Annotated[
        str | None, typer.Option(help="Default: as in training.", rich_help_panel=COLUMNS)
    ] = None,
    batch_size: Annotated[int, typer.Option(help="Rows per batch.", rich_help_panel=COMPUTING)] = 64,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or mps.", rich_help_panel=COMPUTING)] = "auto",
    trust_remote_code: TrustRemoteCode = False,
    config: Config = None,
    as_json: AsJson = False,
) -> None:
    """Out-of-distribution detection: AUROC, AUPR and FPR@95 of in-domain rows against others.

    Example: calmix ood run --in test.npz --out letters=notmnist.npz --noise gaussian

    The recommended score and a threshold on it are saved with the run, for calmix predict --reject-ood.

    Every kept run of a comparison, by method: calmix ood comparison --out letters=notmnist.npz
    """
    from calmix.workflows.detect_ood import find_ood

    found = find_ood(
        run,
        in_=in_source,
        out=out,
        noise=noise,
        mc_dropout=mc_dropout,
        keep_rate=keep_rate,
        seed=seed,
        output=output,
        columns={
            "text": text_column,
            "pair": pair_column,
            "choices": choices_column,
            "image": image_column,
        },
        batch_size=batch_size,
        device=device,
        trust_remote_code=trust_remote_code,
    )
    # Shown before the page is written: a full disk must not cost what was found.
    if as_json:
        print_json(found.content)
    else:
        from rich.console import Console

        console = Console()
        for table in found.tables():
            console.print(table.to_rich())
        for line in found.lines():
            print_line(console, line)
    found.write_report()
    if not as_json:
        if found.threshold_file is not None:
            print_text(f"threshold: {found.threshold_file} (calmix predict --reject-ood)")
        print_text(f"report: {found.report}")
