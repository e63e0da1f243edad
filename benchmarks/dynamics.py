"""How fast the dynamics are: the map against a cartography-style one, the recorder's own time, memory.

    python benchmarks/dynamics.py [--rows 550000] [--epochs 6] [--classes 3]

Both maps start from logits in memory, each in its own form, on the same machine in the same run, and must
agree. Memory is the peak of a fresh process minus what it held after loading, at three sizes.
Writes `benchmarks/results/dynamics.json`.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from calmix.dynamics.datamap import DataMap
from calmix.dynamics.recorder import DynamicsRecorder
from calmix.dynamics.training_dynamics import TrainingDynamics

RESULTS = Path(__file__).parent / "results" / "dynamics.json"
MAP_GOAL = 1 / 50


def random_logits(rows: int, epochs: int, classes: int) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(0)
    logits = generator.normal(scale=2, size=(rows, epochs, classes)).astype(np.float32)
    return logits, generator.integers(0, classes, rows)


def seconds(function: Any, *arguments: Any) -> tuple[float, Any]:
    start = time.perf_counter()
    result = function(*arguments)
    return time.perf_counter() - start, result


def our_map(logits: np.ndarray, labels: np.ndarray) -> DataMap:
    return DataMap.from_dynamics(TrainingDynamics.from_logits(logits, labels))


def measure_map(rows: int, epochs: int, classes: int) -> dict[str, Any]:
    from benchmarks.cartography_reference import cartography_map, records_from_logits

    logits, labels = random_logits(rows, epochs, classes)
    ours_first, datamap = seconds(our_map, logits, labels)
    before = [ours_first] + [seconds(our_map, logits, labels)[0] for _ in range(2)]
    records = records_from_logits(logits, labels, [f"train-{row + 1}" for row in range(rows)])
    theirs, frame = seconds(cartography_map, records)
    del records
    # On either side of the long run, so that a slower spell of the machine meets both.
    ours = median(before + [seconds(our_map, logits, labels)[0] for _ in range(3)])
    regions, _ = seconds(datamap.regions)
    differences = {
        name: float(np.abs(getattr(datamap, name) - frame[name].to_numpy()).max())
        for name in ("confidence", "variability", "correctness", "aum")
    }
    if max(differences.values()) > 1e-5:  # theirs is a float32 softmax
        raise SystemExit(f"the two maps disagree: {differences}")
    return {
        "rows": rows,
        "epochs": epochs,
        "classes": classes,
        "calmix_seconds": ours,
        "cartography_style_seconds": theirs,
        "ratio": ours / theirs,
        "ratio_goal": MAP_GOAL,
        "regions_seconds": regions,
        "largest_differences": differences,
    }


def measure_recorder(rows: int = 100_000, steps: int = 2000) -> list[dict[str, Any]]:
    """Median microseconds of one step, by position and by id."""
    found = []
    generator = np.random.default_rng(0)
    for classes in range(2, 8):
        for batch in (16, 32):
            labels = generator.integers(0, classes, rows)
            ids = np.array([f"train-{row + 1}" for row in range(rows)])
            recorder = DynamicsRecorder(ids, labels, epochs=3, num_classes=classes)
            logits = generator.normal(size=(batch, classes)).astype(np.float32)
            times: dict[str, list[float]] = {"position": [], "id": []}
            for _ in range(steps):
                where = generator.integers(0, rows, batch)
                times["position"].append(seconds(recorder.record_positions, where, logits)[0])
                times["id"].append(seconds(recorder.record, ids[where], logits)[0])
            found.append(
                {"batch": batch, "classes": classes}
                | {f"microseconds_by_{way}": 1e6 * median(spent) for way, spent in times.items()}
            )
    return found


def resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def peak_of_this_process(rows: int, epochs: int, classes: int) -> int:
    logits, labels = random_logits(rows, epochs, classes)
    loaded = resident_bytes()
    our_map(logits, labels)
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - loaded


def measure_memory(rows: int, epochs: int, classes: int) -> list[dict[str, Any]]:
    found = []
    for size in (rows // 4, rows // 2, rows):
        command = [sys.executable, __file__, "--peak", str(size), str(epochs), str(classes)]
        peak = int(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        found.append({"rows": size, "peak_bytes": peak, "peak_bytes_per_row": peak / size})
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=550_000)
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--classes", type=int, default=3)
    parser.add_argument("--peak", type=int, nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.peak:
        print(peak_of_this_process(*options.peak))
        return
    shape = (options.rows, options.epochs, options.classes)

    memory = measure_memory(*shape)
    for one in memory:
        print(f"memory   {one['rows']:>8,} rows: {one['peak_bytes'] / 2**20:7.1f} MiB, ", end="")
        print(f"{one['peak_bytes_per_row']:.0f} bytes a row")
    recorder = measure_recorder()
    for one in recorder:
        print(f"recorder batch {one['batch']:>2}, {one['classes']} classes: ", end="")
        print(f"{one['microseconds_by_position']:6.1f} us a step by position, ", end="")
        print(f"{one['microseconds_by_id']:6.1f} us by id")
    datamap = measure_map(*shape)
    print(
        f"map      {shape[0]:,} rows x {shape[1]} epochs: {datamap['calmix_seconds']:.2f} s against ", end=""
    )
    print(f"{datamap['cartography_style_seconds']:.1f} s, 1/{1 / datamap['ratio']:.0f} of the time", end="")
    print(f" (goal 1/{1 / MAP_GOAL:.0f}); regions {datamap['regions_seconds']:.2f} s more")

    RESULTS.parent.mkdir(exist_ok=True)
    content = {"map": datamap, "recorder": recorder, "memory": memory}
    RESULTS.write_text(json.dumps(content, indent=2) + "\n")
    if datamap["ratio"] > MAP_GOAL:
        raise SystemExit("the map misses its goal")


if __name__ == "__main__":
    main()
