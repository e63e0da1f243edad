"""`calmix predict`: labels with a confidence that can be acted on."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from calmix.cli.options import AsJson, Config, TrustRemoteCode, print_json
from calmix.run import Run
from calmix.user_error import UserError, check_least

if TYPE_CHECKING:
    from calmix.calibration.selective import GuaranteedThreshold


def predict(
    run: Annotated[Path, typer.Argument(help="A finished run.")],
    input: Annotated[str | None, typer.Option(help="The data to predict, as for train.")] = None,
    output: Annotated[Path | None, typer.Option(help="The file to write.")] = None,
    target_accuracy: Annotated[
        float | None,
        typer.Option(help="Accept as many rows as this accuracy allows, with a 95 % guarantee."),
    ] = None,
    accept_above: Annotated[
        float | None, typer.Option(help="Accept rows whose confidence is at least this.")
    ] = None,
    text_column: Annotated[str | None, typer.Option(help="Default: as in training.")] = None,
    pair_column: Annotated[str | None, typer.Option(help="Default: as in training.")] = None,
    choices_column: Annotated[str | None, typer.Option(help="Default: as in training.")] = None,
    id_column: Annotated[str | None, typer.Option(help="Default: rows are numbered.")] = None,
    image_column: Annotated[str | None, typer.Option(help="Default: as in training.")] = None,
    batch_size: Annotated[int, typer.Option(help="Rows per batch.")] = 64,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or mps.")] = "auto",
    trust_remote_code: TrustRemoteCode = False,
    config: Config = None,
    as_json: AsJson = False,
) -> None:
    """Predict the rows of a file, and say which answers may be accepted automatically.

    Example: calmix predict run --input new.csv --output answers.csv --target-accuracy 0.95
    """
    from calmix.data.columns import ColumnNames
    from calmix.data.reading import read_rows
    from calmix.io.writing import check_writable, write_table

    opened = Run.open(run)
    if input is None or output is None:
        raise UserError("both --input and --output are needed", remedy="name the two files")
    check_least("--batch-size", batch_size, 1)
    check_writable(output)
    guarantee = _guarantee(opened, target_accuracy, accept_above)
    trained, metrics = opened.config(), opened.metrics()
    columns = ColumnNames.from_options(
        text=text_column or trained["text_column"],
        pair=pair_column or trained["pair_column"],
        choices=choices_column or trained["choices_column"],
        label=trained["label_column"],
        id=id_column,
        image=image_column or trained.get("image_column"),
    )
    # The choices of a row have no names, but their number must be that of training.
    names = tuple(metrics["label_names"]) if metrics["task"] == "choice" else None
    rows = read_rows(input, "input", columns, names, labelled=False, task=metrics["task"])

    from calmix.training.prediction import answer_table, predict_with_checkpoint

    logits = predict_with_checkpoint(
        opened.model,
        rows,
        max_length=trained["max_length"],
        batch_size=batch_size,
        device=device,
        trust_remote_code=trust_remote_code,
    )
    threshold = accept_above if guarantee is None else guarantee.threshold
    decides = guarantee is not None or accept_above is not None
    table = answer_table(rows, logits, metrics["label_names"], threshold, decides=decides)
    write_table(output, table)
    summary: dict[str, Any] = {"output": str(output), "rows": len(rows)}
    if decides:
        accepted = sum(table.column("accept").to_pylist())
        summary |= {"accepted": accepted, "coverage": accepted / len(rows), "threshold": threshold}
    if guarantee is not None:
        summary |= {
            "target_accuracy": guarantee.target_accuracy,
            "guarantee": guarantee.explain(),
            "validation_coverage": guarantee.coverage,
            "rows_needed": guarantee.rows_needed,
        }
    if as_json:
        print_json(summary)
        return
    print(f"{len(rows)} rows written to {output}")
    if guarantee is not None:
        print(guarantee.explain())
    if decides:
        print(f"accepted: {summary['accepted']} of {len(rows)} rows (coverage {summary['coverage']:.1%})")


def _guarantee(
    run: Run, target_accuracy: float | None, accept_above: float | None
) -> GuaranteedThreshold | None:
    """The threshold for a target accuracy, found on the run's calibrated validation predictions."""
    for option, value in {"--target-accuracy": target_accuracy, "--accept-above": accept_above}.items():
        if value is not None and not 0 < value < 1:
            raise UserError(f"{option} is {value}", remedy="give a fraction between 0 and 1, such as 0.95")
    if target_accuracy is None:
        return None
    if accept_above is not None:
        raise UserError("--target-accuracy and --accept-above exclude each other", remedy="give one of them")

    from calmix.calibration.run_predictions import predictions_of_run
    from calmix.calibration.selective import guaranteed_threshold

    validation = predictions_of_run(run, "validation", calibrated=True)
    return guaranteed_threshold(validation.confidence(), validation.correct(), target_accuracy)
