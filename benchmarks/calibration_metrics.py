"""Calibration metrics against their peers: how long each takes, and whether they agree.

    python -m benchmarks.calibration_metrics [--rounds 100]

One thread. Each peer takes turns with calmix on the same arrays; a ratio is the median over the pairs of
calls (peer's time / calmix's time) with its 95 % bootstrap interval, and a goal is missed only if the whole
interval is below it. Writes the key "metrics" of `benchmarks/results/calibration.json` and leaves the other
keys alone.
"""

# ruff: noqa: E402 -- the number of threads is read when numpy and torch are imported.
from __future__ import annotations

import os

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS"):
    os.environ[variable] = "1"

import argparse
import json
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import softmax

from calmix.calibration.metrics.errors import classwise_calibration_error
from calmix.calibration.metrics.notions import calibration_error
from calmix.calibration.metrics.scores import brier_score, negative_log_likelihood
from calmix.calibration.metrics.smooth import smooth_calibration_error
from calmix.calibration.predictions import Predictions
from calmix.calibration.uncertainty.intervals import bootstrap_calibration_error
from calmix.io.run_directory import write_json

RESULTS = Path(__file__).parent / "results" / "calibration.json"
BINS = 15
PACKAGES = (
    "numpy", "torch", "torchmetrics", "netcal", "probmetrics", "scikit-learn", "relplot",
    "uncertainty-calibration",
)  # fmt: skip

# A measure gives its metric from an array of probabilities and the labels.
Measure = Callable[[np.ndarray, np.ndarray], float]


@dataclass(frozen=True)
class Peer:
    """`per_call` is the number of repetitions in one call; slow ones take part in a tenth of the rounds."""

    measure: Measure
    goal: float | None = None
    slow: bool = False
    per_call: int = 1


def sample(rows: int, classes: int, dtype: str = "float32", seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Overconfident probabilities, and labels drawn from what they were before sharpening."""
    generator = np.random.default_rng(seed)
    logits = generator.standard_normal((rows, classes), dtype=np.float32) * 2
    noise = generator.gumbel(size=(rows, classes)).astype(np.float32)
    labels = (logits + noise).argmax(axis=1)
    logits *= 1.5
    return softmax(logits, axis=1).astype(dtype), labels


# Top-label ECE of probabilities.


def calmix_ece(probabilities: np.ndarray, labels: np.ndarray) -> float:
    return calibration_error(probabilities, labels, from_logits=False, notion="top_label", bins=BINS)


def torchmetrics_ece(probabilities: np.ndarray, labels: np.ndarray, checks: bool) -> float:
    import torch
    from torchmetrics.functional.classification import multiclass_calibration_error

    scores, gold = torch.from_numpy(probabilities), torch.from_numpy(labels)
    classes = probabilities.shape[1]
    return float(multiclass_calibration_error(scores, gold, classes, n_bins=BINS, validate_args=checks))


def probmetrics_ece(probabilities: np.ndarray, labels: np.ndarray) -> float:
    import torch
    from probmetrics.metrics import CalibrationError

    found = CalibrationError(BINS).compute_all_from_labels_probs(
        torch.from_numpy(labels), torch.from_numpy(probabilities)
    )
    return float(next(iter(found.values())))


def netcal_ece(probabilities: np.ndarray, labels: np.ndarray) -> float:
    from netcal.metrics import ECE

    return float(ECE(BINS).measure(probabilities, labels))


def relplot_ece(probabilities: np.ndarray, labels: np.ndarray) -> float:
    from relplot.metrics import binnedECE, multiclass_logits_to_confidences

    return float(binnedECE(*multiclass_logits_to_confidences(probabilities, labels, probs=True), nbins=BINS))


def uncertainty_calibration_ece(probabilities: np.ndarray, labels: np.ndarray) -> float:
    from calibration import get_ece

    return float(get_ece(probabilities, labels, num_bins=BINS))


def scikit_learn_ece(probabilities: np.ndarray, labels: np.ndarray) -> float:
    """It has the reliability curve but not its weights: they are counted beside it."""
    from sklearn.calibration import calibration_curve

    confidence = probabilities.max(axis=1)
    accuracy, mean = calibration_curve(probabilities.argmax(axis=1) == labels, confidence, n_bins=BINS)
    count = np.bincount(np.searchsorted(np.linspace(0, 1, BINS + 1)[1:-1], confidence), minlength=BINS)
    return float(np.abs(accuracy - mean) @ count[count > 0] / len(labels))


# Classwise ECE.


def calmix_classwise(probabilities: np.ndarray, labels: np.ndarray) -> float:
    return classwise_calibration_error(probabilities, labels, bins=BINS)


def one_pass_per_class_and_bin(probabilities: np.ndarray, labels: np.ndarray) -> float:
    """The formula as it is usually written: a mask for every bin of every class."""
    closed = np.arange(BINS + 1) / BINS
    total = 0.0
    for k in range(probabilities.shape[1]):
        column = np.ascontiguousarray(probabilities[:, k])
        is_class = labels == k
        for m in range(BINS):
            inside = (column > closed[m]) & (column <= closed[m + 1])
            if m == 0:
                inside |= column == 0
            if inside.any():
                gap = is_class[inside].mean() - column[inside].mean(dtype=np.float64)
                total += abs(gap) * inside.mean()
    return total / probabilities.shape[1]


# The bootstrap of the ECE; the value is its mean.

REPETITIONS = 1000
PEER_REPETITIONS = 50


def calmix_bootstrap(probabilities: np.ndarray, labels: np.ndarray) -> float:
    predictions = Predictions.from_probabilities(probabilities, labels)
    confidence, correct = predictions.confidence(), predictions.correct()
    return float(bootstrap_calibration_error(confidence, correct, repetitions=REPETITIONS, bins=BINS).mean())


def torchmetrics_bootstrap(probabilities: np.ndarray, labels: np.ndarray) -> float:
    import torch
    from torchmetrics.classification import MulticlassCalibrationError
    from torchmetrics.wrappers import BootStrapper

    metric = MulticlassCalibrationError(probabilities.shape[1], n_bins=BINS, validate_args=False)
    bootstrap = BootStrapper(metric, num_bootstraps=PEER_REPETITIONS, sampling_strategy="multinomial")
    bootstrap.update(torch.from_numpy(probabilities), torch.from_numpy(labels))
    return float(bootstrap.compute()["mean"])


# Scores and SmoothECE.


def calmix_nll(probabilities: np.ndarray, labels: np.ndarray) -> float:
    return negative_log_likelihood(probabilities, labels, from_logits=False)


def scikit_learn_nll(probabilities: np.ndarray, labels: np.ndarray) -> float:
    from sklearn.metrics import log_loss

    return float(log_loss(labels, probabilities))


def calmix_brier(probabilities: np.ndarray, labels: np.ndarray) -> float:
    return brier_score(probabilities, labels, from_logits=False)


def scikit_learn_brier(probabilities: np.ndarray, labels: np.ndarray) -> float:
    from sklearn.metrics import brier_score_loss

    return float(brier_score_loss(labels, probabilities, scale_by_half=False))


def calmix_smooth(probabilities: np.ndarray, labels: np.ndarray) -> float:
    predictions = Predictions.from_probabilities(probabilities, labels)
    return smooth_calibration_error(predictions.confidence(), predictions.correct())


def relplot_smooth(probabilities: np.ndarray, labels: np.ndarray) -> float:
    from relplot import smECE
    from relplot.metrics import multiclass_logits_to_confidences

    return float(smECE(*multiclass_logits_to_confidences(probabilities, labels, probs=True)))


ECE_PEERS = {
    "torchmetrics": Peer(partial(torchmetrics_ece, checks=True), goal=1.0),
    "torchmetrics without checks": Peer(partial(torchmetrics_ece, checks=False), goal=1.0),
    "probmetrics": Peer(probmetrics_ece, goal=1.0, slow=True),
    "netcal": Peer(netcal_ece, goal=1.0, slow=True),
    "relplot": Peer(relplot_ece, goal=1.0),
    "scikit-learn's curve": Peer(scikit_learn_ece, goal=1.0, slow=True),
    "uncertainty-calibration": Peer(uncertainty_calibration_ece, goal=1.0, slow=True),
}


@dataclass(frozen=True)
class Task:
    name: str
    shape: tuple[int, int]
    dtype: str
    calmix: Peer
    peers: dict[str, Peer]


TASKS = (
    Task("ECE", (1_000_000, 10), "float32", Peer(calmix_ece), ECE_PEERS),
    Task("ECE", (1_000_000, 10), "float64", Peer(calmix_ece), ECE_PEERS),
    Task(
        "classwise ECE",
        (100_000, 1000),
        "float32",
        Peer(calmix_classwise),
        {"a masked pass per class and bin": Peer(one_pass_per_class_and_bin, goal=20.0, slow=True)},
    ),
    Task(
        "a bootstrap repetition of ECE",
        (10_000, 10),
        "float32",
        Peer(calmix_bootstrap, per_call=REPETITIONS),
        {"torchmetrics": Peer(torchmetrics_bootstrap, goal=10.0, per_call=PEER_REPETITIONS)},
    ),
    Task(
        "NLL",
        (1_000_000, 10),
        "float64",
        Peer(calmix_nll),
        {"scikit-learn": Peer(scikit_learn_nll, slow=True)},
    ),
    Task(
        "Brier score",
        (1_000_000, 10),
        "float64",
        Peer(calmix_brier),
        {"scikit-learn": Peer(scikit_learn_brier, slow=True)},
    ),
    Task(
        "SmoothECE",
        (100_000, 10),
        "float64",
        Peer(calmix_smooth),
        {"relplot": Peer(relplot_smooth, slow=True)},
    ),
)


def timed(peer: Peer, probabilities: np.ndarray, labels: np.ndarray) -> tuple[float, float]:
    """Seconds of one repetition, and the value."""
    start = time.perf_counter()
    value = peer.measure(probabilities, labels)
    return (time.perf_counter() - start) / peer.per_call, value


def bootstrap_median(values: np.ndarray, repetitions: int = 2000) -> list[float]:
    """The 95 % percentile interval of the median."""
    draws = np.random.default_rng(0).choice(values, size=(repetitions, len(values)))
    return [float(end) for end in np.quantile(np.median(draws, axis=1), [0.025, 0.975])]


def measure(task: Task, rounds: int, missing: dict[str, str]) -> list[dict[str, Any]]:
    probabilities, labels = sample(*task.shape, task.dtype)
    peers = {}
    small = sample(500, task.shape[1], task.dtype)
    for name, peer in task.peers.items():
        try:
            peer.measure(*small)
            peers[name] = peer
        except ImportError as error:
            missing[name] = str(error)
    timed(task.calmix, probabilities, labels)  # the first call pays for imports
    seconds: dict[str, list[float]] = {name: [] for name in peers}
    own: dict[str, list[float]] = {name: [] for name in peers}
    values = {}
    for turn in range(rounds):
        taking_part = [name for name, peer in peers.items() if not peer.slow or turn % 10 == 0]
        for name in taking_part:
            pair = {"calmix": task.calmix, name: peers[name]}
            for contender in pair if turn % 2 else reversed(pair):
                spent, value = timed(pair[contender], probabilities, labels)
                values[contender] = value
                (own if contender == "calmix" else seconds)[name].append(spent)
    table = []
    for name, peer in peers.items():
        ratios = np.array(seconds[name]) / np.array(own[name])
        interval = bootstrap_median(ratios)
        row = {
            "metric": task.name,
            "rows": task.shape[0],
            "classes": task.shape[1],
            "dtype": task.dtype,
            "peer": name,
            "rounds": len(ratios),
            "calmix_seconds": float(np.median(own[name])),
            "peer_seconds": float(np.median(seconds[name])),
            "times_faster": float(np.median(ratios)),
            "times_faster_ci": interval,
            "calmix_value": values["calmix"],
            "peer_value": values[name],
        }
        if peer.goal is not None:
            row |= {"goal": peer.goal, "reached": interval[1] >= peer.goal}
        table.append(row)
    return table


def show(table: list[dict[str, Any]]) -> None:
    first = table[0]
    print(f"{first['metric']} of {first['rows']:,} x {first['classes']} in {first['dtype']}")
    for row in table:
        low, high = row["times_faster_ci"]
        goal = (
            f"  goal {row['goal']:g}x: {'reached' if row['reached'] else 'MISSED'}" if "goal" in row else ""
        )
        print(
            f"  {row['times_faster']:6.2f}x [{low:.2f}, {high:.2f}] faster than {row['peer']} "
            f"({1e3 * row['calmix_seconds']:.4g} ms against {1e3 * row['peer_seconds']:.4g} ms; "
            f"values {row['calmix_value']:.9f} and {row['peer_value']:.9f}){goal}",
            flush=True,
        )


def versions() -> dict[str, str | None]:
    """What was measured; None is not installed."""
    found: dict[str, str | None] = {}
    for package in PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            found[package] = None
    return found


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--metric", help="only this metric (nothing is written)")
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    try:
        import torch

        torch.set_num_threads(1)
    except ImportError:
        pass
    missing: dict[str, str] = {}
    tables = []
    for task in TASKS:
        if options.metric in (None, task.name):
            tables.append(measure(task, options.rounds, missing))
            show(tables[-1])
    print("  " + ", ".join(f"{name} {version}" for name, version in versions().items()))
    for name, reason in missing.items():
        print(f"  not measured: {name} ({reason})")
    if options.metric is None:
        everything = json.loads(RESULTS.read_text()) if RESULTS.is_file() else {}
        rows = [row for table in tables for row in table]
        result = {"threads": 1, "versions": versions(), "comparisons": rows, "not_measured": missing}
        write_json(RESULTS, everything | {"metrics": result})


if __name__ == "__main__":
    main()
