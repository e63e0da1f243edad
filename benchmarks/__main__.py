"""Run the benchmarks of this folder one after the other, each in a process of its own.

    python -m benchmarks                     all of them
    python -m benchmarks calibrators steps   some

A benchmark that misses a goal says MISSED or ends with an error; the closing summary repeats which.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from pathlib import Path

FOLDER = Path(__file__).resolve().parent


def names() -> list[str]:
    """The modules here, but for those that only hold what a benchmark compares with."""
    modules = sorted(path.stem for path in FOLDER.glob("*.py"))
    return [name for name in modules if not name.startswith("_") and not name.endswith("_reference")]


def run(name: str) -> tuple[bool, list[str]]:
    """Run one, passing its output on: whether all its goals hold, and the lines that say otherwise."""
    process = subprocess.Popen(
        [sys.executable, "-u", "-m", f"{FOLDER.name}.{name}"],
        cwd=FOLDER.parent,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    lines = []
    assert process.stdout is not None
    for line in process.stdout:
        print(line, end="", flush=True)
        lines.append(line.strip())
    missed = [line for line in lines if "MISSED" in line]
    if process.wait() != 0:
        missed.append(lines[-1] if lines else f"ended with exit code {process.returncode}")
    return not missed, missed


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(names())}; all by default")
    chosen = parser.parse_args().names or names()
    if unknown := [name for name in chosen if name not in names()]:
        parser.error(f"no benchmark {unknown[0]}; there are {', '.join(names())}")
    summary = []
    for name in chosen:
        print(f"== {name}", flush=True)
        started = time.perf_counter()
        holds, missed = run(name)
        summary.append((name, holds, missed, time.perf_counter() - started))
        print(flush=True)
    print("== summary")
    for name, holds, missed, seconds in summary:
        print(f"{name:24s} {'goals hold' if holds else 'MISSED':12s} {seconds:6.0f} s")
        for line in missed:
            print(f"    {line}")
    if not all(holds for _, holds, _, _ in summary):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
