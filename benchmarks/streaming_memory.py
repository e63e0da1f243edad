"""How much memory `calmix evaluate` takes for a file that does not fit it: peak and seconds.

    python benchmarks/streaming_memory.py [--rows 20000000] [--classes 2]

Writes a parquet file of predictions to a temporary folder, evaluates it with intervals in a fresh process and
checks the answer: the predictions are drawn so that half of the rows are calibrated and half overconfident.
Writes `benchmarks/results/streaming.json`.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet

RESULTS = Path(__file__).parent / "results" / "streaming.json"
GOAL_BYTES = 2 * 2**30
CHUNK = 1_000_000


def draw(generator: np.random.Generator, rows: int, classes: int) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities and labels; the labels of every second row are drawn from flatter probabilities."""
    logits = generator.normal(scale=2.0, size=(rows, classes))
    truth = logits * np.where(np.arange(rows) % 2, 0.5, 1.0)[:, None]
    stated, true = (softmax(values) for values in (logits, truth))
    labels = (generator.random((rows, 1)) > np.cumsum(true, axis=1)[:, :-1]).sum(axis=1)
    return stated.astype(np.float32), labels


def softmax(logits: np.ndarray) -> np.ndarray:
    exponentials = np.exp(logits - logits.max(axis=1, keepdims=True))
    return exponentials / exponentials.sum(axis=1, keepdims=True)


def write_file(file: Path, rows: int, classes: int) -> float:
    """Write the predictions in chunks; the ECE of all of them over 15 bins, added up alongside."""
    generator = np.random.default_rng(0)
    residual = np.zeros(15)
    writer: pa.parquet.ParquetWriter | None = None
    for start in range(0, rows, CHUNK):
        stated, labels = draw(generator, min(CHUNK, rows - start), classes)
        columns = {"label": labels} | {f"prob_{k}": stated[:, k] for k in range(classes)}
        table = pa.table(columns)
        writer = writer or pa.parquet.ParquetWriter(file, table.schema)
        writer.write_table(table)
        confidence = stated.max(axis=1).astype(np.float64)
        cell = np.searchsorted(np.arange(1, 15) / 15, confidence, side="left")
        residual += np.bincount(cell, weights=(stated.argmax(axis=1) == labels) - confidence, minlength=15)
    assert writer is not None
    writer.close()
    return float(np.abs(residual).sum() / rows)


class Usage(NamedTuple):
    seconds: float
    cpu_seconds: float
    peak_bytes: int


def run_measured(command: list[str], output: Path) -> Usage:
    """What a fresh process takes that writes to `output`."""
    start = time.perf_counter()
    redirect = [(os.POSIX_SPAWN_OPEN, 1, str(output), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)]
    process = os.posix_spawn(command[0], command, os.environ, file_actions=redirect)
    _, status, usage = os.wait4(process, 0)
    if os.waitstatus_to_exitcode(status):
        raise SystemExit(f"failed: {' '.join(command)}")
    return Usage(time.perf_counter() - start, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024)


def measure(rows: int, classes: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        file, output = Path(folder) / "predictions.parquet", Path(folder) / "result.json"
        expected = write_file(file, rows, classes)
        command = [sys.executable, "-m", "calmix", "evaluate", str(file), "--json"]
        used = run_measured(command, output)
        size = file.stat().st_size
        result = json.loads(output.read_text())["files"][0]
    if result["n"] != rows or abs(result["ece"] - expected) > 1e-9:
        raise SystemExit(f"wrong: ECE {result['ece']} of {result['n']} rows where {expected} is right")
    low, high = result["ece_ci"]
    return {
        "rows": rows,
        "classes": classes,
        "file_bytes": size,
        "seconds": used.seconds,
        "peak_bytes": used.peak_bytes,
        "peak_goal_bytes": GOAL_BYTES,
        "ece": result["ece"],
        "ece_ci": [low, high],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=20_000_000)
    parser.add_argument("--classes", type=int, default=2)
    options = parser.parse_args()
    found = measure(options.rows, options.classes)
    low, high = found["ece_ci"]
    print(
        f"{found['rows']:,} rows of {found['classes']} classes, {found['file_bytes'] / 2**20:.0f} MiB: ",
        end="",
    )
    print(f"peak {found['peak_bytes'] / 2**30:.2f} GiB (goal 2), {found['seconds']:.0f} s, ", end="")
    print(f"ECE {found['ece']:.5f} [{low:.5f}, {high:.5f}]")
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(found, indent=2) + "\n")
    if found["peak_bytes"] > GOAL_BYTES:
        raise SystemExit("the peak is above its goal")


if __name__ == "__main__":
    main()
