"""`--report-to`: what a run tells TensorBoard, Weights & Biases, MLflow and Trackio.

The Trainer's own callbacks report losses and the metrics of every epoch. They end with training, before the
temperature is fitted; `Tracker` holds their end back until the metrics of every split, uncalibrated and
calibrated, and the reliability diagrams are reported too:

    eval_validation/calibrated/ece, test_books/uncalibrated/nll_ci_low, reliability/books/calibrated

The callbacks but MLflow's write eval/ and test/ for eval_ and test_. A tracker that fails to start ends the
run before its first step; one that fails later is left out with one line, for hours of training are worth
more than their log.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import redirect_stdout
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

import numpy as np
from transformers import Trainer, TrainerCallback, integrations

from calmix.calibration.files.run_predictions import apply_calibrator, calibrator_of_run, predictions_of_run
from calmix.calibration.integrations.reliability_figure import reliability_figure
from calmix.io.run_directory import RunDirectory
from calmix.printable import say
from calmix.runtime.processes import is_first_process
from calmix.training.configuration import TrainConfig
from calmix.user_error import UserError, argument

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# In `transformers.integrations`.
CALLBACKS = {
    "tensorboard": "TensorBoardCallback",
    "wandb": "WandbCallback",
    "mlflow": "MLflowCallback",
    "trackio": "TrackioCallback",
}
STAGES = ("uncalibrated", "calibrated")
INTERVALS = ("accuracy_ci", "nll_ci", "brier_ci", "ece_ci")
"""Those of the other metrics are in metrics.json."""
POINTS = 0.01
"""Training losses are reported once in this share of all steps, unless `trainer:` says otherwise."""


def tracker_settings(config: TrainConfig, run: RunDirectory) -> dict[str, Any]:
    """Fields of the Trainer: to whom it reports, how often, and under which name.

    First stages and the runs of a comparison share all settings, and must not share a name.
    """
    parts = (config.trainer.get("run_name"), run.path.absolute().name, config.method, f"seed{config.seed}")
    return {
        "report_to": list(config.report_to),
        "logging_strategy": "steps" if config.report_to else "no",
        "logging_steps": POINTS,
        "run_name": "-".join(str(part) for part in parts if part is not None),
    }


class Trackers:
    """The trackers of one run, ended with it however it ends."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names = names
        self.open: list[Tracker] = []

    def attach(self, trainer: Trainer, run: RunDirectory) -> None:
        """Put a `Tracker` around each reporting callback of the Trainer."""
        for name in self.names:
            callback: Any = trainer.pop_callback(getattr(integrations, CALLBACKS[name]))
            if name == "tensorboard":
                callback.logging_dir = str(tensorboard_directory(run, str(trainer.args.run_name)))
            self.open.append(Tracker(name, callback))
            trainer.add_callback(self.open[-1])
        if self.names and find_spec("matplotlib") is None and is_first_process():
            say("reliability diagrams are not reported: no matplotlib; pip install 'calmix[figures]'")

    def report(self, trainer: Trainer, run: RunDirectory) -> None:
        """The metrics of a finished run and its reliability diagrams."""
        if not self.open or not trainer.is_world_process_zero():
            return
        metrics = run.metrics()
        logs = final_metrics(metrics)
        for tracker in self.open:
            tracker.on_log(trainer.args, trainer.state, trainer.control, logs=logs, model=trainer.model)
        if find_spec("matplotlib") is not None:
            for name, figure in diagrams(run, metrics):
                for tracker in self.open:
                    tracker.show(name, figure, trainer.state.global_step)

    def __enter__(self) -> Trackers:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end(failed=error is not None)

    def end(self, *, failed: bool) -> None:
        while self.open:
            self.open.pop().end(failed=failed)


class Tracker(TrainerCallback):
    """A reporting callback of the Trainer that stays open after training, and prints nothing to standard
    output, where the result of `--json` goes."""

    def __init__(self, name: str, callback: Any) -> None:
        self.name, self.callback = name, callback
        self.begun_with: tuple[tuple[Any, ...], dict[str, Any]] | None = None
        self.is_guest = False
        """Whether it reports to a run that the caller began, and will end."""
        self.is_lost = False

    def on_train_begin(self, *call: Any, **facts: Any) -> None:
        try:
            with redirect_stdout(sys.stderr):
                self.is_guest = self._has_active_run()
                self.begun_with = call, facts
                self.callback.on_train_begin(*call, **facts)
        except Exception as error:
            self.is_lost = True
            remedy = f"fix it, or leave {argument('report_to', self.name)} out"
            problem = f"{self.name} cannot be reported to: {in_one_line(error)}"
            raise UserError(problem, remedy=remedy) from error

    def on_log(self, *call: Any, **facts: Any) -> None:
        self._guard(lambda: self.callback.on_log(*call, **facts))

    def on_save(self, *call: Any, **facts: Any) -> None:
        self._guard(lambda: self.callback.on_save(*call, **facts))

    def show(self, name: str, figure: Figure, step: int) -> None:
        """Report a figure under reliability/."""
        self._guard(lambda: self._show(f"reliability/{name}", figure, step))

    def end(self, *, failed: bool) -> None:
        """What the callback does when training ends, and its run marked as finished or failed."""
        if self.begun_with is not None:
            self._guard(lambda: self._end(failed))

    def _show(self, tag: str, figure: Figure, step: int) -> None:
        if self.name == "tensorboard":
            self.callback.tb_writer.add_image(tag, pixels(figure), step, dataformats="HWC")
            return
        module: Any = import_module(self.name)
        if self.name == "mlflow":
            module.log_figure(figure, f"{tag}.png")
        else:  # wandb and trackio have the same interface
            module.log({tag: module.Image(pixels(figure)), "train/global_step": step})

    def _end(self, failed: bool) -> None:
        assert self.begun_with is not None
        call, facts = self.begun_with
        module: Any = import_module(self.name)
        if self.name == "mlflow":
            module.flush_async_logging()
            if failed and not self.is_guest:
                module.end_run("FAILED")
        self.callback.on_train_end(*call, **facts)
        if self.name == "wandb" and not self.is_guest:
            # The callback would leave it open, and the next run in this process would be added to it.
            module.finish(exit_code=int(failed))

    def _has_active_run(self) -> bool:
        if self.name == "wandb":
            return import_module("wandb").run is not None
        return self.name == "mlflow" and import_module("mlflow").active_run() is not None

    def _guard(self, report: Callable[[], None]) -> None:
        if self.is_lost:
            return
        try:
            with redirect_stdout(sys.stderr):
                report()
        except Exception as error:
            self.is_lost = True
            if is_first_process():
                say(f"{self.name} failed, and nothing more is reported to it: {in_one_line(error)}")


def tensorboard_directory(run: RunDirectory, name: str) -> Path:
    """In the run, or in the directory for all runs that the Trainer's own variable names."""
    shared = os.environ.get("TENSORBOARD_LOGGING_DIR")
    return Path(shared).expanduser() / name if shared else run.tensorboard.absolute()


def final_metrics(metrics: Mapping[str, Any]) -> dict[str, float]:
    """The numbers of every split by the names that trackers sort them under.

    >>> ece = {"n": 2, "ece": 0.1, "ece_ci": [0.0, 0.3], "in_sample": True}
    >>> final_metrics({"temperature": 1.5, "splits": {"validation": {"calibrated": ece}}})
    ... # doctest: +NORMALIZE_WHITESPACE
    {'eval_validation/temperature': 1.5, 'eval_validation/calibrated/n': 2.0,
     'eval_validation/calibrated/ece': 0.1, 'eval_validation/calibrated/ece_ci_low': 0.0,
     'eval_validation/calibrated/ece_ci_high': 0.3}
    """
    found = {}
    if "temperature" in metrics:
        found["eval_validation/temperature"] = float(metrics["temperature"])
    for split, stages in metrics["splits"].items():
        place = f"{'eval' if split == 'validation' else 'test'}_{split}"
        for stage in STAGES:
            for name, value in stages.get(stage, {}).items():
                names = (f"{name}_low", f"{name}_high") if name in INTERVALS else (name,)
                for key, number in zip(names, value if name in INTERVALS else (value,), strict=True):
                    if isinstance(number, int | float) and not isinstance(number, bool):
                        found[f"{place}/{stage}/{key}"] = float(number)
    return found


def diagrams(run: RunDirectory, metrics: Mapping[str, Any]) -> Iterator[tuple[str, Figure]]:
    """The reliability diagrams of every split, before and after calibration; several labels have none."""
    if metrics.get("multi_label"):
        return
    calibrator = calibrator_of_run(run, metrics)
    binning: dict[str, Any] = {"bins": metrics["ece_bins"], "closed": metrics["ece_edges"]}
    for split in metrics["splits"]:
        predictions = predictions_of_run(run, split)
        stages = (predictions, apply_calibrator(calibrator, predictions))
        for stage, given in zip(STAGES, stages, strict=True):
            title = f"{split}, {stage}"
            yield f"{split}/{stage}", reliability_figure(given, title=title, **binning)


def pixels(figure: Figure) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """[height, width, RGB]"""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    canvas: Any = FigureCanvasAgg(figure)
    canvas.draw()
    return np.asarray(canvas.buffer_rgba())[..., :3].copy()


def in_one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:300] or type(error).__name__
