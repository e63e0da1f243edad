"""`calmix calibrate`: calibrate what is already trained."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from calmix.cli.options import (
    AsJson,
    ClassNames,
    Config,
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


def calibrate(
    context: typer.Context,
    source: Annotated[Path, typer.Argument(help="A run, a predictions file or a checkpoint directory.")],
    fit_on: Annotated[
        str | None,
        typer.Option(help="What to fit on: a split of the run, a labelled file or a predictions file."),
    ] = None,
    method: Annotated[
        str, typer.Option(help="temperature, temperature-bias, vector, structured, auto, platt or isotonic.")
    ] = "temperature",
    output: Annotated[Path | None, typer.Option(help="The directory to create.")] = None,
    text_column: Annotated[str | None, typer.Option(help="Default: text.")] = None,
    pair_column: Annotated[str | None, typer.Option(help="Default: text_pair.")] = None,
    choices_column: Annotated[str | None, typer.Option(help="Default: choices.")] = None,
    label_column: Annotated[str | None, typer.Option(help="Default: label.")] = None,
    id_column: Annotated[
        str | None, typer.Option(help="Row ids of predictions files. Default: row_id.")
    ] = None,
    prob_columns: ProbColumns = None,
    logit_columns: LogitColumns = None,
    class_names: ClassNames = None,
    positive_class: PositiveClass = None,
    multi_label: MultiLabel = False,
    label_separator: LabelSeparator = None,
    label_columns: LabelColumns = None,
    image_column: Annotated[str | None, typer.Option(help="Default: image.")] = None,
    max_length: Annotated[
        int | None, typer.Option(help="Longer texts are truncated to this many tokens.")
    ] = None,
    trust_remote_code: TrustRemoteCode = False,
    config: Config = None,
    as_json: AsJson = False,
) -> None:
    """Fit a calibrator and, if it folds into the head, write a checkpoint with calibrated plain softmax.

    Example: calmix calibrate checkpoint --fit-on validation.csv --method temperature --output calibrated

    Predictions files may have their classes in any order: they are matched by name.

    Example: calmix calibrate test.csv --fit-on val.csv --prob-columns p_cat,p_dog --output calibrated
    """
    from calmix.workflows.calibrate import calibrate as calibrate_source

    found = calibrate_source(source, **workflow_options(context, "source"))
    if as_json:
        print_json(found.content)
    else:
        print_result(found)
