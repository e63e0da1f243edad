"""`calmix demo`: a comparison on real data that come with the package."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from calmix.cli.options import AsJson


def demo(
    output: Annotated[Path, typer.Option(help="Directory of the data and the comparison.")] = Path(
        "demo-run"
    ),
    as_json: AsJson = False,
) -> None:
    """Compare plain with a guided method on film-review sentences, tested on further ones and on IMDb.

    Example: calmix demo --output demo-run
    """
    from calmix.cli.compare import show_comparison
    from calmix.experiments.demo import demo_config, write_demo_data
    from calmix.workflows.compare import run_comparison

    files = write_demo_data(output / "data")
    # The comparison keeps its runs: a second call shows them again.
    show_comparison(run_comparison(demo_config(files, output / "comparison")), as_json=as_json)
