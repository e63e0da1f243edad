"""`calmix calibrate`: calibrate what is already trained."""

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
    print_line,
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

    from calmix.calibration.files.column_mapping import ColumnMapping
    from calmix.inference.post_hoc import calibrate as calibrate_source

    calibrated = calibrate_source(
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
    from calmix.report.calibration_report import (
        NOTHING_HELD_OUT,
        conclusion,
        held_out_table,
        write_calibration_report,
    )
    from calmix.report.tables import HEADLINE_KEYS

    report = write_calibration_report(calibrated.result, calibrated.held_out, output / "report.html")
    result = {**calibrated.result, "report": str(report)}
    if as_json:
        print_json(result)
        return
    from rich.console import Console

    console = Console()
    print_line(console, f"{method} fitted on {result['n']} rows of {fit_on}")
    if method != "isotonic" and result["temperature"] is not None:  # isotonic's is that of its first step
        print_line(console, f"temperature: {result['temperature']:.4f}")
    if result["held_out"]:
        console.print(held_out_table(result, HEADLINE_KEYS).to_rich())
    else:
        print_line(console, NOTHING_HELD_OUT)
    print_line(console, conclusion(result))
    for note in result["notes"]:
        print_line(console, f"note: {note}")
    for warning in result["warnings"]:
        print_line(console, f"warning: {warning}")
    print_line(console, f"model: {result['model']}" if result["folded"] else f"calibrator: {output}")
    for file in result["predictions"]:
        print_line(console, f"calibrated predictions: {file}")
    print_line(console, f"report: {report}")
