"""Ctrl-C and SIGTERM: one line that says how to continue, and the exit code that shells expect."""

from __future__ import annotations

import atexit
import os
import signal
import threading
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

from calmix.io.run_directory import RunDirectory
from calmix.runtime.processes import is_alone

INTERRUPTED, TERMINATED = 130, 143  # 128 + the number of the signal


class Terminated(BaseException):
    """SIGTERM, raised where the program stands, so that it ends as it does after Ctrl-C."""


def raise_on_signals() -> None:
    """Let SIGINT and SIGTERM unwind the program. SIGTERM not in one of several processes: their launcher ends
    them together."""
    if threading.current_thread() is not threading.main_thread():
        return
    if signal.getsignal(signal.SIGINT) != signal.SIG_IGN:  # as in a background job of a shell
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if is_alone():
        signal.signal(signal.SIGTERM, _terminate)


def leave_on_signals(code: int) -> None:
    """The command has ended: a signal from here on ends the process with its exit code, without a message."""
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGINT, signal.SIGTERM):
            if signal.getsignal(number) != signal.SIG_IGN:
                signal.signal(number, lambda *_: os._exit(code))
        atexit.register(_ignore_signals)


def _ignore_signals() -> None:
    """Python takes its handlers back before it frees what torch holds: a signal in that time would kill a
    process whose work is done."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)


def _terminate(number: int, frame: FrameType | None) -> None:
    raise Terminated


def how_to_continue(arguments: Sequence[str]) -> str:
    """What to type after an interruption, by the verb and its output.

    >>> how_to_continue(["reproduce", "tdmixup/table2", "--output", "out"])
    'finished runs are kept: repeat the same command to continue'
    >>> how_to_continue(["evaluate", "predictions.csv"])
    'nothing was written'
    """
    verb = next(iter(arguments), "")
    if verb in ("compare", "demo", "reproduce"):
        return "finished runs are kept: repeat the same command to continue"
    output = _output(arguments)
    if verb in ("train", "distill"):
        if output is None:
            return "continue with --resume"
        run = RunDirectory(Path(output))
        if run.config_file.is_file() and not run.is_finished:
            return f"continue with 'calmix train --resume --output {output}'"
        if run.is_finished:
            return f"the run is finished: {output}"
        return "nothing was trained yet: repeat the same command"
    return "nothing was written"


def _output(arguments: Sequence[str]) -> str | None:
    """The value of `--output`, as two words or as one.

    >>> _output(["train", "--output", "run"]), _output(["train", "--output=run"]), _output(["train"])
    ('run', 'run', None)
    """
    for place, argument in enumerate(arguments):
        if argument.startswith("--output="):
            return argument.removeprefix("--output=")
        if argument == "--output" and place + 1 < len(arguments):
            return arguments[place + 1]
    return None
