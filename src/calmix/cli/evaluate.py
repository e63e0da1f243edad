"""`calmix evaluate`: how well calibrated are the predictions one already has?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from calmix.cli.options import (
    AsJson,
    ClassNames,
    Config,
    LogitColumns,
    PositiveClass,
    ProbColumns,
    TrustRemoteCode,
    print_json,
    print_line,
)
from calmix.user_error import UserError, check_least

if TYPE_CHECKING:
    from rich.console import Console

    from calmix.calibration.files.file_evaluation import Source
    from calmix.report.tables import Table

# What stands in which of two tables where one does not fit the terminal.
SCORES = ("n", "accuracy", "nll", "brier", "aurc", "augrc")
ERRORS = ("ece", "ece_noise_floor", "adaptive_ece", "classwise_ece", "oe", "mce")
COMPARED = ("accuracy", "nll", "brier", "ece", "adaptive_ece", "classwise_ece", "aurc")


def evaluate(
    files: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="FILE",
            help="Predictions (.parquet .csv .tsv .jsonl .json .npz with 'label' and 'logits', 'logit_0'.., "
            "'probs' or 'prob_0'.., or 'prob_NAME' with labels by name) or runs.",
        ),
    ] = None,
    bins: Annotated[int, typer.Option(help="Bins of equal width.")] = 15,
    closed: Annotated[str, typer.Option(help="Side on which a bin is closed: right or left.")] = "right",
    notion: Annotated[
        str, typer.Option(help="Whose confidence the errors measure: top_label, classwise or positive.")
    ] = "top_label",
    intervals: Annotated[
        bool, typer.Option("--intervals/--no-intervals", help="95 % intervals and the noise floor.")
    ] = True,
    seed: Annotated[int, typer.Option(help="For the random draws behind the intervals.")] = 0,
    model: Annotated[
        Path | None, typer.Option(help="A checkpoint directory (or a run) to predict --data with.")
    ] = None,
    data: Annotated[str | None, typer.Option(help="Labelled data for --model, as for train.")] = None,
    text_column: Annotated[str | None, typer.Option(help="Column of --data. Default: text.")] = None,
    pair_column: Annotated[str | None, typer.Option(help="Column of --data. Default: text_pair.")] = None,
    choices_column: Annotated[str | None, typer.Option(help="Column of --data. Default: choices.")] = None,
    label_column: Annotated[
        str | None, typer.Option(help="True classes, of --data and of predictions files. Default: label.")
    ] = None,
    id_column: Annotated[
        str | None,
        typer.Option(help="Row ids. Default: row_id of predictions files; rows of --data are numbered."),
    ] = None,
    prob_columns: ProbColumns = None,
    logit_columns: LogitColumns = None,
    class_names: ClassNames = None,
    positive_class: PositiveClass = None,
    image_column: Annotated[str | None, typer.Option(help="Column of --data. Default: image.")] = None,
    max_length: Annotated[int | None, typer.Option(help="Longer texts are cut to this many tokens.")] = None,
    ensemble: Annotated[
        bool, typer.Option("--ensemble", help="Also the mean prediction of all FILEs, split by split.")
    ] = False,
    mc_dropout: Annotated[
        int | None,
        typer.Option(help="Also the mean of so many passes with dropout on, of runs and --model."),
    ] = None,
    batch_size: Annotated[int, typer.Option(help="Rows per batch of --model.")] = 64,
    device: Annotated[str, typer.Option(help="For --model: auto, cpu, cuda or mps.")] = "auto",
    trust_remote_code: TrustRemoteCode = False,
    config: Config = None,
    as_json: AsJson = False,
) -> None:
    """Measure calibration, with intervals; several files side by side, with paired differences.

    Example: calmix evaluate before.parquet after.parquet

    Example: calmix evaluate scores.csv --label-column truth --prob-columns p_cat,p_dog,p_fox

    Example: calmix evaluate --ensemble run-0 run-1 run-2

    Example: calmix evaluate run --mc-dropout 10
    """
    check_least("seed", seed, 0)
    check_least("batch_size", batch_size, 1)

    from calmix.calibration.files.column_mapping import ColumnMapping
    from calmix.calibration.files.file_evaluation import evaluate_sources, open_sources

    sources: list[Source] = []
    notes: list[str] = []
    mapping = ColumnMapping.from_options(
        # With --data these two may mean its columns alone.
        label_column=None if data is not None else label_column,
        id_column=None if data is not None else id_column,
        prob_columns=prob_columns,
        logit_columns=logit_columns,
        class_names=class_names,
        positive_class=positive_class,
    )
    for place, path in enumerate(files or []):
        sources += open_sources(path, origin=place, columns=mapping, note=notes.append)
    settings = {
        "max_length": max_length,
        "batch_size": batch_size,
        "device": device,
        "trust_remote_code": trust_remote_code,
    }
    if ensemble:
        from calmix.calibration.files.ensemble import ensemble_sources

        ensembles, left_out = ensemble_sources(sources, origin=len(files or []))
        sources += ensembles
        notes += left_out
    if mc_dropout is not None:
        from calmix.inference.network_sources import dropout_sources

        dropped = dropout_sources(files or [], mc_dropout, settings, seed=seed)
        if not dropped and model is None:
            raise UserError("--mc-dropout asks a network", remedy="name a run, or give --model and --data")
        sources += dropped
    if model is not None and data is not None:
        from calmix.inference.network_sources import predicted_sources

        columns = {
            "text": text_column,
            "pair": pair_column,
            "choices": choices_column,
            "label": label_column,
            "id": id_column,
            "image": image_column,
        }
        sources += predicted_sources(
            model, data, columns, settings, mc_dropout, seed=seed, origin=len(sources)
        )
    elif model is not None or data is not None:
        missing = "--data" if data is None else "--model"
        raise UserError("--model and --data belong together", remedy=f"give {missing} too")
    if not sources:
        raise UserError(
            "nothing to evaluate", remedy="name predictions files or runs, or give --model and --data"
        )
    result = evaluate_sources(
        sources,
        bins=bins,
        closed=closed,  # type: ignore[arg-type]  # any text may be typed; it is checked there
        notion=notion,  # type: ignore[arg-type]
        intervals=intervals,
        seed=seed,
    )
    if notes:
        result["notes"] = list(dict.fromkeys(notes))  # a file that is read twice says things twice
    if as_json:
        print_json(result)
    else:
        _print(result)


def _print(result: dict[str, Any]) -> None:
    from rich.console import Console

    console = Console()
    for table in _that_fit(console, result["files"]):
        console.print(table.to_rich())
    paired = [found for found in result["differences"] if found["metric"] in COMPARED]
    if paired:
        from calmix.report.evaluation_tables import difference_table

        console.print(difference_table(paired).to_rich())
    for found in result["differences"]:
        if found["metric"] is None:
            pair = f"{found['first']} and {found['second']}"
            print_line(console, f"{pair} are not compared: {found['reason']}")
    for note in result.get("notes", []):
        print_line(console, note)


def _that_fit(console: Console, files: list[dict[str, Any]]) -> list[Table]:
    """One table, or two narrower ones if the terminal is too narrow for it."""
    from calmix.report.evaluation_tables import file_table

    whole = file_table(files, (*SCORES[:-1], *ERRORS))
    unlimited = console.options.update(max_width=10_000)
    if console.measure(whole.to_rich(), options=unlimited).maximum <= console.width:
        return [whole]
    return [file_table(files, SCORES), file_table(files, ERRORS)]
