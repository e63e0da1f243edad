"""Temperature scaling against its peers: who finds the optimum, and how long it takes.

    python benchmarks/calibrators.py [--rows 100000] [--classes 10] [--pairs 100]

Speed: single-threaded, each peer timed in turn with calmix in one run; a ratio is the median over the pairs
with its 95 % bootstrap interval, and stands beside the error of the temperature that was found. Accuracy:
10,000 x 10 logits with a known optimum from 0.05 to 50. Every peer gets the same float64 logits.
Writes the key "calibrators" of `benchmarks/results/calibration.json` and leaves the other keys alone.
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
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import brentq
from scipy.special import softmax

from calmix.calibration.calibrators.temperature import TemperatureScaling
from calmix.io.run_directory import write_json

RESULTS = Path(__file__).parent / "results" / "calibration.json"
OPTIMA = (0.05, 0.494, 1.0, 3.95, 7.9, 29.6, 50.0)
TOLERANCE = 1e-6
SPEED_GOAL = 3.0
GOAL_PEERS = ("scikit-learn", "probmetrics")

# A fit gives the temperature from float64 logits and labels.
Fit = Callable[[np.ndarray, np.ndarray], float]


def sample(rows: int, classes: int, temperature: float, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Logits, and labels drawn from softmax(logits / temperature)."""
    generator = np.random.default_rng(seed)
    logits = 2 * generator.standard_normal((rows, classes))
    labels = (softmax(logits, axis=1).cumsum(axis=1) > generator.random((rows, 1))).argmax(axis=1)
    return logits * temperature, labels


def exact_temperature(logits: np.ndarray, labels: np.ndarray) -> float:
    """The root of the gradient of the loss in 1/T, by bracketing in extended precision."""
    wide = logits.astype(np.longdouble)
    gold = wide[np.arange(len(labels)), labels]
    shifted = wide - wide.max(axis=1, keepdims=True)

    def gradient(beta: float) -> float:
        powers = np.exp(beta * shifted)
        return float(((powers * wide).sum(axis=1) / powers.sum(axis=1) - gold).mean())

    return 1 / brentq(gradient, 1 / 99, 1 / 0.011, xtol=1e-15, rtol=1e-13)


def calmix(logits: np.ndarray, labels: np.ndarray) -> float:
    return TemperatureScaling().fit(logits, labels).temperature_


def scikit_learn(logits: np.ndarray, labels: np.ndarray) -> float:
    from sklearn.calibration import _TemperatureScaling

    return float(1 / _TemperatureScaling().fit(logits, labels).beta_)


def netcal(logits: np.ndarray, labels: np.ndarray) -> float:
    """Takes probabilities, not logits: sharp ones are rounded before it sees them."""
    from netcal.scaling import TemperatureScaling as Netcal

    fitted = Netcal().fit(softmax(logits, axis=1), labels, tensorboard=False)
    return float(1 / fitted.weights[0])


def guo_lbfgs(logits: np.ndarray, labels: np.ndarray) -> float:
    """LBFGS on T from 1.5 with step 0.01 and 50 iterations: the settings of its authors."""
    import torch

    scores, gold = torch.as_tensor(logits), torch.as_tensor(labels)
    temperature = torch.nn.Parameter(torch.full((1,), 1.5, dtype=scores.dtype))
    optimiser = torch.optim.LBFGS([temperature], lr=0.01, max_iter=50)

    def closure() -> torch.Tensor:
        optimiser.zero_grad()
        loss = torch.nn.functional.cross_entropy(scores / temperature, gold)
        loss.backward()
        return loss

    optimiser.step(closure)
    return float(temperature)


def probmetrics_fit(class_name: str, read: Callable[[Any], float]) -> Fit:
    def fit(logits: np.ndarray, labels: np.ndarray) -> float:
        import torch
        from probmetrics import calibrators
        from probmetrics.distributions import CategoricalLogits

        calibrator = getattr(calibrators, class_name)()
        predicted = CategoricalLogits(torch.as_tensor(logits))
        return read(calibrator.fit_torch(predicted, torch.as_tensor(labels)))

    return fit


PEERS: dict[str, Fit] = {
    "scikit-learn": scikit_learn,
    "probmetrics": probmetrics_fit("TemperatureScalingCalibrator", lambda fitted: 1 / fitted.invtemp_),
    "netcal": netcal,
    "torch LBFGS (Guo)": guo_lbfgs,
}
# Ports of other libraries' code that probmetrics keeps for comparison; only in the accuracy table.
PORTS: dict[str, Fit] = {
    "AutoGluon (port)": probmetrics_fit("AutoGluonTemperatureScalingCalibrator", lambda fitted: fitted.temp_),
    "torchcal (port)": probmetrics_fit("TorchcalTemperatureScalingCalibrator", lambda fitted: fitted.temp_),
    "torch-uncertainty (port)": probmetrics_fit(
        "TorchUncertaintyTemperatureScalingCalibrator", lambda fitted: 1 / fitted.invtemp_
    ),
}


def versions() -> dict[str, str | None]:
    """What was measured; None is not installed. probmetrics imports numba for solvers not measured here."""
    found: dict[str, str | None] = {}
    for package in ("numpy", "scikit-learn", "torch", "netcal", "probmetrics", "numba"):
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            found[package] = None
    return found


def available(fits: dict[str, Fit]) -> tuple[dict[str, Fit], dict[str, str]]:
    """The peers that can run here, and why the others cannot."""
    logits, labels = sample(200, 3, 1.0)
    ready, missing = {}, {}
    for name, fit in fits.items():
        try:
            fit(logits, labels)
            ready[name] = fit
        except ImportError as error:
            missing[name] = str(error)
    return ready, missing


def timed(fit: Fit, logits: np.ndarray, labels: np.ndarray) -> tuple[float, float]:
    start = time.perf_counter()
    temperature = fit(logits, labels)
    return time.perf_counter() - start, temperature


def bootstrap_median(values: np.ndarray, repetitions: int = 2000) -> list[float]:
    """The 95 % percentile interval of the median."""
    generator = np.random.default_rng(0)
    draws = generator.choice(values, size=(repetitions, len(values)))
    return [float(end) for end in np.quantile(np.median(draws, axis=1), [0.025, 0.975])]


def measure_speed(peers: dict[str, Fit], rows: int, classes: int, pairs: int) -> list[dict[str, Any]]:
    logits, labels = sample(rows, classes, temperature=3.95)
    exact = exact_temperature(logits, labels)
    table = []
    for name, fit in peers.items():
        # The peers without a goal take a fifth of the pairs: they are the slow ones.
        count = pairs if name in GOAL_PEERS else max(pairs // 5, 5)
        ours, theirs = np.empty(count), np.empty(count)
        for pair in range(count):
            ours[pair], our_temperature = timed(calmix, logits, labels)
            theirs[pair], their_temperature = timed(fit, logits, labels)
        ratios = theirs / ours
        interval = bootstrap_median(ratios)
        entry = {
            "peer": name,
            "pairs": count,
            "calmix_seconds": float(np.median(ours)),
            "peer_seconds": float(np.median(theirs)),
            "times_faster": float(np.median(ratios)),
            "times_faster_ci": interval,
            "calmix_error": float(abs(our_temperature / exact - 1)),
            "peer_error": float(abs(their_temperature / exact - 1)),
            "same_optimum": bool(abs(their_temperature / our_temperature - 1) <= TOLERANCE),
        }
        if name in GOAL_PEERS:
            entry |= {"goal": SPEED_GOAL, "reached": interval[0] >= SPEED_GOAL}
        table.append(entry)
    return table


def measure_accuracy(fits: dict[str, Fit], rows: int = 10_000, classes: int = 10) -> list[dict[str, Any]]:
    """The relative error of the temperature at every known optimum; None where a peer fails."""
    table = []
    for target in OPTIMA:
        logits, labels = sample(rows, classes, target)
        exact = exact_temperature(logits, labels)
        errors: dict[str, float | None] = {}
        for name, fit in fits.items():
            try:
                error = abs(fit(logits, labels) / exact - 1)
            except (ArithmeticError, AttributeError, RuntimeError, ValueError):
                error = float("nan")
            errors[name] = float(error) if np.isfinite(error) else None
        table.append({"drawn_at": target, "optimum": exact, "relative_errors": errors})
    return table


def verdicts(accuracy: list[dict[str, Any]]) -> dict[str, str]:
    """One line for each implementation: exact everywhere, or where it is off by more than a per cent."""
    lines = {}
    for name in accuracy[0]["relative_errors"]:
        errors = {row["drawn_at"]: row["relative_errors"][name] for row in accuracy}
        far = [f"{target:g}" for target, error in errors.items() if error is None or error > 0.01]
        worst = max((error for error in errors.values() if error is not None), default=None)
        if far:
            lines[name] = f"off by more than 1 % at T* = {', '.join(far)}"
        elif worst is not None and worst <= TOLERANCE:
            lines[name] = f"within 1e-6 everywhere (worst {worst:.0e})"
        else:
            lines[name] = f"within 1 % everywhere, not within 1e-6 (worst {worst:.0e})"
    return lines


def show(result: dict[str, Any]) -> None:
    print(f"temperature fit of {result['rows']:,} x {result['classes']}, one thread, interleaved")
    for row in result["speed"]:
        low, high = row["times_faster_ci"]
        goal = (
            f"  goal {row['goal']:g}x: {'reached' if row['reached'] else 'MISSED'}" if "goal" in row else ""
        )
        same = "same optimum" if row["same_optimum"] else f"T off by {row['peer_error']:.1e}"
        print(
            f"  {row['times_faster']:6.1f}x [{low:.1f}, {high:.1f}] faster than {row['peer']} "
            f"({1e3 * row['calmix_seconds']:.0f} ms against {1e3 * row['peer_seconds']:.0f} ms; {same}){goal}"
        )
    print("relative error of T on 10,000 x 10 ('-' where the fit fails)")
    names = list(result["accuracy"][0]["relative_errors"])
    width = max(map(len, names))
    print(f"  {'T* near':{width}}" + "".join(f"{row['drawn_at']:>9g}" for row in result["accuracy"]))
    for name in names:
        errors = [row["relative_errors"][name] for row in result["accuracy"]]
        cells = "".join(f"{'-' if error is None else format(error, '.0e'):>9}" for error in errors)
        print(f"  {name:{width}}{cells}   {result['verdicts'][name]}")
    print("  " + ", ".join(f"{name} {version}" for name, version in result["versions"].items()))
    for name, reason in result["not_measured"].items():
        print(f"  not measured: {name} ({reason})")


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--classes", type=int, default=10)
    parser.add_argument("--pairs", type=int, default=100)
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    try:
        import torch

        torch.set_num_threads(1)
    except ImportError:
        pass
    peers, missing = available(PEERS)
    ports, missing_ports = available(PORTS)
    accuracy = measure_accuracy({"calmix": calmix} | peers | ports)
    result = {
        "rows": options.rows,
        "classes": options.classes,
        "threads": 1,
        "versions": versions(),
        "speed": measure_speed(peers, options.rows, options.classes, options.pairs),
        "accuracy": accuracy,
        "verdicts": verdicts(accuracy),
        "not_measured": missing | missing_ports,
    }
    show(result)
    everything = json.loads(RESULTS.read_text()) if RESULTS.is_file() else {}
    write_json(RESULTS, everything | {"calibrators": result})


if __name__ == "__main__":
    main()
