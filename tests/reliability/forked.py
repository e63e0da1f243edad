"""A `calmix` command in a fork of this process: as a shell starts it, but torch is loaded already.

It has the interface of `subprocess.Popen` as far as the soak uses it.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
import traceback

SIGNALS = {signal.SIGINT, signal.SIGTERM}


class Forked:
    """`calmix ARGUMENTS`, started now."""

    def __init__(self, arguments: list[str], environment: dict[str, str]) -> None:
        sys.stdout.flush()
        sys.stderr.flush()
        reading, writing = os.pipe()
        # A signal that comes before the command listens waits for it.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
        self.pid = os.fork()
        if self.pid == 0:
            os.close(reading)
            run_as_command(arguments, environment, writing)
        os.close(writing)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        self.returncode: int | None = None
        self.parts: list[bytes] = []
        self.reader = threading.Thread(target=self.drain, args=(reading,), daemon=True)
        self.reader.start()

    def drain(self, reading: int) -> None:
        with os.fdopen(reading, "rb") as stream:
            self.parts += stream

    def wait(self, timeout: float) -> int:
        until = time.monotonic() + timeout
        while self.returncode is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.returncode = os.waitstatus_to_exitcode(status)
            elif time.monotonic() > until:
                raise subprocess.TimeoutExpired("calmix", timeout)
            else:
                time.sleep(0.002)
        return self.returncode

    def send_signal(self, number: signal.Signals) -> None:
        os.kill(self.pid, number)

    def communicate(self, timeout: float) -> tuple[None, str]:
        """Wait for its end, and for that of the processes it has started: they have its standard error."""
        self.wait(timeout)
        self.reader.join(timeout)
        return None, b"".join(self.parts).decode(errors="replace")


def run_as_command(arguments: list[str], environment: dict[str, str], error: int) -> None:
    """What a shell would start, in this process, which ends with it."""
    code = 1
    try:
        nowhere = os.open(os.devnull, os.O_RDWR)
        for source, target in ((nowhere, 0), (nowhere, 1), (error, 2)):
            os.dup2(source, target)
        sys.stdout, sys.stderr = os.fdopen(1, "w"), os.fdopen(2, "w")
        os.environ.clear()
        os.environ.update(environment)
        sys.argv = ["calmix", *arguments]
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
        from calmix.__main__ import main

        main()
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)
