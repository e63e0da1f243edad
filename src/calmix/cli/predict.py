"""`calmix predict`: predictions, and which of them to accept."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from calmix.cli.options import (
    COLUMNS,
    AsJson,
    BatchSize,
    Config,
    Device,
    TrainedColumn,
    TrustRemoteCode,
    print_json,
    print_text,
    workflow_options,
)
from calmix.user_error import UserError

ACCEPTING, SETS = "Which predictions to accept", "Prediction sets"
CLASSES_SHOWN = 5


def predict(
    context: typer.Context,
    source: Annotated[
        Path,
        typer.Argument(
            help="A run, a checkpoint, a directory of 'calmix calibrate', or a comparison: its recommended "
            "model."
        ),
    ],
    input: Annotated[str | None, typer.Option(help="The data to predict, as for train.")] = None,
    output: Annotated[Path | None, typer.Option(help="The file to write.")] = None,
    text: Annotated[str | None, typer.Option(help="One text, in place of --input and --output.")] = None,
    text_pair: Annotated[str | None, typer.Option(help="The second text of a pair, beside --text.")] = None,
    skip_blank: Annotated[
        bool, typer.Option("--skip-blank", help="Leave out rows without a text, and list them.")
    ] = False,
    target_accuracy: Annotated[
        float | None,
        typer.Option(
            help="Accept as many rows as this accuracy allows, with a 95 % guarantee.",
            rich_help_panel=ACCEPTING,
        ),
    ] = None,
    accept_above: Annotated[
        float | None,
        typer.Option(help="Accept rows whose confidence is at least this.", rich_help_panel=ACCEPTING),
    ] = None,
    validation: Annotated[
        str | None,
        typer.Option(
            help="Labelled rows that certify the target. Default: those of the run.",
            rich_help_panel=ACCEPTING,
        ),
    ] = None,
    reject_ood: Annotated[
        bool,
        typer.Option(
            "--reject-ood",
            help="Mark rows below the out-of-domain threshold that 'calmix ood' saved with the run; they are "
            "never accepted.",
            rich_help_panel=ACCEPTING,
        ),
    ] = False,
    coverage: Annotated[
        float | None,
        typer.Option(
            help="Prediction sets that hold the true class with this probability.", rich_help_panel=SETS
        ),
    ] = None,
    set_method: Annotated[
        str, typer.Option(help="lac (smallest sets), aps or raps.", rich_help_panel=SETS)
    ] = "lac",
    class_conditional: Annotated[
        bool,
        typer.Option(
            "--class-conditional", help="The coverage holds within every class.", rich_help_panel=SETS
        ),
    ] = False,
    text_column: TrainedColumn = None,
    pair_column: TrainedColumn = None,
    choices_column: TrainedColumn = None,
    id_column: Annotated[
        str | None, typer.Option(help="Default: rows are numbered.", rich_help_panel=COLUMNS)
    ] = None,
    image_column: TrainedColumn = None,
    batch_size: BatchSize = 64,
    device: Device = "auto",
    trust_remote_code: TrustRemoteCode = False,
    config: Config = None,
    as_json: AsJson = False,
) -> None:
    """Predict the rows of a file, and mark the predictions to accept automatically.

    The output has the columns of the input, then predicted_label, the probability of every class, confidence
    and, if requested, accept, reject_ood, prediction_set and set_size. A multi-label model writes
    predicted_labels and the probability of every label.

    Example: calmix predict run --input new.csv --output predictions.csv --target-accuracy 0.95

    Example: calmix predict run --input new.csv --output predictions.csv --coverage 0.9

    Example: calmix predict run --text "a warm and clever film"
    """
    if text is not None and (input is not None or output is not None):
        raise UserError("--text replaces --input and --output", remedy="give one or the others")
    if text is None and text_pair is not None:
        raise UserError("--text-pair belongs to --text", remedy="give --text too")
    if text is not None and coverage is not None:
        raise UserError("--coverage needs a file of rows", remedy="give --input and --output")
    if text is None and (input is None or output is None):
        raise UserError(
            "both --input and --output are needed", remedy='name the two files, or give --text "…"'
        )

    if text is not None:
        from calmix.inference.predicting import predict_text
        from calmix.inference.saved_classifier import open_classifier
        from calmix.workflows.run import model_directory

        path = model_directory(source, "source")
        asked = predict_text(
            open_classifier(path),
            text,
            text_pair,
            target_accuracy=target_accuracy,
            accept_above=accept_above,
            validation=validation,
            reject_ood=reject_ood,
            batch_size=batch_size,
            device=device,
            trust_remote_code=trust_remote_code,
        )
        result = {"source": str(path), **asked}
    else:
        from calmix.workflows.predict import predict as predict_input

        options = workflow_options(context, "source", "input", "text", "text_pair")
        result = dict(predict_input(source, input, **options).content)
    if as_json:
        print_json(result)
    elif text is not None:
        _print_answer(result)
    else:
        _print_summary(result, source)


def _print_answer(result: dict[str, Any]) -> None:
    if "predicted_labels" in result:
        print_text(", ".join(result["predicted_labels"]) or "no label")
    else:
        print_text(f"{result['predicted_label']} ({result['confidence']:.1%})")
    ranked = sorted(result["probabilities"].items(), key=lambda one: -one[1])
    for name, probability in ranked[:CLASSES_SHOWN]:
        print_text(f"  {probability:6.1%}  {name}")
    if len(ranked) > CLASSES_SHOWN:
        left = len(ranked) - CLASSES_SHOWN
        print_text(f"  and {left} more {'class' if left == 1 else 'classes'}")
    _print_rule(result)
    for name in ("accept", "reject_ood"):
        if name in result:
            print_text(f"{name}: {'yes' if result[name] else 'no'}")
    for note in result["notes"]:
        print_text(f"note: {note}")


def _print_summary(result: dict[str, Any], source: Path) -> None:
    rows = result["rows"]
    if result["source"] != str(source):
        print_text(f"recommended model: {result['source']}")
    print_text(f"{rows} rows written to {result['output']}")
    for note in result["notes"]:
        print_text(f"note: {note}")
    _print_rule(result)
    if "accepted" in result:
        print_text(f"accepted: {result['accepted']} of {rows} rows (coverage {result['coverage']:.1%})")
    if "rejected_ood" in result:
        print_text(f"out of domain: {result['rejected_ood']} of {rows} rows")

    from calmix.workflows.predict import label_lines, set_lines

    for line in (*set_lines(result), *label_lines(result)):
        print_text(line)


def _print_rule(result: dict[str, Any]) -> None:
    """By what predictions are accepted; where the target cannot be certified, what can be."""
    if "ood_rule" in result:
        print_text(result["ood_rule"])
    if "guarantee" not in result:
        return
    print_text(result["guarantee"])
    if result["limit"]:
        print_text(f"note: {result['limit']}")
    if result["threshold"] is not None:
        return
    if not result["certified"]:
        print_text(f"these {result['validation_rows']} rows certify no lower accuracy either, down to 50 %")
        return
    print_text(f"these {result['validation_rows']} rows certify, jointly with 95 % confidence:")
    print_text("  accuracy  coverage  --accept-above")
    for one in result["certified"]:
        print_text(f"  {one['accuracy']:8.1%}  {one['coverage']:8.1%}  {one['threshold']:14.4f}")
