"""The plain run that comes before a guided one: whether there is one, its settings, and one that is given.

Nothing here loads transformers: a comparison plans its runs with it.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path

from calmix.io.run_directory import RunDirectory
from calmix.mixing.method import get_method
from calmix.mixing.needs import DATA_MAP, plain_run_epochs
from calmix.training.configuration import ALL_ROWS, TrainConfig
from calmix.user_error import UserError, argument


def needs_plain_run(config: TrainConfig) -> bool:
    """Whether a plain run must come first; settings that it could not serve are refused here."""
    method = get_method(config.method, **config.options_of_method())
    by_region = config.train_region != ALL_ROWS
    least = max(plain_run_epochs(method.needed), plain_run_epochs([DATA_MAP]) if by_region else 0)
    if config.plain_run and not least:
        raise UserError(
            f"{argument('plain_run')}: {config.method} on all rows needs no plain run",
            remedy=f"leave it out, or name a guided method or a {argument('train_region')}",
        )
    if config.epochs is not None and config.epochs < least:  # those that are chosen are enough
        who = argument("train_region", config.train_region) if by_region else config.method
        raise UserError(
            f"{who} needs a data map of at least {least} epochs",
            remedy=f"give {argument('epochs', least)} or more",
        )
    return least > 0


def plain_config(config: TrainConfig) -> TrainConfig:
    """The plain run with its dynamics on the same data, network, seed and settings."""
    return dataclasses.replace(
        config.without_teacher(),
        method="plain",
        method_options={},
        label_smoothing=0.0,
        dynamics="training" if config.dynamics == "off" else config.dynamics,
        train_region=ALL_ROWS,
        aum_filter=False,
        aum_quantile=TrainConfig.aum_quantile,
        plain_run=None,
        calibrator=TrainConfig.calibrator,
        batch_size=config.batch_size_of_first_stage,
        first_stage_batch_size=None,
    )


def open_plain_run(path: str | Path) -> RunDirectory:
    """A finished plain run with its dynamics, or a `UserError` that says what it is instead."""
    run = RunDirectory.open(path)
    check_plain_run(run)
    return run


def check_plain_run(run: RunDirectory) -> None:
    made = run.config()
    smoothing = {"label_smoothing": made.get("label_smoothing"), **(made.get("method_options") or {})}
    found = argument("method", made["method"]) if made["method"] != "plain" else None
    if smoothing["label_smoothing"]:
        found = "label smoothing"  # the margin of a smoothed target is not that of the label
    if made.get("teacher"):
        found = "a teacher"
    if found is not None:
        raise UserError(
            f"not a plain run: it was trained with {found}",
            file=run.path,
            remedy=f"give one of {argument('method', 'plain')}, or leave {argument('plain_run')} out",
        )
    run.check_undamaged("dynamics.parquet", f"give another one, or leave {argument('plain_run')} out")
    if not run.dynamics_file.is_file():
        raise UserError(
            "the plain run recorded no dynamics",
            file=run.path,
            remedy=f"give one that was trained with {argument('dynamics', 'training')}, or leave "
            f"{argument('plain_run')} out",
        )
