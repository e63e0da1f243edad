"""`calmix ood`: does the model know what it does not know?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from calmix.cli.options import AsJson, Config, TrustRemoteCode, print_json, print_line, print_text
from calmix.io.run_directory import RunDirectory, is_comparison
from calmix.user_error import UserError, check_least

if TYPE_CHECKING:
    from calmix.report.tables import Table

REPORT = "ood.html"
COLUMNS, COMPUTING = "Columns", "Computing"


def ood(
    run: Annotated[
        Path, typer.Argument(help="A finished run, or a comparison: its methods side by side, over seeds.")
    ],
    in_source: Annotated[
        str | None,
        typer.Option("--in", help="Data like the training data. Default: the run's test without a name."),
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
    """Tell data like the training data from other data, by what the model says: AUROC, AUPR and FPR@95.

    Example: calmix ood run --in test.npz --out letters=notmnist.npz --noise gaussian

    The recommended score and a threshold on it are saved with the run, for calmix predict --reject-ood.

    Every kept run of a comparison, by method: calmix ood comparison --out letters=notmnist.npz
    """
    check_least("mc_dropout", mc_dropout, 0)
    check_least("seed", seed, 0)
    check_least("batch_size", batch_size, 1)
    if not 0 < keep_rate < 1:
        raise UserError(f"--keep-rate is {keep_rate:g}", remedy="give a fraction such as 0.95")

    from calmix.data.splits import split_test_argument
    from calmix.experiments.detection import detect_all, kept_runs
    from calmix.experiments.ood_rows import columns_of, inside_rows, outside_rows
    from calmix.io.writing import check_not_input, check_place
    from calmix.runtime.option_values import check_detection, check_device_name

    check_device_name(device)
    kept = kept_runs(run) if is_comparison(run) else None
    opened = kept.runs[0][1] if kept else _open(run)
    page = output or run / REPORT
    check_place(page)
    check_not_input(page, in_source, *(split_test_argument(one)[1] for one in out or []))
    check_detection(out or [], noise)
    columns = columns_of(
        opened, text=text_column, pair=pair_column, choices=choices_column, image=image_column
    )
    in_name, inside = inside_rows(opened, in_source, columns)
    outside = outside_rows(opened, out or [], columns, in_name)

    from calmix.inference.ood_threshold import save_ood_threshold
    from calmix.inference.out_of_distribution import detect
    from calmix.report import ood_comparison, ood_report

    settings: dict[str, Any] = {
        "in_name": in_name,
        "noise": noise,
        "passes": mc_dropout,
        "seed": seed,
        "batch_size": batch_size,
        "device": device,
        "trust_remote_code": trust_remote_code,
        "keep": keep_rate,
    }
    saved = None
    if kept:
        result = detect_all(run, kept, inside, outside, **settings)
        table = ood_comparison.headline_table(result)
        lines = ood_comparison.best_lines(result)
        write_report = ood_comparison.write_ood_comparison
    else:
        result = detect(opened, inside, outside, **settings)
        saved = save_ood_threshold(opened, result)
        table = ood_report.headline_table(result)
        lines = ood_report.conclusions(result)
        write_report = ood_report.write_ood_report
    # Shown before the page is written: a full disk must not cost what was found.
    if as_json:
        print_json({**result, "report": str(page)})
    else:
        _print(table, lines, result["notes"])
    write_report(result, page)
    if not as_json:
        if saved is not None:
            print_text(f"threshold: {saved} (calmix predict --reject-ood)")
        print_text(f"report: {page}")


def _open(run: Path) -> RunDirectory:
    opened = RunDirectory.open(run)
    if not opened.model.is_dir():
        raise UserError(
            "the model of this run was dropped", file=opened.path, remedy="keep it: --keep-models all"
        )
    return opened


def _print(table: Table, lines: list[str], notes: list[str]) -> None:
    from rich.console import Console

    console = Console()
    console.print(table.to_rich())
    for line in [*lines, *(f"note: {note}" for note in notes)]:
        print_line(console, line)
