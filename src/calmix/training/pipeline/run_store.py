"""The store of runs: DIR/<fingerprint>/ is a run directory, made once and reused.

DIR/<fingerprint>/               a run, finished or to be continued
    <fingerprint>.restored/      weights that were deleted, while they are trained again
    <fingerprint>.log            the output of its training
    <fingerprint>.failure.json   why it failed, until it is tried again
    <fingerprint>.lock           held while somebody works on it
    threshold_passes/            what the filters of doubtful labels have trained
"""

from __future__ import annotations

import json
import shutil
import traceback
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from calmix.io.manifest import make_manifest
from calmix.io.run_directory import RunDirectory, check_name, write_json, write_yaml
from calmix.training.configuration import TrainConfig
from calmix.training.pipeline.fingerprint import Fingerprints
from calmix.user_error import UserError

# What those who build on a stored run ask of its `metrics.json`.
NEEDED = {"splits", "temperature", "seconds", "task", "label_names", "sizes"}


class RunStore:
    """Finds runs by what they are made of; `stages.run_for` makes those that are missing."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.fingerprints = Fingerprints()

    def run(self, fingerprint: str) -> RunDirectory:
        check_name(fingerprint, self.path)
        return RunDirectory(self.path / fingerprint)

    def is_finished(self, fingerprint: str) -> bool:
        return self.run(fingerprint).is_finished

    def is_whole(self, fingerprint: str) -> bool:
        """Whether a run is finished and its files are as they were then."""
        run = self.run(fingerprint)
        try:
            return run.is_finished and run.metrics().keys() >= NEEDED and run.damage() is None
        except (OSError, ValueError, UserError):  # the list of its files is damaged itself
            return False

    @property
    def passes(self) -> Path:
        return self.path / "threshold_passes"

    def log_file(self, fingerprint: str) -> Path:
        check_name(fingerprint, self.path)
        return self.path / f"{fingerprint}.log"

    def failure_file(self, fingerprint: str) -> Path:
        check_name(fingerprint, self.path)
        return self.path / f"{fingerprint}.failure.json"

    def locked(self, fingerprint: str) -> AbstractContextManager[None]:
        from calmix.runtime.lock import locked

        return locked(self.path / f"{fingerprint}.lock")

    def record_failure(self, fingerprint: str, error: BaseException | str) -> dict[str, Any]:
        """Write down why a run failed; it is tried again next time."""
        if isinstance(error, str):
            failure: dict[str, Any] = {"reason": error, "is_user_error": False, "traceback": []}
        else:
            is_user_error = isinstance(error, UserError)
            failure = {
                "reason": one_line(error),
                "is_user_error": is_user_error,
                "traceback": [] if is_user_error else traceback.format_exception(error),
            }
        write_json(self.failure_file(fingerprint), failure)
        return failure

    def forget_failure(self, fingerprint: str) -> None:
        self.failure_file(fingerprint).unlink(missing_ok=True)

    def failure(self, fingerprint: str) -> dict[str, Any] | None:
        file = self.failure_file(fingerprint)
        return dict(json.loads(file.read_text())) if file.is_file() else None

    def drop_model(self, fingerprint: str) -> None:
        """Remove the weights of a finished run; its predictions, dynamics and metrics stay."""
        run = self.run(fingerprint)
        dropped = run.path / "dropped"
        if run.is_finished and run.model.is_dir():
            # Renamed first: a model directory is whole or not there.
            shutil.rmtree(dropped, ignore_errors=True)
            run.model.replace(dropped)
            shutil.rmtree(run.perturbed / "model", ignore_errors=True)
        shutil.rmtree(dropped, ignore_errors=True)


def list_model_again(run: RunDirectory) -> None:
    """Where restored weights differ in their last bits, made on another machine, they are the run's from now
    on."""
    metrics = run.metrics()
    if "files" not in metrics or run.damage("model/") is None:
        return
    weights = [file for file in run.model.rglob("*") if file.is_file() and file.suffix != ".md"]
    others = {name: facts for name, facts in metrics["files"].items() if not name.startswith("model/")}
    write_json(run.metrics_file, {**metrics, "files": others | make_manifest(run.path, weights)})


def make_resumable(run: RunDirectory, config: TrainConfig) -> None:
    """See to it that `train(resume=True)` takes up whatever a killed process has left here."""
    if not run.path.exists():
        return
    if not run.config_file.is_file():
        shutil.rmtree(run.path)  # killed before anything was written that could be continued
    elif not _has_config(run, config):
        # The fingerprint says that it is the same run: only the places of files or the bins are others.
        write_yaml(run.config_file, config.as_dict())


def _has_config(run: RunDirectory, config: TrainConfig) -> bool:
    """Whether the file of a run says what its configuration is; a damaged one does not."""
    try:
        return not config.differences(TrainConfig.from_dict(run.config()))
    except (UserError, TypeError):
        return False


def one_line(error: BaseException) -> str:
    """
    >>> one_line(ValueError("bad\\n  shape"))
    'ValueError: bad shape'
    >>> one_line(UserError("no such file", file="a.csv"))
    'a.csv: no such file'
    """
    text = " ".join(str(error).split())
    if isinstance(error, UserError):
        return text
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
