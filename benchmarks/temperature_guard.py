"""Which guard keeps temperature scaling sane on calibration sets with few errors?

    python -m benchmarks.temperature_guard [--data-dir DIR] [--cache FILE.npz] [--repetitions 4]

Rows without an error have no optimal temperature, and one error hardly fixes it. Candidates, all on the
same sets of n = 20 to 2,000 rows, drawn from simulated logits (2 to 100 classes, easy to hard, true T from
0.5 to 4) and from real ones (`benchmarks/_real_logits.py`):

    none        T within 0.01 and 100, as calmix had it; the others reach T = 10,000
    runner-up   an assumed part of an error at each row's runner-up (calmix: 0.25, fading to 0 at five errors)
    uniform     the same spread over all classes (label smoothing)
    prior       (log T)^2 / (2 s^2 n) added to the loss

Reported: test NLL minus that of the best T for the test rows, mean over the sets with 0, 1, 2, 3-4, 5-9 and
10 or more errors. With `--data-dir` it writes `benchmarks/results/temperature_guard.json`.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax, softmax

from benchmarks._real_logits import Logits, add_source_options, real_logits
from calmix.calibration.calibrators.temperature import TemperatureScaling
from calmix.io.run_directory import write_json

RESULTS = Path(__file__).parent / "results" / "temperature_guard.json"
SIZES = (20, 50, 100, 300, 1000, 2000)
GROUPS = ("0", "1", "2", "3-4", "5-9", "10+")
TEST_ROWS = 2000

# A fit gives beta = 1/T.
Fit = Callable[[np.ndarray, np.ndarray], float]


def search(value: Callable[[float], float], highest: float = 1e4) -> float:
    """The best beta of a function of log beta that falls, then rises, for T from 0.01 to `highest`."""
    grid = np.linspace(-np.log(highest), np.log(100), 40)
    best = int(np.argmin([value(point) for point in grid]))
    ends = grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)]
    return float(np.exp(minimize_scalar(value, bounds=ends, method="bounded", options={"xatol": 1e-4}).x))


def smoothed(strength: float, kind: str) -> Fit:
    """`strength` errors are assumed, at the runner-up or spread over all classes."""

    def fit(logits: np.ndarray, labels: np.ndarray) -> float:
        rows = len(labels)
        shifted = logits - logits.max(axis=1, keepdims=True)
        other = shifted.mean() if kind == "uniform" else np.sort(shifted, axis=1)[:, -2].mean()
        share = strength / (rows + strength)
        gold = (1 - share) * shifted[np.arange(rows), labels].mean() + share * other
        return search(
            lambda log: np.log(np.exp(np.exp(log) * shifted).sum(1)).mean() - np.exp(log) * gold,
            highest=1e4 if strength else 100.0,
        )

    return fit


def prior(deviation: float) -> Fit:
    def fit(logits: np.ndarray, labels: np.ndarray) -> float:
        rows = len(labels)
        shifted = logits - logits.max(axis=1, keepdims=True)
        gold = shifted[np.arange(rows), labels].mean()
        return search(
            lambda log: (
                np.log(np.exp(np.exp(log) * shifted).sum(1)).mean()
                - np.exp(log) * gold
                + log**2 / (2 * deviation**2 * rows)
            )
        )

    return fit


FITS: dict[str, Fit] = {
    "raw (T = 1)": lambda logits, labels: 1.0,
    "none": smoothed(0.0, "runner-up"),
    "calmix (guard=True)": lambda logits, labels: 1 / TemperatureScaling().fit(logits, labels).temperature_,
    "runner-up 0.1": smoothed(0.1, "runner-up"),
    "runner-up 0.25": smoothed(0.25, "runner-up"),
    "runner-up 0.5": smoothed(0.5, "runner-up"),
    "uniform 0.25": smoothed(0.25, "uniform"),
    "prior, s = 0.5": prior(0.5),
    "prior, s = 1": prior(1.0),
}


def simulated() -> Iterator[Logits]:
    """Labels drawn from softmax(z); the logits are z times the true temperature."""
    generator = np.random.default_rng(0)
    for classes in (2, 3, 10, 100):
        for spread in (3.0, 8.0, 20.0):
            for temperature in (0.5, 1.0, 2.0, 4.0):
                z = spread * (1.5 if classes > 50 else 1.0) * generator.standard_normal((5000, classes))
                labels = (softmax(z, axis=1).cumsum(axis=1) > generator.random((5000, 1))).argmax(axis=1)
                yield Logits(f"{classes} classes, spread {spread:g}", z * temperature, labels)


def nll(logits: np.ndarray, labels: np.ndarray, beta: float) -> float:
    return float(-log_softmax(logits * beta, axis=1)[np.arange(len(labels)), labels].mean())


def group(errors: int) -> str:
    if errors <= 2:
        return str(errors)
    return "3-4" if errors < 5 else "5-9" if errors < 10 else "10+"


def measure(pools: list[Logits], repetitions: int) -> dict[str, dict[str, float]]:
    """Mean excess NLL by number of errors and fit, and how many sets each mean is over."""
    generator = np.random.default_rng(1)
    excess: dict[str, list[list[float]]] = {name: [] for name in GROUPS}
    for pool in pools:
        is_hard = (pool.logits.argmax(axis=1) == pool.labels).mean() < 0.8
        for rows in SIZES:
            # Large sets hardly differ; small ones do, and few of them are without an error.
            for _ in range(1 if rows > 100 else repetitions * (1 if rows > 50 or is_hard else 4)):
                order = generator.permutation(len(pool.labels))
                if rows > len(order) // 2:
                    continue
                known, fresh = order[:rows], order[-TEST_ROWS:] if rows <= 1000 else order[rows:]
                logits, labels = pool.logits[known], pool.labels[known]
                test = pool.logits[fresh], pool.labels[fresh]
                best = nll(*test, 1 / TemperatureScaling(guard=False).fit(*test).temperature_)
                errors = int((logits.argmax(axis=1) != labels).sum())
                excess[group(errors)].append(
                    [nll(*test, fit(logits, labels)) - best for fit in FITS.values()]
                )
    return {
        name: {"sets": len(rows)} | dict(zip(FITS, np.mean(rows, axis=0).tolist(), strict=True))
        for name, rows in excess.items()
        if rows
    }


def show(title: str, table: dict[str, dict[str, float]]) -> None:
    print(f"{title}: excess test NLL by errors in the calibration set")
    print(f"  {'errors':22s}" + "".join(f"{name:>9s}" for name in table))
    for row in ("sets", *FITS):
        cells = (f"{table[name][row]:9d}" if row == "sets" else f"{table[name][row]:9.4f}" for name in table)
        print(f"  {row:22s}" + "".join(cells))


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    add_source_options(parser)
    parser.add_argument("--repetitions", type=int, default=4)
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    started = time.process_time()
    result = {
        "command": "python -m benchmarks.temperature_guard --data-dir DIR",
        "sizes": list(SIZES),
        "repetitions": options.repetitions,
        "simulated": measure(list(simulated()), options.repetitions),
        "real": measure(real_logits(options.data_dir, options.cache), options.repetitions),
    }
    for title in ("simulated", "real"):
        show(title, result[title])
    result["cpu_seconds"] = round(time.process_time() - started)
    if options.data_dir is not None:  # results without the texts are not for keeping
        write_json(RESULTS, result)


if __name__ == "__main__":
    main()
