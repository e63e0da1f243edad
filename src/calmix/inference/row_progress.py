"""Progress of predicting rows, on standard error: a bar on a terminal, plain lines otherwise."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

SECONDS_BETWEEN_LINES = 15.0


class RowProgress:
    """Counts rows; says nothing on work that is done within a few seconds, but for the bar of a terminal."""

    def __init__(self, title: str, total: int) -> None:
        from rich.console import Console

        self.title, self.total, self.done = title, total, 0
        self.said_at = time.monotonic()
        self.console = Console(stderr=True)
        self.bars: Any = None
        self.task: Any = None
        if self.console.is_terminal:
            from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

            self.bars = Progress(
                TextColumn("{task.description}", markup=False),
                BarColumn(),
                MofNCompleteColumn(),
                TimeRemainingColumn(),
                console=self.console,
                transient=True,
            )
            self.bars.start()
            self.task = self.bars.add_task(title, total=total)

    def advance(self, rows: int) -> None:
        self.done += rows
        if self.bars is not None:
            self.bars.update(self.task, completed=self.done)
        elif time.monotonic() - self.said_at > SECONDS_BETWEEN_LINES:
            self.said_at = time.monotonic()
            print(f"{self.title}: {self.done:,} of {self.total:,} rows", file=sys.stderr, flush=True)

    def stop(self) -> None:
        if self.bars is not None:
            self.bars.stop()
            self.bars = None


@contextmanager
def counting_rows(title: str, total: int) -> Iterator[RowProgress]:
    """The bar is taken away at the end, also after an interrupt."""
    progress = RowProgress(title, total)
    try:
        yield progress
    finally:
        progress.stop()
