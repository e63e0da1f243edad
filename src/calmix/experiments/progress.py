"""Progress of a comparison on standard error: a bar on a terminal, plain lines otherwise."""

from __future__ import annotations

import os
import statistics
import time
from pathlib import Path
from typing import Any

from calmix.printable import duration, printable, say

SECONDS_BETWEEN_LINES = 60.0
TAIL_BYTES = 400
BAR_WIDTH = 24
# Running cells whose last words are shown.
MOST_LINES = 4


class CellProgress:
    """How many runs are done, which ones run, and about how long the rest will take."""

    def __init__(self, total: int, finished: int, workers: int, past_seconds: list[float]) -> None:
        from rich.console import Console

        self.total, self.finished, self.workers = total, finished, workers
        self.seconds = list(past_seconds)
        self.running: dict[str, tuple[str, Path, float]] = {}
        self.said_at = time.monotonic()
        self.console = Console(stderr=True)
        self.bar: Any = None
        self.bar_task: Any = None
        if self.console.is_terminal and finished < total:
            self._open_bar()

    def _open_bar(self) -> None:
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

        self.bar = Progress(
            BarColumn(bar_width=BAR_WIDTH),
            MofNCompleteColumn(),
            TextColumn("{task.description}", markup=False),
            console=self.console,
            transient=True,
        )
        self.bar_task = self.bar.add_task("", total=self.total, completed=self.finished)
        self.bar.start()

    def start(self, key: str, title: str, log: Path) -> None:
        self.running[key] = (title, log, time.monotonic())
        self.look()

    def end(self, key: str, *, seconds: float, reason: str | None) -> None:
        title, _, _ = self.running.pop(key)
        self.finished += 1
        if reason is None:
            self.seconds.append(seconds)
        left = time_left(self.seconds, self.total - self.finished, self.workers)
        ending = f"done in {duration(seconds)}" if reason is None else f"FAILED: {reason}"
        self.say(f"[{self.finished}/{self.total}] {title}: {ending}{f'; {left}' if left else ''}")

    def look(self) -> None:
        """Show the last line of the running cells."""
        if self.bar is not None:
            left = time_left(self.seconds, self.total - self.finished, self.workers)
            lines = [f"{title}: {last_line(log)}" for title, log, _ in self.running.values()]
            width = max(self.console.width - BAR_WIDTH - 12, 20)
            shown = [line if len(line) <= width else f"{line[: width - 1]}…" for line in lines[:MOST_LINES]]
            description = "\n".join([left or "no estimate yet", *shown])
            self.bar.update(self.bar_task, completed=self.finished, description=description)
        elif time.monotonic() - self.said_at > SECONDS_BETWEEN_LINES:
            for title, log, since in self.running.values():
                self.say(f"{title}: since {duration(time.monotonic() - since)}; {last_line(log)}")

    def say(self, line: str) -> None:
        self.said_at = time.monotonic()
        if self.bar is not None:
            self.bar.console.print(printable(line), soft_wrap=True, highlight=False, markup=False)
        else:
            say(line)

    def close(self) -> None:
        if self.bar is not None:
            self.bar.stop()
            self.bar = None


def time_left(seconds: list[float], cells: int, workers: int) -> str:
    """The median of the finished cells times the rest.

    >>> time_left([50.0, 60.0, 400.0], 6, 2)
    'about 3 min left'
    """
    if not seconds or not cells:
        return ""
    return f"about {duration(statistics.median(seconds) * cells / max(min(workers, cells), 1))} left"


def last_line(log: Path) -> str:
    """The last line of a growing file without the title before its colon."""
    try:
        with log.open("rb") as file:
            file.seek(0, os.SEEK_END)
            file.seek(max(file.tell() - TAIL_BYTES, 0))
            lines = file.read().decode(errors="replace").strip().splitlines()
    except OSError:
        return "starting"
    return lines[-1].partition(": ")[2] or lines[-1] if lines else "starting"
