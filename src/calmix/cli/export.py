"""`calmix export`: a calibrated model for ONNX Runtime."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from calmix.cli.options import AsJson, print_json, print_result


def export(
    run: Annotated[Path, typer.Argument(help="A finished run, or a comparison: its recommended run.")],
    output: Annotated[Path, typer.Option(help="The directory to create.")],
    format: Annotated[str, typer.Option(help="'onnx'.")] = "onnx",
    int8: Annotated[bool, typer.Option("--int8", help="8-bit weights: a quarter of the size.")] = False,
    tolerance: Annotated[
        float,
        typer.Option(help="Nats by which 8-bit weights may raise the NLL of validation rows."),
    ] = 0.02,
    batch_size: Annotated[int, typer.Option(help="Rows per batch of the measurement.")] = 64,
    as_json: AsJson = False,
) -> None:
    """Export the calibrated model of a run, measured on the run's own rows.

    'calmix predict' and 'calmix evaluate --model' take the exported directory too. Needs calmix[onnx].

    Example: calmix export run --format onnx --int8 --output exported
    """
    from calmix.workflows.export import export as export_run

    found = export_run(run, output, format=format, int8=int8, tolerance=tolerance, batch_size=batch_size)
    if as_json:
        print_json(found.content)
    else:
        print_result(found)
