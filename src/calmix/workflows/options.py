"""The options of training as Python arguments: what is given, checked, as a `TrainConfig`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from calmix.training.configuration import OPTIONS, TrainConfig
from calmix.training.model_settings import with_model_settings
from calmix.training.options import check_known
from calmix.user_error import UserError, argument
from calmix.workflows.data_arguments import GivenData
from calmix.workflows.run import Run

# An option that most methods have, and so a name of its own.
ALPHA = "alpha"
DATA = ("train", "validation", "test", "unlabelled")


def training_config(options: Mapping[str, Any]) -> tuple[TrainConfig, GivenData]:
    """The configuration that options make, and the data among them that are objects."""
    check_known(options, [*OPTIONS, ALPHA])
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


def check_max_length(given: int | None) -> None:
    """The limit of tokens of a verb that trains nothing has the bounds that it has in training."""
    if given is not None:
        OPTIONS["max_length"].check(given)


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
        raise UserError("no output directory", remedy=f"give {argument('output', 'DIRECTORY')}")
    return Path(output)
