"""A comparison of small runs beside as many separate calls of `calmix train`.

    python -m benchmarks.comparison_cost               12 runs of 200 film reviews
    python -m benchmarks.comparison_cost --seeds 1     4 runs: minutes

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


def measured(commands: list[list[str]], folder: Path) -> dict[str, float]:
    """CPU and wall seconds of some calls, one after the other, with a cache of their own."""
    # One thread each: what is compared is work, not how well it spreads.
    surroundings = {**os.environ, "OMP_NUM_THREADS": "1", "CALMIX_CACHE": str(folder / "cache")}
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    for command in commands:
        subprocess.run(
            [sys.executable, "-m", "calmix", *command], check=True, env=surroundings, capture_output=True
        )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"cpu_seconds": cpu, "wall_seconds": time.perf_counter() - started}


def write_rows(folder: Path) -> list[str]:
    named = dict(zip(("train", "validation"), read_texts("single", ROWS), strict=True))
    for name, rows in named.items():
        pairs = zip(rows.texts(), rows.labels.tolist(), strict=True)
        lines = [json.dumps({"text": text, "label": label}) for text, label in pairs]
        (folder / f"{name}.jsonl").write_text("\n".join(lines) + "\n")
    return ["--train", str(folder / "train.jsonl"), "--validation", str(folder / "validation.jsonl")]


def compare(seeds: int, folder: Path) -> dict[str, Any]:
    data = write_rows(folder)
    (folder / "one").mkdir()
    (folder / "many").mkdir()
    separate = [
        ["train", *data, "--method", method, "--seed", str(seed), *SETTINGS,
         "--output", str(folder / "many" / f"{method}-{seed}")]
        for seed in range(seeds) for method in METHODS
    ]  # fmt: skip
    together = [
        ["compare", *data, "--methods", ",".join(METHODS), "--seeds", ",".join(map(str, range(seeds))),
         *SETTINGS, "--workers", "1", "--output", str(folder / "one" / "comparison")]
    ]  # fmt: skip
    found = {
        "comparison": measured(together, folder / "one"),
        "separate": measured(separate, folder / "many"),
    }
    ratio = found["comparison"]["cpu_seconds"] / found["separate"]["cpu_seconds"]
    return {
        "runs": len(separate),
        "rows": ROWS,
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
    given = parser.parse_args()
    content = json.loads(RESULTS.read_text()) if RESULTS.is_file() else {}
    with tempfile.TemporaryDirectory() as folder:
        found = compare(given.seeds, Path(folder))
    content[f"{found['runs']} runs"] = found
    RESULTS.write_text(json.dumps(content, indent=2) + "\n")
    print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
