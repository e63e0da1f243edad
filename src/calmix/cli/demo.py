"""`calmix demo`: see it work on real data, with nothing but the package index."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from calmix.cli.options import AsJson


def demo(
    output: Annotated[Path, typer.Option(help="Where the data and the run go.")] = Path("demo-run"),
    seed: Annotated[int, typer.Option(help="Same seed, same bits.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Train on film-review sentences; test on more of them, and on IMDb, which is another domain.

    Example: calmix demo --output demo-run
    """
    from calmix.cli.train import run_training
    from calmix.experiments.demo import demo_config, write_demo_data

    files = write_demo_data(output / "data", seed)
    config = demo_config(files, output / "run", seed)
    # A second call shows the finished run again.
    run_training(config.as_dict(), resume=True, as_json=as_json)
