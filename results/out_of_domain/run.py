"""The experiment: train, store logits, fit every method, and write `results.json` and the tables.

    python results/out_of_domain/run.py --data DATA --work WORK [--pairs a,b] [--seeds 0,1,2,3,4]

What is done is kept in WORK: the same command continues. `--only train` and `--only logits` stop there;
`--keep` adds seeds to those of `results.json`.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
from ensembles import ensemble_records
from tables import UNLABELLED, write_tables

from calmix.calibration.adaptation import adapt_predictions
from calmix.calibration.calibrators.auto import AutoScaling
from calmix.calibration.calibrators.shrunk import ShrunkScaling
from calmix.calibration.calibrators.temperature import TemperatureScaling
from calmix.calibration.calibrators.vector import VectorScaling
from calmix.calibration.domain_shift.catalogue import METHODS
from calmix.calibration.domain_shift.density import (
    DistanceTemperature,
    density_temperature,
    neighbour_distances,
)
from calmix.calibration.domain_shift.label_shift import label_shift
from calmix.calibration.domain_shift.lascal import lascal
from calmix.calibration.domain_shift.pseudo_target import RATIO, different_pairs, pseudo_target
from calmix.calibration.domain_shift.transferable import domain_weights, transferable
from calmix.calibration.evaluation import evaluate
from calmix.calibration.files.run_predictions import predictions_of_run
from calmix.calibration.label_request import request_labels
from calmix.calibration.predictions import Predictions
from calmix.io.run_directory import RunDirectory
from data import PAIRS, write_pair

HERE = Path(__file__).parent
SETTINGS = {
    "text": ["--freeze-layers", "4", "--epochs", "3", "--max-length", "64"],
    "choice": ["--freeze-layers", "4", "--epochs", "2", "--max-length", "96"],
    "image": ["--model", "resnet-small", "--epochs", "5"],
}
LENGTHS = {"mr-imdb": ["--max-length", "128"], "yelp-sst2": ["--max-length", "96"]}
LABELS = (25, 50, 100, 200)
DRAWS = 30
METRICS = ("nll", "ece", "accuracy", "confidence_gap")


def train(pair: str, seed: int, work: Path, data: Path) -> None:
    """One run of `calmix train --method plain`."""
    run = work / "runs" / pair / f"seed-{seed}"
    if (run / "metrics.json").exists():
        return
    write_pair(pair, data, work / "data" / pair)
    command = [sys.executable, "-m", "calmix", "train", *options_of(pair, work)]
    begin = time.perf_counter()
    subprocess.run([*command, "--seed", str(seed), "--output", str(run)], check=True)
    print(f"{pair} seed {seed}: {time.perf_counter() - begin:.0f} s", flush=True)


def options_of(pair: str, work: Path) -> list[str]:
    """The files and settings of a run; its seed and its directory aside."""
    place, kind = work / "data" / pair, PAIRS[pair][2]
    ending = "npz" if kind == "image" else "jsonl"
    options = ["--train", str(place / f"train.{ending}"), "--validation", str(place / f"validation.{ending}")]
    for part in ("test", "pool", "target"):
        options += ["--test", f"{part}={place / f'{part}.{ending}'}"]
    return [*options, "--method", "plain", *SETTINGS[kind], *LENGTHS.get(pair, [])]


def store_logits(pair: str, seed: int, work: Path) -> None:
    """What the methods need of the network: perturbed validation rows, mixed pool rows, domain weights, and
    how far validation, perturbed and pool rows are from the training rows."""
    from calmix.inference.adaptation.target_passes import TargetNetwork
    from calmix.inference.adaptation.unlabelled import SourceDistances
    from calmix.inference.run_rows import rows_of_run

    file = work / "logits" / pair / f"seed-{seed}.npz"
    if file.exists():
        return
    run = RunDirectory.open(work / "runs" / pair / f"seed-{seed}")
    rows = rows_of_run(run, remedy="")
    network = TargetNetwork(run.model, max_length=run.config()["max_length"])
    pool = predictions_of_run(run, "pool", calibrated=True)
    first, second = different_pairs(pool.predicted(), seed=seed)
    # The validation rows, then their perturbed copies.
    far = SourceDistances.of(network, run, rows["validation"], seed=seed)
    known, around = len(rows["validation"]), network.features(rows["pool"])
    stored = {
        "perturbed": far.logits[known:],
        "perturbed_labels": far.labels[known:],
        "mixed": network.mixed_logits(rows["pool"], first, second, RATIO),
        "mixed_labels": pool.predicted()[first],
        "weights": domain_weights(network.features(rows["validation"]), around),
        "far_logits": far.logits,
        "far_labels": far.labels,
        "far_source": far.distances,
        "far_pool": neighbour_distances(far.training, around),
    }
    for name in ("validation", "test", "pool", "target"):
        found = predictions_of_run(run, name, calibrated=True)
        stored[name], stored[f"{name}_labels"] = found.values, found.labels
    file.parent.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(file, **stored)


def measured(calibrator: Any, predictions: Predictions) -> dict[str, float]:
    """The metrics of a set of rows under a calibrator."""
    after = Predictions.from_logits(calibrator.transform(predictions), predictions.labels)
    found = evaluate(after, intervals=False)
    return {metric: float(found[metric]) for metric in METRICS}


def fit_methods(pair: str, seed: int, work: Path) -> list[dict[str, Any]]:
    """One record for every method: metrics of the target rows, which only the limits were fitted on."""
    file = work / "methods" / pair / f"seed-{seed}.json"
    known = json.loads(file.read_text()) if file.exists() else []
    biases = PAIRS[pair][2] != "choice"
    wanted = {name for name in UNLABELLED if biases or not METHODS[name].of_classes}
    if wanted <= {record["method"] for record in known}:
        return list(known)
    stored = np.load(work / "logits" / pair / f"seed-{seed}.npz")

    def rows(name: str) -> Predictions:
        return Predictions.from_logits(stored[name], stored[f"{name}_labels"])

    target, pool, validation = rows("target"), rows("pool"), rows("validation")
    kept = ShrunkScaling.of(1.0, np.zeros(target.classes))
    source_logits, pool_logits = (one.values.astype(np.float64) for one in (validation, pool))
    by_distance = DistanceTemperature.fit(stored["far_logits"], stored["far_labels"], stored["far_source"])
    calibrators: dict[str, Any] = {
        "source temperature": kept,
        "perturbed": TemperatureScaling().fit(rows("perturbed")),
        "pseudocal": pseudo_target(stored["mixed"], stored["mixed_labels"]),
        "transcal": transferable(source_logits, validation.labels, pool.values, stored["weights"]),
        "density": density_temperature(by_distance, pool_logits, stored["far_pool"]),
        "limit: temperature": TemperatureScaling().fit(target),
    }
    if biases:
        calibrators["auto"] = AutoScaling().fit(validation)
        calibrators["em-label-shift"] = label_shift(validation.labels, pool_logits)
        calibrators["lascal"] = lascal(source_logits, validation.labels, pool_logits)
        calibrators["limit: vector"] = VectorScaling().fit(target)
    records = [
        {"method": name, **measured(calibrator, target), "temperature": float(calibrator.temperature_)}
        for name, calibrator in calibrators.items()
    ]
    records += [
        {"method": f"{name}, in domain", **measured(calibrators[name], rows("test"))}
        for name in ("source temperature", "perturbed", "auto")
        if name in calibrators
    ]
    # The draws are the slow part: what is known of them is kept.
    known = [record for record in known if "draws" in record]
    designs = [*((count, "random") for count in LABELS), (50, "confidence")]
    records += known or [
        few_labels(pool, target, count, design, seed, biases=biases) for count, design in designs
    ]
    for record in records:
        record |= {"pair": pair, "seed": seed}
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(records))
    return records


def few_labels(
    pool: Predictions, target: Predictions, count: int, design: str, seed: int, *, biases: bool
) -> dict[str, Any]:
    """The mean over draws of labelled rows from the pool."""
    found = []
    for draw in range(DRAWS):
        request = request_labels(pool.confidence(), count, design=design, seed=1000 * seed + draw)
        adapted = adapt_predictions(
            pool.select(request.positions), weights=request.weights, biases=biases, seed=draw
        )
        found.append(
            {
                **measured(adapted.calibrator, target),
                "kept_source": float(adapted.kept_source),
                "temperature": float(adapted.calibrator.temperature_),
                "said": adapted.gain.nll,
                "low": adapted.gain.low,
                "high": adapted.gain.high,
            }
        )
    name = f"{count} labels" if design == "random" else f"{count} labels, by confidence"
    means = {key: float(np.mean([one[key] for one in found])) for key in found[0]}
    return {"method": name, **means, "draws": DRAWS}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--pairs", default=",".join(PAIRS))
    parser.add_argument("--seeds", default="0,1,2,3,4")
    parser.add_argument("--only", choices=("train", "logits"), default=None)
    parser.add_argument(
        "--keep", action="store_true", help="records of other seeds, and ensembles, stay in results.json"
    )
    given = parser.parse_args()
    records, pairs = [], given.pairs.split(",")
    seeds = [int(seed) for seed in given.seeds.split(",")]
    for seed in seeds:
        for pair in pairs:
            train(pair, seed, given.work, given.data)
            if given.only != "train":
                store_logits(pair, seed, given.work)
            if given.only is None:
                records += fit_methods(pair, seed, given.work)
    if given.keep:
        known = json.loads((HERE / "results.json").read_text())
        records = [one for one in known if one["seed"] not in seeds] + records
    elif given.only is None and len(seeds) > 1:
        for pair in pairs:
            of_pair = partial(options_of, work=given.work)
            records += ensemble_records(pair, seeds, given.work, of_pair, METRICS)
    if records:
        write_tables(records, HERE)


if __name__ == "__main__":
    main()
