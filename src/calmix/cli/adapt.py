"""`calmix adapt`: recalibrate a model for the data you deploy it on."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from calmix.cli.options import AsJson, Config, TrustRemoteCode, print_json, print_result, workflow_options
from calmix.user_error import UserError, argument

SUGGESTING = ("suggest", "from_file", "design")
# What a label request does not take.
FITTING = ("labelled", "unlabelled", "method", "perturbed", "max_length")


def adapt(
    context: typer.Context,
    source: Annotated[Path, typer.Argument(help="A run or a checkpoint directory.")],
    labelled: Annotated[
        str | None, typer.Option(help="Labelled rows of the new domain, 20 to a few hundred.")
    ] = None,
    unlabelled: Annotated[
        str | None, typer.Option(help="Rows of the new domain without labels; needs --method.")
    ] = None,
    method: Annotated[
        str | None,
        typer.Option(
            help="For --unlabelled: pseudocal, transcal, em-label-shift, lascal or density. "
            "Without it, our results for each are printed."
        ),
    ] = None,
    perturbed: Annotated[
        bool,
        typer.Option("--perturbed", help="Fit on perturbed validation rows of the run, without new data."),
    ] = False,
    suggest: Annotated[
        int | None, typer.Option(help="Write this many rows of --from to a file, to be labelled.")
    ] = None,
    from_file: Annotated[str | None, typer.Option("--from", help="Unlabelled rows for --suggest.")] = None,
    design: Annotated[
        str, typer.Option(help="How --suggest draws: confidence (stratified) or random.")
    ] = "confidence",
    output: Annotated[
        Path | None, typer.Option(help="The directory to create; with --suggest, the file.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the draws and folds.")] = 0,
    text_column: Annotated[str | None, typer.Option(help="Default: as in training.")] = None,
    pair_column: Annotated[str | None, typer.Option(help="Default: as in training.")] = None,
    choices_column: Annotated[str | None, typer.Option(help="Default: as in training.")] = None,
    label_column: Annotated[str | None, typer.Option(help="Default: as in training.")] = None,
    image_column: Annotated[str | None, typer.Option(help="Default: as in training.")] = None,
    max_length: Annotated[
        int | None, typer.Option(help="Longer texts are truncated to this many tokens.")
    ] = None,
    trust_remote_code: TrustRemoteCode = False,
    config: Config = None,
    as_json: AsJson = False,
) -> None:
    """Recalibrate a model for the data you deploy it on.

    Example: calmix adapt run --suggest 50 --from tickets.csv --output to_label.csv

    Example: calmix adapt run --labelled to_label.csv --output adapted

    Without data of the new domain: a temperature fitted on perturbed validation rows.

    Example: calmix adapt run --perturbed --output robust
    """
    from calmix.workflows import adapt as workflow

    options = workflow_options(context, "source")
    asked = {name: options.pop(name) for name in SUGGESTING}
    found: Any
    if suggest is not None or from_file is not None:
        if suggest is None or from_file is None:
            raise UserError("--suggest and --from belong together", remedy="give --suggest N --from FILE")
        for name in FITTING:
            if options.pop(name):
                raise UserError(
                    f"{argument(name)} does not go with --suggest", remedy="leave one of them out"
                )
        if output is None:
            raise UserError("no output file", remedy=f"give {argument('output', 'FILE.csv')}")
        found = workflow.suggest_labels(source, from_file, suggest, design=asked["design"], **options)
    else:
        found = workflow.adapt(source, **options)
    if as_json:
        print_json(found.content)
    else:
        print_result(found)
