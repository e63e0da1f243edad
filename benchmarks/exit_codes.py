"""Whether a refused file always ends the process with exit code 2: a thread of a parser that outlives the
interpreter would end some calls with 134 (abort) or 139.

    python -m benchmarks.exit_codes [--calls 500]

Calls `calmix evaluate FILE` so often for every kind of damaged file, each in a process of its own that
ends as the command line does, and writes benchmarks/results/exit_codes.json. The tests do the same with
fewer calls (tests/io/test_exit_codes.py). Processes are forked, so this runs on Linux and macOS.
"""

from __future__ import annotations

import argparse
import gzip
import importlib
import json
import os
import shutil
import tempfile
from collections import Counter
from pathlib import Path

RESULTS = Path(__file__).parent / "results" / "exit_codes.json"
ROWS = b"0,.5,.5\n" * 20_000
FILES = {
    "uneven.csv": b"label,prob_0,prob_1\n" + ROWS + b"0,.5\n",
    "unclosed.csv": b'label,prob_0,prob_1\n0,.5,".5\n' + ROWS,
    "word.csv": b"label,prob_0,prob_1\n" + ROWS + b"0,x\xe9,.5\n",
    "early.csv": b"label,prob_0,prob_1\n0,.5\n" + ROWS,
    "torn.csv.gz": gzip.compress(b"label,prob_0,prob_1\n" + ROWS, mtime=0)[:200],
    "null.jsonl": b'{"label": 0, "probs": [0.5, 0.5]}\n' * 20_000 + b"null\n",
    "torn.parquet": b"PAR1" + b"\xff" * 10_000 + b"PAR1",
    "torn.npz": b"PK\x03\x04" + b"\xff" * 10_000,
}


def exit_code(file: Path) -> int:
    """Of `calmix evaluate FILE` in a process of its own."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    from calmix.cli.app import main

    silent = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silent, 1)
    os.dup2(silent, 2)
    main(["evaluate", str(file)])
    raise SystemExit(0)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--calls", type=int, default=500)
    calls = parser.parse_args().calls
    importlib.import_module("calmix.cli.evaluate")  # once, not in every process
    found = {}
    folder = Path(tempfile.mkdtemp())  # no context: it would end in every process
    for name, content in FILES.items():
        (folder / name).write_bytes(content)
        codes = Counter(exit_code(folder / name) for _ in range(calls))
        found[name] = {str(code): count for code, count in sorted(codes.items())}
        print(f"{name}: {found[name]}" + (" MISSED" if set(codes) != {2} else ""), flush=True)
    shutil.rmtree(folder)
    command = f"python -m benchmarks.exit_codes --calls {calls}"
    RESULTS.write_text(json.dumps({"command": command, "calls": calls, "exit_codes": found}, indent=1) + "\n")


if __name__ == "__main__":
    main()
