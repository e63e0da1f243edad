"""From labelled rows to a calibrated classifier, with its report and model card."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from calmix.io.run_directory import RunDirectory
from calmix.runtime.processes import is_first_process
from calmix.user_error import UserError, argument
from calmix.workflows.options import output_directory, training_config
from calmix.workflows.run import Run


def train(
    train: Any = None,
    *,
    output: str | Path,
    validation: Any = None,
    test: Any = None,
    texts: Any = None,
    labels: Any = None,
    resume: bool = False,
    **options: Any,
) -> Run:
    """Train a classifier, calibrate it, and write its run directory with report and model card.

        run = calmix.train(frame, test={"test": test, "imdb": imdb}, method="aum-saliency", output="run")
        run.metrics["test"].calibrated.ece, run.predictions("imdb"), run.model()

    train, validation, test: a file name, a `pandas.DataFrame`, a `datasets.Dataset` or `DatasetDict`, a list
    of dicts, a dict of columns, or (texts, labels); `test` may be a dict of several by name. Or give
    texts=[...], labels=[...] in place of `train`. Without `validation`, a stratified tenth of `train`.

    options: those of `calmix train --help`, by the same names (`method`, `model`, `epochs`, `seed`, `alpha`,
    `label_smoothing` ...); `method_options`, `model_options` and `trainer` are dicts.

    `resume=True` continues a run that was cut off, to the same bits; a finished run is returned as it is.
    """
    given = {"train": rows_or_lists(train, texts, labels), "validation": validation, "test": test}
    return train_run({**options, **given, "output": output}, resume=resume)


def rows_or_lists(train: Any, texts: Any, labels: Any) -> Any:
    """`train`, or the two lists that replace it."""
    if texts is None and labels is None:
        return train
    if train is not None:
        raise UserError("texts and labels replace train", remedy="give one or the others")
    if texts is None or labels is None:
        raise UserError("texts and labels belong together", remedy="give both")
    return {"text": texts, "label": labels}


def train_run(options: Mapping[str, Any], *, resume: bool) -> Run:
    """`train` with all options in one mapping; those that are None are not given."""
    place = output_directory(options.get("output"))
    given = options.get("train")
    is_missing = given is None or (isinstance(given, str) and not given)
    if resume and is_missing:
        options = with_saved_options(options, RunDirectory(place))
    elif is_missing:
        raise UserError("no training data", remedy=f"give {argument('train', 'FILE')}")

    from calmix.training.pipeline.first_look import look_first

    config, data = training_config(options)
    look_first(config, resume=resume)

    from calmix.report.adapted_card import write_perturbed_card
    from calmix.report.model_card import write_model_card
    from calmix.report.run.run_report import write_run_report
    from calmix.training.pipeline.stages import train_staged

    run = train_staged(config, resume=resume)
    if is_first_process():
        # Of a run that was finished before: nothing is written about files that have changed since.
        run.check_undamaged("", "restore it, or train it again in another directory")
        write_model_card(run)
        write_perturbed_card(run)
        write_run_report(run)
    return Run(run, tuple(data.held))


def with_saved_options(options: Mapping[str, Any], run: RunDirectory) -> dict[str, Any]:
    """A run to resume knows its own options."""
    if not run.config_file.is_file():
        raise UserError(
            "no run to resume here", file=run.path, remedy=f"give {argument('train')} to start one"
        )
    # Trust is the word of whoever calls, not of the run: somebody else may have made it.
    trust = options.get("trust_remote_code", False)
    saved = run.config()
    return {**saved, "train": saved["train"], "output": str(run.path), "trust_remote_code": trust}
