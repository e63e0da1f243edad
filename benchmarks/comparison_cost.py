"""A comparison of small runs beside as many separate calls of `calmix train`.

    python -m benchmarks.comparison_cost               12 runs of 200 film reviews
    python -m benchmarks.comparison_cost --seeds 1     4 runs: minutes
    python -m benchmarks.comparison_cost --work DIR    continues: a call that has ended is not made again
    python -m benchmarks.comparison_cost --model DIR --rows 32 --seeds 1    a trial; no result is written

Four methods under several seeds, one worker, one thread: what a comparison saves is what its worker keeps
from one run to the next (imports, compiled kernels, files that were read), and first stages that it shares.
CPU seconds of all processes together are compared, which other programs disturb least; wall seconds stand
beside them.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.training import read_texts

RESULTS = Path(__file__).parent / "results" / "comparison_cost.json"
METHODS = ("plain", "cls-mixup", "input-mixup", "aum-saliency")
ROWS, GOAL = 200, 0.6
SETTINGS = ("--epochs", "2", "--learning-rate", "1e-4", "--device", "cpu")


def measured(commands: dict[str, list[str]], folder: Path) -> dict[str, float]:
    """CPU and wall seconds of some calls, one after the other, with a cache of their own.

    What each took is kept in the folder. What a call that was cut off has left is removed first.
    """
    # One thread each: what is compared is work, not how well it spreads.
    surroundings = {**os.environ, "OMP_NUM_THREADS": "1", "CALMIX_CACHE": str(folder / "cache")}
    total = {"cpu_seconds": 0.0, "wall_seconds": 0.0}
    folder.mkdir(parents=True, exist_ok=True)
    for name, command in commands.items():
        output, kept = folder / name, folder / f"{name}.json"
        if not kept.is_file():
            shutil.rmtree(output, ignore_errors=True)
            before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
            whole = [sys.executable, "-m", "calmix", *command, "--output", str(output)]
            subprocess.run(whole, check=True, env=surroundings, capture_output=True)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
            kept.write_text(json.dumps({"cpu_seconds": cpu, "wall_seconds": time.perf_counter() - started}))
            print(f"{folder.name}: {name} {cpu:.1f} CPU seconds", flush=True)
        total = {key: total[key] + seconds for key, seconds in json.loads(kept.read_text()).items()}
    return total


def write_rows(folder: Path, count: int) -> list[str]:
    named = dict(zip(("train", "validation"), read_texts("single", count), strict=True))
    for name, rows in named.items():
        pairs = zip(rows.texts(), rows.labels.tolist(), strict=True)
        lines = [json.dumps({"text": text, "label": label}) for text, label in pairs]
        (folder / f"{name}.jsonl").write_text("\n".join(lines) + "\n")
    return ["--train", str(folder / "train.jsonl"), "--validation", str(folder / "validation.jsonl")]


def compare(seeds: int, folder: Path, rows: int, model: str) -> dict[str, Any]:
    shared = [*write_rows(folder, rows), "--model", model, *SETTINGS]
    separate = {
        f"{method}-{seed}": ["train", *shared, "--method", method, "--seed", str(seed)]
        for seed in range(seeds)
        for method in METHODS
    }
    arms = ["--methods", ",".join(METHODS), "--seeds", ",".join(map(str, range(seeds)))]
    together = {f"comparison-{seeds}": ["compare", *shared, *arms, "--workers", "1"]}
    found = {
        "comparison": measured(together, folder / "one"),
        "separate": measured(separate, folder / "many"),
    }
    ratio = found["comparison"]["cpu_seconds"] / found["separate"]["cpu_seconds"]
    return {
        "runs": len(separate),
        "rows": rows,
        **found,
        "ratio_of_cpu_seconds": ratio,
        "ratio_of_wall_seconds": found["comparison"]["wall_seconds"] / found["separate"]["wall_seconds"],
        "goal": GOAL,
        "verdict": "reached" if ratio <= GOAL else "missed",
        "load_average": os.getloadavg(),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=3, help="four runs for each")
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--model", default="default")
    parser.add_argument("--work", type=Path, help="where calls that have ended are kept")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as fresh:
        folder = Path(fresh) if given.work is None else given.work.resolve()
        folder.mkdir(parents=True, exist_ok=True)
        found = compare(given.seeds, folder, given.rows, given.model)
    if (given.rows, given.model) == (ROWS, "default"):
        content = json.loads(RESULTS.read_text()) if RESULTS.is_file() else {}
        content[f"{found['runs']} runs"] = found
        RESULTS.write_text(json.dumps(content, indent=2) + "\n")
    print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
