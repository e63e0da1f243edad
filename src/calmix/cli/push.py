"""`calmix push`: share a calibrated model on the Hugging Face Hub."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from calmix.cli.options import AsJson, print_json, print_text


def push(
    run: Annotated[Path, typer.Argument(help="A finished run.")],
    repository: Annotated[str, typer.Argument(help="NAMESPACE/NAME; created if it does not exist.")],
    private: Annotated[bool, typer.Option("--private", help="Make the repository private.")] = False,
    license: Annotated[
        str | None, typer.Option(help="Licence of the model, by its name on the Hub: apache-2.0, mit, ...")
    ] = None,
    language: Annotated[
        list[str] | None, typer.Option(help="Language of the texts, such as en. Repeatable.")
    ] = None,
    dataset: Annotated[
        list[str] | None, typer.Option(help="Training data by its name on the Hub. Repeatable.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Upload the calibrated model of a run, its tokenizer and its model card to the Hugging Face Hub.

    Log in first with 'hf auth login', or set HF_TOKEN.

    Example: calmix push run me/film-reviews --license apache-2.0 --language en
    """
    from calmix.workflows.push import push as push_run

    address = push_run(
        run,
        repository,
        private=private,
        license=license,
        languages=language or (),
        datasets=dataset or (),
    )
    if as_json:
        print_json({"repository": repository, "address": address})
    else:
        print_text(f"pushed to {address}")
