"""Where a run may be written; needs no torch, so that a wrong place is refused at once."""

from __future__ import annotations

from dataclasses import replace

from yaml import YAMLError

from calmix.io.replacing import remove_abandoned
from calmix.io.run_directory import RunDirectory
from calmix.training.configuration import TEACHERS_OWN, TrainConfig
from calmix.training.pipeline.run_files import check_checkpoints
from calmix.user_error import UserError, argument


def check_output(run: RunDirectory, config: TrainConfig, *, resume: bool) -> None:
    """Refuse to write over anything that is not this very run."""
    for place in (run.path, *run.path.parents):
        if place.exists() and not place.is_dir():
            raise UserError("the output cannot be created: a file is in the way", file=place)
    if not run.is_finished:
        check_checkpoints(run)
    # A run that was killed at its very start has a folder for checkpoints, half of its first file, and
    # nothing else.
    remove_abandoned(run.config_file)
    if not run.path.exists() or {path.name for path in run.path.iterdir()} <= {run.checkpoints.name}:
        return
    if not run.config_file.is_file():
        raise UserError(
            "the output directory is not empty and holds no run",
            file=run.path,
            remedy=f"name another {argument('output')}",
        )
    if not resume:
        state = "a finished run" if run.is_finished else "an unfinished run"
        remedy = f"name another {argument('output')}" + (
            "" if run.is_finished else f", or continue with {argument('resume')}"
        )
        raise UserError(f"the output directory holds {state}", file=run.path, remedy=remedy)
    different = as_begun(config, run).differences(saved_config(run))
    if different:
        raise UserError(
            f"the run to resume was started with other options ({', '.join(different)})",
            file=run.config_file,
            remedy=f"resume with the same options, or name another {argument('output')}",
        )


def as_begun(config: TrainConfig, run: RunDirectory) -> TrainConfig:
    """What nobody gave, as it is in the run to resume. The rule may have changed since it began."""
    if config.is_settled or not run.config_file.is_file():
        return config
    began = saved_config(run)
    saved = {name: getattr(began, name) for name in TEACHERS_OWN if getattr(config, name) is None}
    theirs = {
        own: getattr(began, own)
        for name, own in TEACHERS_OWN.items()
        if name in saved and getattr(config, own) is None and config.teacher
    }
    return replace(config, **saved, **theirs)


def saved_config(run: RunDirectory) -> TrainConfig:
    try:
        return TrainConfig.from_dict(run.config())
    except (OSError, TypeError, ValueError, YAMLError, UserError) as error:
        problem = f" ({error.args[0]})" if isinstance(error, UserError) else ""
        raise UserError(
            f"this is not the configuration of a run{problem}",
            file=run.config_file,
            remedy=f"name another {argument('output')}",
        ) from error
