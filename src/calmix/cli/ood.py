"""`calmix ood`: does the model know what it does not know?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from calmix.cli.options import AsJson, Config, TrustRemoteCode, print_json
from calmix.run import Run, is_comparison
from calmix.user_error import UserError, check_least

if TYPE_CHECKING:
    from calmix.data.columns import ColumnNames
    from calmix.data.rows import Rows
    from calmix.report.tables import Table

REPORT = "ood.html"


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
    mc_dropout: Annotated[int, typer.Option(help="Passes with dropout on for its scores; 0 for none.")] = 10,
    seed: Annotated[int, typer.Option(help="For noise, dropout and intervals.")] = 0,
    output: Annotated[Path | None, typer.Option(help="The report. Default: ood.html in RUN.")] = None,
    text_column: Annotated[str | None, typer.Option(help="Default: as in training.")] = None,
    pair_column: Annotated[str | None, typer.Option(help="Default: as in training.")] = None,
    choices_column: Annotated[str | None, typer.Option(help="Default: as in training.")] = None,
    image_column: Annotated[str | None, typer.Option(help="Default: as in training.")] = None,
    batch_size: Annotated[int, typer.Option(help="Rows per batch.")] = 64,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or mps.")] = "auto",
    trust_remote_code: TrustRemoteCode = False,
    config: Config = None,
    as_json: AsJson = False,
) -> None:
    """Tell data like the training data from other data, by what the model says: AUROC, AUPR and FPR@95.

    Example: calmix ood run --in test.npz --out letters=notmnist.npz --noise gaussian

    Every kept run of a comparison, by method: calmix ood comparison --out letters=notmnist.npz
    """
    check_least("--mc-dropout", mc_dropout, 0)
    check_least("--seed", seed, 0)
    check_least("--batch-size", batch_size, 1)

    from calmix.data.columns import ColumnNames
    from calmix.data.splits import name_outside
    from calmix.experiments.detection import detect_all, kept_runs
    from calmix.io.writing import check_place

    kept = kept_runs(run) if is_comparison(run) else None
    opened = kept.runs[0][1] if kept else _open(run)
    page = output or run / REPORT
    check_place(page)
    trained = opened.config()
    given = {"text": text_column, "pair": pair_column, "choices": choices_column, "image": image_column}
    columns = ColumnNames.from_options(
        **{name: value or trained.get(f"{name}_column") for name, value in given.items()}
    )
    in_name, inside = _inside(opened, in_source, columns)
    sources = name_outside(out or [], in_name)
    outside = {name: _read(opened, source, name, columns) for name, source in sources.items()}

    from calmix.report import ood_comparison, ood_report
    from calmix.training.out_of_distribution import detect

    settings: dict[str, Any] = {
        "in_name": in_name,
        "noise": noise,
        "passes": mc_dropout,
        "seed": seed,
        "batch_size": batch_size,
        "device": device,
        "trust_remote_code": trust_remote_code,
    }
    if kept:
        result = detect_all(run, kept, inside, outside, **settings)
        table = ood_comparison.headline_table(result)
        write_report = ood_comparison.write_ood_comparison
    else:
        result = detect(opened, inside, outside, **settings)
        table = ood_report.headline_table(result)
        write_report = ood_report.write_ood_report
    # Shown before the page is written: a full disk must not cost what was found.
    if as_json:
        print_json({**result, "report": str(page)})
    else:
        _print(table, result["notes"])
    write_report(result, page)
    if not as_json:
        print(f"report: {page}")


def _open(run: Path) -> Run:
    opened = Run.open(run)
    if not opened.model.is_dir():
        raise UserError(
            "the model of this run was dropped", file=opened.path, remedy="keep it: --keep-models all"
        )
    return opened


def _inside(run: Run, source: str | None, columns: ColumnNames) -> tuple[str, Rows]:
    """The familiar rows and their name. A test with a name of its own may be out of domain."""
    if source is not None:
        return "in", _read(run, source, "in", columns)

    from calmix.experiments.recommendation import IN_DOMAIN
    from calmix.training.run_rows import rows_of_run

    tests = [split for split in run.splits() if split != "validation"]
    if IN_DOMAIN not in tests:
        named = f"only on {', '.join(tests)}, which may be other data" if tests else "not on anything"
        raise UserError(f"this run was tested {named}", file=run.path, remedy="give --in FILE")
    return IN_DOMAIN, rows_of_run(run, remedy="give the rows with --in FILE")[IN_DOMAIN]


def _read(run: Run, source: str, name: str, columns: ColumnNames) -> Rows:
    from calmix.data.reading import read_rows

    metrics = run.metrics()
    # The choices of a row have no names, but their number must be that of training.
    names = tuple(metrics["label_names"]) if metrics["task"] == "choice" else None
    return read_rows(source, "test", columns, names, labelled=False, task=metrics["task"], name=name)


def _print(table: Table, notes: list[str]) -> None:
    from rich.console import Console

    console = Console()
    console.print(table.to_rich())
    for note in notes:
        console.print(f"note: {note}", highlight=False, markup=False)
