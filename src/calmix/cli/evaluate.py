"""`calmix evaluate`: how well calibrated are existing predictions?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from calmix.cli.options import (
    AsJson,
    ClassNames,
    Config,
    Figures,
    LabelColumns,
    LabelSeparator,
    LogitColumns,
    MultiLabel,
    PositiveClass,
    ProbColumns,
    TrustRemoteCode,
    print_json,
    print_result,
    workflow_options,
)

if TYPE_CHECKING:
    from calmix.report.tables import Table
    from calmix.workflows.evaluate import Evaluation


def evaluate(
    context: typer.Context,
    files: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="FILE",
            help="Predictions (.parquet .csv .tsv .jsonl .json .npz with 'label' and 'logits', 'logit_0'.., "
            "'probs' or 'prob_0'.., or 'prob_NAME' with labels by name) or runs.",
        ),
    ] = None,
    bins: Annotated[
        str, typer.Option(help="Bins of equal width. A list such as 10,15,100: all metrics use the first.")
    ] = "15",
    closed: Annotated[str, typer.Option(help="Side on which a bin is closed: right or left.")] = "right",
    notion: Annotated[
        str,
        typer.Option(help="Probabilities that calibration errors measure: top_label, classwise or positive."),
    ] = "top_label",
    intervals: Annotated[
        bool, typer.Option("--intervals/--no-intervals", help="95 % intervals and the noise floor.")
    ] = True,
    seed: Annotated[int, typer.Option(help="Seed of the intervals.")] = 0,
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
    multi_label: MultiLabel = False,
    label_separator: LabelSeparator = None,
    label_columns: LabelColumns = None,
    weight_column: Annotated[
        str | None,
        typer.Option(help="Weights of rows, of --data and of predictions files. Default: equal weights."),
    ] = None,
    image_column: Annotated[str | None, typer.Option(help="Column of --data. Default: image.")] = None,
    max_length: Annotated[
        int | None, typer.Option(help="Longer texts are truncated to this many tokens.")
    ] = None,
    slice: Annotated[
        str | None,
        typer.Option(help="COLUMN: measure each of its values too, and name the worst."),
    ] = None,
    ensemble: Annotated[
        bool, typer.Option("--ensemble", help="Also the mean prediction of all FILEs, by split.")
    ] = False,
    mc_dropout: Annotated[
        int | None,
        typer.Option(help="Also measure the mean of this many passes with dropout; for runs and --model."),
    ] = None,
    batch_size: Annotated[int, typer.Option(help="Rows per batch of --model.")] = 64,
    device: Annotated[str, typer.Option(help="For --model: auto, cpu, cuda or mps.")] = "auto",
    trust_remote_code: TrustRemoteCode = False,
    figures: Figures = None,
    config: Config = None,
    as_json: AsJson = False,
) -> None:
    """Measure calibration, with intervals; several files side by side, with paired differences.

    Example: calmix evaluate before.parquet after.parquet

    Example: calmix evaluate scores.csv --label-column truth --prob-columns p_cat,p_dog --class-names cat,dog

    Example: calmix evaluate predictions.csv --slice language

    Example: calmix evaluate tags.csv --label-separator ";" (with prob_NAME of every label)

    Example: calmix evaluate --ensemble run-0 run-1 run-2

    Example: calmix evaluate run --mc-dropout 10
    """
    from calmix.report.figures.files import check_figures
    from calmix.workflows.evaluate import evaluate as evaluate_predictions

    check_figures(figures)
    options = workflow_options(context, "files", "figures")
    evaluation = evaluate_predictions(*(files or []), **options)
    if figures is not None:
        evaluation.write_figures(figures)
    if as_json:
        print_json(evaluation.as_dict())
    else:
        _print(evaluation)


def _print(evaluation: Evaluation) -> None:
    from rich.console import Console

    from calmix.report.evaluation_tables import file_table
    from calmix.workflows.evaluate import ERRORS, SCORES

    console = Console()
    unlimited = console.options.update(max_width=10_000)

    def fits(table: Table) -> bool:
        return console.measure(table.to_rich(), options=unlimited).maximum <= console.width

    if evaluation.as_dict().get("multi_label"):
        print_result(evaluation)
        return
    scores, errors, *differences = evaluation.tables()
    files = evaluation.as_dict()["files"]
    whole = file_table(files, (*SCORES[:-1], *ERRORS))
    # A narrow terminal would break the intervals of a wide table.
    parts = [errors] if fits(errors) else [file_table(files, keys) for keys in (ERRORS[:2], ERRORS[2:])]
    print_result(evaluation, [*([whole] if fits(whole) else [scores, *parts]), *differences])
