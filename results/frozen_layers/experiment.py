"""What frozen layers cost: 4 of 6 layers of the embedded encoder frozen, beside full fine-tuning.

    python results/frozen_layers/experiment.py --data DATA --work WORK             # trains what is missing
    python results/frozen_layers/experiment.py --data DATA --work WORK --only-table
    python results/frozen_layers/experiment.py --data DATA --work WORK --small     # a trial of minutes

DATA holds a directory of splits for each data set (`mr/train.jsonl.gz`, ...). Runs are kept in WORK: the same
command continues. The table goes to `results.json` and into the README beside this file; of `--small`, to the
terminal alone.
"""

from __future__ import annotations

import argparse
import gzip
import json
from dataclasses import asdict
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

import calmix
from calmix.calibration.files.run_predictions import predictions_of_run
from calmix.experiments.bootstrap import RowScores, paired_difference, resample
from calmix.experiments.results import Results
from calmix.io.run_directory import RunDirectory

HERE = Path(__file__).parent
DATASETS = ("mr", "ag_news", "qqp")
FROZEN = "plain freeze_layers=4"
SEEDS = (0, 1, 2)
SETTINGS = {"train_rows": 2000, "epochs": 3, "max_length": 96, "device": "cpu"}
HELD_OUT = {"validation": 800, "test": 1500}
SMALL = {"train_rows": 64, "epochs": 1, "max_length": 32, "device": "cpu"}
METRICS = {"accuracy": ("accuracy, points", 100, 2), "nll": ("NLL", 1, 4), "ece": ("ECE, points", 100, 2)}
STAGES = {"uncalibrated": "raw", "calibrated": "+ TS"}
BEGIN, END = "<!-- table -->", "<!-- end of the table -->"


def write_splits(source: Path, target: Path) -> None:
    """The training rows as they are, samples of the others."""
    target.mkdir(parents=True, exist_ok=True)
    for split in ("train", "validation", "test"):
        with gzip.open(source / f"{split}.jsonl.gz", "rt", encoding="utf-8") as file:
            lines = list(file)
        chosen = np.random.default_rng(0).permutation(len(lines))[: HELD_OUT.get(split)]
        (target / f"{split}.jsonl").write_text("".join(lines[place] for place in chosen), encoding="utf-8")


def compare(name: str, data: Path, work: Path, settings: dict[str, Any], seeds: tuple[int, ...]) -> None:
    """One comparison; what is finished of it is not made again."""
    write_splits(data / name, work / "data" / name)
    calmix.compare(
        str(work / "data" / name),
        methods=["plain", FROZEN.replace(" ", ":")],
        seeds=list(seeds),
        output=work / name,
        workers=1,
        keep_models="none",
        **settings,
    )


def found_in(directory: Path) -> dict[str, Any]:
    """Means over seeds of both arms, and the paired differences, frozen minus whole, on the test rows."""
    results = Results.read(directory)
    found: dict[str, Any] = {}
    for stage in STAGES:
        runs = results.select(split="test", stage=stage)
        predictions = [
            predictions_of_run(
                RunDirectory(directory / "runs" / run["run"]), "test", calibrated=stage == "calibrated"
            )
            for run in runs
        ]
        samples = resample([RowScores.of(one, bins=15, closed="right") for one in predictions])
        by_arm: dict[str, dict[int, Any]] = {"plain": {}, FROZEN: {}}
        for run, sample in zip(runs, samples, strict=True):
            by_arm[run["arm"]][run["seed"]] = sample
        differences = paired_difference(by_arm[FROZEN], by_arm["plain"])
        found[stage] = {
            "seeds": sorted(by_arm["plain"]),
            "test_rows": runs[0]["n"],
            "means": {
                arm: {
                    metric: fmean(run[metric] for run in runs if run["arm"] == arm)
                    for metric in (*METRICS, "seconds")
                }
                for arm in by_arm
            },
            "differences": {metric: asdict(differences[metric]) for metric in METRICS},
        }
    return found


def table(found: dict[str, dict[str, Any]]) -> str:
    """Frozen minus whole, with the paired interval over test rows and seeds."""
    titles = [title for title, _, _ in METRICS.values()]
    lines = [
        "| data | scores | whole network: accuracy %, NLL | "
        + " | ".join(f"Δ {one}" for one in titles)
        + " |",
        "|:---|:---|---:|" + "---:|" * len(titles),
    ]
    for name, stages in found.items():
        for stage, shown in STAGES.items():
            plain = stages[stage]["means"]["plain"]
            cells = [f"{100 * plain['accuracy']:.1f}, {plain['nll']:.3f}"]
            for metric, (_, scale, digits) in METRICS.items():
                one = stages[stage]["differences"][metric]
                value, low, high = (scale * one[key] for key in ("difference", "low", "high"))
                cells.append(f"{value:+.{digits}f} [{low:+.{digits}f}, {high:+.{digits}f}]")
            lines.append(f"| {name} | {shown} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--only-table", action="store_true", help="train nothing")
    parser.add_argument(
        "--small", action="store_true", help="64 rows, one epoch, one seed, the first data set"
    )
    given = parser.parse_args()
    names, settings, seeds = (DATASETS[:1], SMALL, SEEDS[:1]) if given.small else (DATASETS, SETTINGS, SEEDS)
    found = {}
    for name in names:
        if not given.only_table:
            compare(name, given.data, given.work, settings, seeds)
        found[name] = found_in(given.work / name)
    text = table(found)
    print(text)
    if given.small:
        return
    (HERE / "results.json").write_text(json.dumps(found, indent=2) + "\n")
    readme = (HERE / "README.md").read_text(encoding="utf-8")
    before, _, rest = readme.partition(BEGIN)
    _, _, after = rest.partition(END)
    (HERE / "README.md").write_text(f"{before}{BEGIN}\n\n{text}\n\n{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
