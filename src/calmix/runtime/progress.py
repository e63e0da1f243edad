"""Progress on standard error: a bar on a terminal, plain lines otherwise. Standard output stays clean."""

from __future__ import annotations

import time
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bars
from transformers import PrinterCallback, ProgressCallback, Trainer, TrainerCallback
from transformers.utils import logging as transformers_logging

from calmix.printable import printable, say

SECONDS_BETWEEN_LINES = 15.0


def silence_transformers() -> None:
    """No bars and no remarks of transformers; calmix prints what matters."""
    transformers_logging.set_verbosity_error()
    transformers_logging.disable_progress_bar()


def quiet(trainer: Trainer) -> None:
    """Without the Trainer's own printing, which goes to standard output."""
    trainer.remove_callback(PrinterCallback)
    trainer.remove_callback(ProgressCallback)


class Progress(TrainerCallback):
    """Steps done, the running epoch, and what each evaluation found."""

    def __init__(self, title: str) -> None:
        self.title = title
        self.console = Console(stderr=True)
        self.bars: Bars | None = None
        self.task: Any = None
        self.said_at = time.monotonic()

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if not state.is_world_process_zero:
            return
        if self.console.is_terminal:
            self.bars = Bars(
                TextColumn("{task.description}"),
                BarColumn(),
                MofNCompleteColumn(),
                TimeRemainingColumn(),
                console=self.console,
                transient=True,
            )
            self.bars.start()
            self.task = self.bars.add_task(self.title, total=state.max_steps, completed=state.global_step)

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if self.bars is not None:
            self.bars.update(self.task, completed=state.global_step)
        elif state.is_world_process_zero and time.monotonic() - self.said_at > SECONDS_BETWEEN_LINES:
            self.say(f"{self.title}: step {state.global_step} of {state.max_steps}")

    def on_evaluate(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        metrics = kwargs.get("metrics") or {}
        if state.is_world_process_zero and "eval_nll_calibrated" in metrics:
            right, scaling = "accuracy", "temperature"
            if "eval_subset_accuracy" in metrics:  # of rows with several labels
                right, scaling = "subset accuracy", "scaling"
            share = metrics[f"eval_{right.replace(' ', '_')}"]
            self.say(
                f"{self.title}: epoch {round(state.epoch or 0)}, validation {right} {share:.1%}, NLL "
                f"{metrics['eval_nll']:.4f}, after {scaling} {metrics['eval_nll_calibrated']:.4f}"
            )

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.stop()

    def stop(self) -> None:
        """Take the bar away and give the terminal its cursor back, also after an interrupt."""
        if self.bars is not None:
            self.bars.stop()
            self.bars = None

    def say(self, line: str) -> None:
        self.said_at = time.monotonic()
        if self.bars is not None:
            self.bars.console.print(printable(line), highlight=False, markup=False)
        else:
            say(line)
