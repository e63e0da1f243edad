"""`calmix calibrate`: mend the confidence of what is already trained."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

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
)
from calmix.user_error import UserError


def calibrate(
    source: Annotated[Path, typer.Argument(help="A run, a predictions file or a checkpoint directory.")],
    fit_on: Annotated[
        str | None,
        typer.Option(help="What to fit on: a split of the run, a labelled file or a predictions file."),
    ] = None,
    method: Annotated[
        str, typer.Option(help="temperature, vector, structured, platt or isotonic.")
    ] = "temperature",
    output: Annotated[Path | None, typer.Option(help="The directory to make.")] = None,
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
    image_column: Annotated[str | None, typer.Option(help="Default: image.")] = None,
    max_length: Annotated[int | None, typer.Option(help="Longer texts are cut to this many tokens.")] = None,
    trust_remote_code: TrustRemoteCode = False,
    config: Config = None,
    as_json: AsJson = False,
) -> None:
    """Fit a calibrator and, where it folds, write a checkpoint whose plain softmax is calibrated.

    Example: calmix calibrate checkpoint --fit-on validation.csv --method temperature --output calibrated

    Predictions files may have their classes in any order: they are matched by name.

    Example: calmix calibrate test.csv --fit-on val.csv --prob-columns p_cat,p_dog --output calibrated
    """
    if output is None:
        raise UserError("no output directory", remedy="give --output DIRECTORY")
    if fit_on is None:
        raise UserError("nothing to fit on", remedy="give --fit-on with a split or a file")
    if not source.exists():  # before scikit-learn is loaded
        raise UserError("no such run, checkpoint or predictions file", file=source, remedy="check the path")

    from calmix.calibration.column_mapping import ColumnMapping
    from calmix.training.post_hoc import calibrate as calibrate_source

    result = calibrate_source(
        source,
        fit_on,
        method,
        output,
        text_column=text_column,
        pair_column=pair_column,
        choices_column=choices_column,
        label_column=label_column,
        image_column=image_column,
        max_length=max_length,
        mapping=ColumnMapping.from_options(
            label_column=label_column,
            id_column=id_column,
            prob_columns=prob_columns,
            logit_columns=logit_columns,
            class_names=class_names,
            positive_class=positive_class,
        ),
        trust_remote_code=trust_remote_code,
    )
    if as_json:
        print_json(result)
        return
    print(f"{method} fitted on {result['n']} rows of {fit_on}")
    print(f"NLL on these rows: {result['nll_before']:.4f} before, {result['nll_after']:.4f} after")
    if result["temperature"] is not None:
        print(f"temperature: {result['temperature']:.4f}")
    for note in result["notes"]:
        print(f"note: {note}")
    for warning in result["warnings"]:
        print(f"warning: {warning}")
    print(f"model: {result['model']}" if result["folded"] else f"calibrator: {output}")
    for file in result["predictions"]:
        print(f"calibrated predictions: {file}")
