"""The run that a comparison recommends, for whoever wants its model."""

from __future__ import annotations

from pathlib import Path

from calmix.experiments.comparison import gather, store_path
from calmix.experiments.recommendation import recommend
from calmix.experiments.results import RUNS_FILE, Results
from calmix.experiments.summary import summarise
from calmix.io.run_directory import RunDirectory
from calmix.training.pipeline.run_store import RunStore
from calmix.user_error import UserError, argument


def recommended_run(directory: Path) -> RunDirectory:
    """The run with the recommended model; an error that says why where there is none."""
    is_stored = (directory / RUNS_FILE).is_file()
    results = Results.read(directory) if is_stored else gather(directory)
    store = RunStore(store_path(directory))
    chosen = recommend(results, summarise(results)).run if results.runs else None
    if chosen is None:
        raise UserError(
            "this comparison recommends no model",
            file=directory,
            remedy=f"name one of its runs, in {store.path}",
        )
    run = store.run(chosen)
    if not run.model.is_dir():
        raise UserError(
            f"the recommended model, of run {chosen}, was not kept",
            file=directory,
            remedy=f"make the comparison again with {argument('keep_models', 'best')}",
        )
    return run
