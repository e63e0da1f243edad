"""The options of training as Python arguments: what is given, checked, as a `TrainConfig`."""

from __future__ import annotations

import difflib
import os
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from calmix.training.configuration import TrainConfig
from calmix.training.model_settings import with_model_settings
from calmix.user_error import UserError
from calmix.workflows.data_arguments import GivenData
from calmix.workflows.run import Run

KNOWN = tuple(option.name for option in fields(TrainConfig))
# An option that most methods have, and so a name of its own.
ALPHA = "alpha"
DATA = ("train", "validation", "test", "unlabelled")


def check_names(options: Mapping[str, Any], known: tuple[str, ...] = (*KNOWN, ALPHA)) -> None:
    """Refuse a name that is no option.

    >>> check_names({"epoch": 3})
    Traceback (most recent call last):
    calmix.user_error.UserError: no option 'epoch'; did you mean 'epochs'?
    """
    for name in options:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            raise UserError(
                f"no option {name!r}",
                remedy=f"did you mean {near[0]!r}?"
                if near
                else f"the options are: {', '.join(sorted(known))}",
            )


def training_config(options: Mapping[str, Any]) -> tuple[TrainConfig, GivenData]:
    """The configuration that options make, and the data among them that are objects."""
    check_names(options)
    given = {name: value for name, value in options.items() if value is not None}
    data = GivenData.with_columns(given)
    values: dict[str, Any] = {name: plain_value(name, value) for name, value in given.items()}
    values["train"] = data.source(given["train"], "train")
    for name in ("validation", "unlabelled"):
        values[name] = data.optional(given.get(name), name)
    values["test"] = tuple(data.named(given.get("test"), "test"))
    if ALPHA in values:
        values["method_options"] = {**values.get("method_options", {}), ALPHA: values.pop(ALPHA)}
    trust = bool(values.pop("trust_remote_code", False))
    return TrainConfig.from_dict(with_model_settings(values), trust_remote_code=trust), data


def plain_value(name: str, value: Any) -> Any:
    """Runs and paths among the options by their names."""
    if name in DATA:
        return value
    if isinstance(value, Run):
        return str(value.model_path if name == "model" else value.path)
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if name == "teacher" and isinstance(value, list | tuple):
        return tuple(plain_value(name, one) for one in value)
    return value


def output_directory(output: Any) -> Path:
    """Where a workflow writes; every one that writes a directory needs it."""
    if output is None or not str(output):
        raise UserError("no output directory", remedy="give --output DIRECTORY")
    return Path(output)
