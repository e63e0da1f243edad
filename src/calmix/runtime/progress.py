"""Progress on standard error: a bar on a terminal, plain lines otherwise. Standard output stays clean."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
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


class Bar:
    """A bar on a terminal; elsewhere nothing is drawn, and lines are due now and then."""

    def __init__(self, title: str) -> None:
        self.title = title
        self.console = Console(stderr=True)
        self.bars: Bars | None = None
        self.task: Any = None
        self.said_at = time.monotonic()

    def start(self, total: int, completed: int = 0) -> None:
        if self.console.is_terminal:
            self.bars = Bars(
                TextColumn("{task.description}", markup=False),
                BarColumn(),
                MofNCompleteColumn(),
                TimeRemainingColumn(),
                console=self.console,
                transient=True,
            )
            self.bars.start()
            self.task = self.bars.add_task(self.title, total=total, completed=completed)

    def show(self, completed: int, line: str) -> None:
        """Move the bar; without one, the line, if the last one was some time ago."""
        if self.bars is not None:
            self.bars.update(self.task, completed=completed)
        elif time.monotonic() - self.said_at > SECONDS_BETWEEN_LINES:
            self.say(f"{self.title}: {line}")

    def say(self, line: str) -> None:
        self.said_at = time.monotonic()
        if self.bars is not None:
            self.bars.console.print(printable(line), highlight=False, markup=False)
        else:
            say(line)

    def stop(self) -> None:
        """Take the bar away and give the terminal its cursor back, also after an interrupt."""
        if self.bars is not None:
            self.bars.stop()
            self.bars = None


class Progress(Bar, TrainerCallback):
    """Steps done, the running epoch, and what each evaluation found."""

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if state.is_world_process_zero:
            self.start(state.max_steps, state.global_step)

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if state.is_world_process_zero:
            self.show(state.global_step, f"step {state.global_step} of {state.max_steps}")

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


class RowProgress(Bar):
    """Counts predicted rows; says nothing on work that is done within a few seconds, but for the bar."""

    def __init__(self, title: str, total: int) -> None:
        super().__init__(title)
        self.total, self.done = total, 0
        self.start(total)

    def advance(self, rows: int) -> None:
        self.done += rows
        self.show(self.done, f"{self.done:,} of {self.total:,} rows")


@contextmanager
def counting_rows(title: str, total: int) -> Iterator[RowProgress]:
    """The bar is taken away at the end, also after an interrupt."""
    progress = RowProgress(title, total)
    try:
        yield progress
    finally:
        progress.stop()
