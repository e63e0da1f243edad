"""The store of runs: DIR/<fingerprint>/ is a run directory, made once and found ever after.

DIR/<fingerprint>/               a run, finished or to be continued
    <fingerprint>.restored/      weights that were dropped, while they are made anew
    <fingerprint>.log            what its training said
    <fingerprint>.failure.json   why it failed, until it is tried again
    <fingerprint>.lock           held while somebody works on it
    threshold_passes/            what the filters of doubtful labels have trained
"""

from __future__ import annotations

import dataclasses
import json
import shutil
import traceback
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from calmix.experiments.fingerprint import Fingerprints
from calmix.manifest import make_manifest
from calmix.printable import say
from calmix.processes import is_first_process
from calmix.run import Run, check_name, write_json, write_yaml
from calmix.training.configuration import TrainConfig
from calmix.user_error import UserError


class RunStore:
    """Finds runs by what they are made of, and makes those that are missing."""

    def __init__(self, path: str | Path, fingerprints: Fingerprints | None = None) -> None:
        self.path = Path(path)
        self.fingerprints = fingerprints or Fingerprints()

    def run(self, fingerprint: str) -> Run:
        check_name(fingerprint, self.path)
        return Run(self.path / fingerprint)

    def is_finished(self, fingerprint: str) -> bool:
        return self.run(fingerprint).is_finished

    def is_whole(self, fingerprint: str) -> bool:
        """Whether a run is finished and its files are as they were then."""
        run = self.run(fingerprint)
        try:
            return run.is_finished and run.damage() is None
        except (OSError, ValueError):  # the list of its files is damaged itself
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

    def run_for(self, config: TrainConfig, fingerprint: str | None = None) -> Run:
        """The finished run of this configuration: found, continued or made.

        `config.output` does not matter. Whoever asks for a run that another process is making waits for it.
        """
        from calmix.training.hardware import said_by_first
        from calmix.training.recipe import form_group

        fingerprint = fingerprint or self.fingerprints.of(config)
        run = self.run(fingerprint)
        form_group(config)
        with self.locked(fingerprint):
            if not said_by_first(is_first_process() and self.is_whole(fingerprint)):
                self._make(run, config)
            # Left behind by a process that was killed between its last two steps.
            shutil.rmtree(run.checkpoints, ignore_errors=True)
        return run

    def restore_model(self, config: TrainConfig, fingerprint: str) -> None:
        """Make the weights of a run anew that were dropped: to the same bits, since all else is the same.

        The run itself stays as it is, for others may be reading it.
        """
        from calmix.training.hardware import wait_for_all_processes
        from calmix.training.recipe import form_group

        run, again = self.run(fingerprint), self.run(f"{fingerprint}.restored")
        form_group(config)
        with self.locked(fingerprint):
            if not run.model.is_dir():
                self._make(again, config)
                if is_first_process():
                    again.metrics_file.unlink()  # without its model it is not finished any more
                    again.model.replace(run.model)
                    list_model_again(run)
            if is_first_process():
                shutil.rmtree(again.path, ignore_errors=True)
            wait_for_all_processes()

    def _make(self, run: Run, config: TrainConfig) -> None:
        """Train a run in its directory, from where a killed process has left it."""
        from calmix.experiments.staged import train_staged
        from calmix.training.hardware import wait_for_all_processes

        config = dataclasses.replace(config, output=str(run.path))
        if is_first_process():
            if run.is_finished and not self.is_whole(run.path.name):
                say(f"{run.path} is damaged: the run is made again")
                run.metrics_file.unlink()
            make_resumable(run, config)
        wait_for_all_processes()
        train_staged(config, store=self, resume=True)

    def locked(self, fingerprint: str) -> AbstractContextManager[None]:
        from calmix.training.lock import locked

        return locked(self.path / f"{fingerprint}.lock")

    def record_failure(self, fingerprint: str, error: BaseException | str) -> dict[str, Any]:
        """Write down why a run failed; it is tried again next time."""
        if isinstance(error, str):
            failure: dict[str, Any] = {"reason": error, "mendable": False, "traceback": []}
        else:
            mendable = isinstance(error, UserError)
            failure = {
                "reason": one_line(error),
                "mendable": mendable,
                "traceback": [] if mendable else traceback.format_exception(error),
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
        shutil.rmtree(dropped, ignore_errors=True)


def list_model_again(run: Run) -> None:
    """Where restored weights differ in their last bits, made on another machine, they are the run's from now
    on."""
    metrics = run.metrics()
    if "files" not in metrics or run.damage("model/") is None:
        return
    weights = [file for file in run.model.rglob("*") if file.is_file() and file.suffix != ".md"]
    others = {name: facts for name, facts in metrics["files"].items() if not name.startswith("model/")}
    write_json(run.metrics_file, {**metrics, "files": others | make_manifest(run.path, weights)})


def make_resumable(run: Run, config: TrainConfig) -> None:
    """See to it that `train(resume=True)` takes up whatever a killed process has left here."""
    if not run.path.exists():
        return
    if not run.config_file.is_file():
        shutil.rmtree(run.path)  # killed before anything was written that could be continued
    elif config.differences(TrainConfig.from_dict(run.config())):
        # The fingerprint says that it is the same run: only the places of files or the bins are others.
        write_yaml(run.config_file, config.as_dict())


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
