"""`calmix map`: which training rows are easy, ambiguous, probably mislabelled?"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from calmix.cli.options import AsJson, Config, print_json, print_line
from calmix.io.run_directory import RunDirectory
from calmix.runtime.processes import is_first_process
from calmix.user_error import UserError

if TYPE_CHECKING:
    from calmix.data.rows import Rows
    from calmix.dynamics.importers import DynamicsSource
    from calmix.training.configuration import TrainConfig
    from calmix.training.label_noise.threshold_passes import NoiseSearch

TEXTS, NOISE = "Texts", "Label noise"
SUSPECTS_SHOWN = 20
LOWEST_AUM = {"rule": "lowest AUM within each class, not a test"}
NOT_A_TEST = (
    "not a test: these rows have the lowest area under the margin of their class, and hard rows have low "
    "margins too; --retrain trains passes that show how low a wrong label goes"
)
CORRECTIONS = (
    "correct labels in datamap.html, download corrections.csv, and train again with the corrected file: see "
    "'calmix map' in the README"
)


def map_rows(
    context: typer.Context,
    source: Annotated[
        Path,
        typer.Argument(help="A run, a dynamics.parquet, a cartography folder or an aum_values.csv."),
    ],
    output: Annotated[Path | None, typer.Option(help="The directory to make.")] = None,
    fraction: Annotated[
        float, typer.Option(help="The share of rows that each region takes.", show_default="1/3")
    ] = 1 / 3,
    stratify: Annotated[bool, typer.Option("--stratify", help="Take the share within each class.")] = False,
    data: Annotated[
        str | None,
        typer.Option(help="The file with the texts; for a run, its training file.", rich_help_panel=TEXTS),
    ] = None,
    text_column: Annotated[
        str | None, typer.Option(help="Default: as in training.", rich_help_panel=TEXTS)
    ] = None,
    pair_column: Annotated[
        str | None, typer.Option(help="Default: as in training.", rich_help_panel=TEXTS)
    ] = None,
    choices_column: Annotated[
        str | None, typer.Option(help="Default: as in training.", rich_help_panel=TEXTS)
    ] = None,
    id_column: Annotated[
        str | None, typer.Option(help="Default: as in training.", rich_help_panel=TEXTS)
    ] = None,
    retrain: Annotated[
        bool,
        typer.Option(
            "--retrain",
            help="Train passes with threshold samples: the test that the list of wrong labels needs.",
            rich_help_panel=NOISE,
        ),
    ] = False,
    percentile: Annotated[
        float,
        typer.Option(
            help="Flag rows below this share of the threshold samples' margins.", rich_help_panel=NOISE
        ),
    ] = 0.99,
    runs: Annotated[
        int, typer.Option(help="Passes: 2 judge every row, 1 leaves some unjudged.", rich_help_panel=NOISE)
    ] = 2,
    epochs: Annotated[
        int | None, typer.Option(help="Epochs of a pass; default: the run's.", rich_help_panel=NOISE)
    ] = None,
    seed: Annotated[
        int | None, typer.Option(help="Seed of the passes; default: the run's.", rich_help_panel=NOISE)
    ] = None,
    device: Annotated[
        str | None, typer.Option(help="auto, cpu, cuda or mps; default: the run's.", rich_help_panel=NOISE)
    ] = None,
    threads: Annotated[
        int | None, typer.Option(help="CPU threads; default: the run's.", rich_help_panel=NOISE)
    ] = None,
    config: Config = None,
    as_json: AsJson = False,
) -> None:
    """Map the training rows by what training said about them, and list those to look at first.

    Without --retrain the list is no test: it holds the rows of the lowest area under the margin.

    Example: calmix map run --output map

    Example: calmix map run --output map --retrain
    """
    if output is None:
        raise UserError("no output directory", remedy="give --output DIRECTORY")
    for option, value in {"--fraction": fraction, "--percentile": percentile}.items():
        if not 0 < value <= 1:
            raise UserError(f"{option} is {value:g}", remedy="give a share, such as 0.33 or 0.99")
    if runs not in (1, 2):
        raise UserError(f"--runs is {runs}", remedy="give 1 or 2")

    from calmix.dynamics.importers import read_dynamics
    from calmix.report.map_directory import PASSES, check_map_directory

    check_map_directory(output)
    found = read_dynamics(source)
    names = {"text": text_column, "pair": pair_column, "choices": choices_column, "id": id_column}
    notes: list[str] = []
    search = None
    if retrain:
        trained = _retraining(found, source, epochs=epochs, seed=seed, device=device, threads=threads)
        rows: Rows | None = _rows(found, source, data, names)

        from calmix.training.label_noise.threshold_passes import find_label_noise

        assert rows is not None
        search = find_label_noise(trained, rows, output / PASSES, runs=runs, percentile=percentile)
        notes += search.findings
    else:
        for option, given in {"--epochs": epochs, "--seed": seed}.items():
            if given is not None:
                raise UserError(f"{option} is for passes", remedy="add --retrain, or leave it out")
        try:
            rows = _rows(found, source, data, names)
        except UserError as error:
            if data is not None:
                raise
            rows = None
            notes.append(f"without texts: {error.on_command_line}; give the training file with --data")
    if is_first_process():
        options = {name: value for name, value in context.params.items() if name not in ("config", "as_json")}
        _write_and_show(found, rows, search, notes, options, as_json=as_json)


def _write_and_show(
    found: DynamicsSource,
    rows: Rows | None,
    search: NoiseSearch | None,
    notes: list[str],
    options: dict[str, Any],
    *,
    as_json: bool,
) -> None:
    from calmix.dynamics.dynamics_file import datamap_table
    from calmix.dynamics.label_estimate import estimate_wrong_labels
    from calmix.dynamics.map_summary import summarise_map
    from calmix.dynamics.suspects import list_suspects
    from calmix.report.map_directory import write_map
    from calmix.training.label_noise.mapped_rows import shown_texts

    datamap = found.datamap
    if rows is not None and rows.is_labelled and not datamap.class_names:
        datamap = replace(datamap, class_names=rows.label_names)
    table = datamap_table(datamap, fraction=options["fraction"], stratify=options["stratify"])
    counts = summarise_map(table, datamap.num_classes)
    if not counts["scored"]:
        raise UserError("no row was seen in training: there is nothing to map", file=found.file)
    if counts["partition"] is None:
        notes = ["no regions: they need what two epochs said about a row", *notes]
    texts = None if rows is None else shown_texts(rows)
    verdict = None if search is None else search.verdict
    suspects = list_suspects(datamap, verdict, texts)
    estimate = estimate_wrong_labels(found.dynamics)
    summary = {
        "output": str(options["output"]),
        "source": {"kind": found.kind, "path": str(found.file)},
        "class_names": list(datamap.class_names),
        **counts,
        "label_noise": LOWEST_AUM if search is None else search.as_dict(),
        "wrong_labels": None if estimate is None else estimate.as_dict(),
        "suspect_count": len(suspects),
        "suspects": suspects.slice(0, SUSPECTS_SHOWN).to_pylist(),
        "notes": [*notes, *([NOT_A_TEST] if search is None else []), CORRECTIONS],
        "options": {
            name: str(value) if isinstance(value, Path) else value for name, value in options.items()
        },
    }
    directory = Path(options["output"])
    title = f"Data map of {Path(options['source']).absolute().name}"
    summary = write_map(directory, datamap, table, summary, verdict=verdict, texts=texts, title=title)
    if as_json:
        print_json(summary)
    else:
        _print(summary, directory)


def _rows(found: DynamicsSource, source: Path, data: str | None, names: dict[str, str | None]) -> Rows | None:
    """The training rows: of a run from the file in its configuration, else from --data."""
    from calmix.data.columns import ColumnNames
    from calmix.training.label_noise.mapped_rows import read_mapped_rows

    run = RunDirectory(source)
    if found.kind != "run" or not run.config_file.is_file():
        if data is None:
            return None
        return read_mapped_rows(found.datamap, data, ColumnNames.from_options(**names), labelled=False)
    trained = run.config()
    given = {name: names[name] or trained[f"{name}_column"] for name in names}
    columns = ColumnNames.from_options(
        **given, label=trained["label_column"], image=trained.get("image_column")
    )
    return read_mapped_rows(found.datamap, data or trained["train"], columns)


def _retraining(found: DynamicsSource, source: Path, **changes: Any) -> TrainConfig:
    """How the passes are trained: as the run was, but for what the options say."""
    from calmix.training.configuration import TrainConfig

    run = RunDirectory(source)
    if found.kind != "run" or not run.config_file.is_file():
        raise UserError(
            "--retrain needs a run, whose configuration says what to train on what",
            file=source,
            remedy="give a run directory of 'calmix train'",
        )
    given = {name: value for name, value in changes.items() if value is not None}
    return replace(TrainConfig.from_dict(run.config()), **given)


def _print(summary: dict[str, Any], directory: Path) -> None:
    from rich.console import Console

    from calmix.report.map_tables import region_table, suspect_table, wrong_labels_line

    console = Console()
    console.print(region_table(summary, summary["class_names"]).to_rich())
    if summary["suspects"]:
        shown = len(summary["suspects"])
        kind = "Rows flagged by the threshold samples"
        if summary["label_noise"] == LOWEST_AUM:
            kind = "Lowest AUM within each class, not a test"
        caption = f"{kind}: the first {shown} of {summary['suspect_count']:,}"
        console.print(suspect_table(summary["suspects"], caption, console.width).to_rich())
    else:
        print_line(console, "no row is listed by this rule")
    print_line(console, wrong_labels_line(summary["wrong_labels"]))
    for note in summary["notes"]:
        print_line(console, f"note: {note}")
    for name in ("datamap.html", "suspects.csv", "issues.csv"):
        print_line(console, f"{name + ':':14}{directory / name}")
