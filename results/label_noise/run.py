"""How well wrong labels are found: film-review sentences of which a tenth were given the other label.

    python results/label_noise/run.py [--seeds 0 1] [--threads 2]

For each seed: 2,000 training sentences, 200 of them flipped at random; one plain run of the embedded encoder
with the recorder on; two threshold passes. All rankings come from these runs, none sees the flips. A call
that was cut off goes on where it was. Runs go to `runs/label_noise`, `results.json` beside this file.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from sklearn.metrics import average_precision_score, roc_auc_score

from calmix.data.columns import ColumnNames
from calmix.data.embedded import movie_reviews
from calmix.data.reading import read_rows
from calmix.data.sampling import stratified_sample, stratified_split
from calmix.dynamics.importers import read_dynamics
from calmix.dynamics.label_noise import threshold_filter
from calmix.dynamics.training_dynamics import TrainingDynamics
from calmix.io.run_directory import Run, write_json
from calmix.io.writing import write_table
from calmix.runtime.randomness import stream
from calmix.training.configuration import TrainConfig
from calmix.training.label_noise.threshold_passes import NoiseSearch, find_label_noise
from calmix.training.pipeline.stages import train_staged

ROWS, VALIDATION_ROWS, FLIPPED = 2000, 400, 0.10
PERCENTILES = (0.5, 0.8, 0.9, 0.95)
RESULTS = Path(__file__).parent / "results.json"


def write_data(folder: Path, seed: int) -> tuple[Path, Path, np.ndarray]:
    """The training file with flipped labels, a clean validation file, and which rows were flipped."""
    sentences = stratified_sample(movie_reviews().rotten_tomatoes, ROWS + VALIDATION_ROWS, seed)
    rows, validation = stratified_split(sentences, VALIDATION_ROWS / (ROWS + VALIDATION_ROWS), seed)
    flipped = np.zeros(len(rows), dtype=bool)
    chosen = stream(seed, "flipped labels").choice(len(rows), round(FLIPPED * len(rows)), replace=False)
    flipped[chosen] = True
    given = np.where(flipped, 1 - rows.labels, rows.labels)
    files = []
    for name, part, chosen in (("train", rows, given), ("validation", validation, validation.labels)):
        labels = [part.label_names[label] for label in chosen]
        columns = {"id": part.row_ids, "text": part.texts(), "label": labels}
        write_table(folder / f"{name}.csv", pa.table(columns))
        files.append(folder / f"{name}.csv")
    return files[0], files[1], flipped


def two_class_probabilities(gold: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """[N, 2] from the probability of the given label: with two classes it says everything."""
    probabilities = np.empty((len(gold), 2))
    probabilities[np.arange(len(gold)), labels] = gold
    probabilities[np.arange(len(gold)), 1 - labels] = 1 - gold
    return probabilities


def rank(scores: np.ndarray, flipped: np.ndarray) -> dict[str, float]:
    """How well a score (low: suspicious) puts the flipped rows first."""
    first = np.argsort(scores, kind="stable")[: flipped.sum()]
    return {
        "auroc": float(roc_auc_score(flipped, -scores)),
        "average_precision": float(average_precision_score(flipped, -scores)),
        "precision_at_flipped": float(flipped[first].mean()),
    }


def hits(flagged: np.ndarray, flipped: np.ndarray) -> dict[str, float]:
    found = int((flagged & flipped).sum())
    return {
        "flagged": int(flagged.sum()),
        "precision": found / max(int(flagged.sum()), 1),
        "recall": found / int(flipped.sum()),
    }


def measure(dynamics: TrainingDynamics, search: NoiseSearch, flipped: np.ndarray) -> dict[str, Any]:
    from cleanlab.filter import find_label_issues
    from cleanlab.rank import get_label_quality_scores

    labels = dynamics.labels
    aum, confidence = dynamics.margin.mean(axis=1), dynamics.gold_probability.mean(axis=1)
    rankings = {
        "AUM, plain run": aum,
        "confidence, plain run": confidence,
        "AUM, mean of the threshold passes": search.verdict.aum,
    }
    filters = {
        "threshold filter, 99th percentile, two passes": search.verdict.flagged,
        "AUM < 0, plain run": aum < 0,
        "confidence < 0.5, plain run": confidence < 0.5,
    }
    seen = {
        "mean of the epochs": confidence,
        # Each row is forwarded before it is trained on: the first epoch is out of sample.
        "first epoch": dynamics.gold_probability[:, 0],
        "last epoch": dynamics.gold_probability[:, -1],
    }
    for name, gold in seen.items():
        probabilities = two_class_probabilities(gold, labels)
        rankings[f"cleanlab self-confidence, {name}"] = get_label_quality_scores(labels, probabilities)
        filters[f"cleanlab find_label_issues, {name}"] = find_label_issues(labels, probabilities, n_jobs=1)
    runs = [one.run for one in search.passes]
    aums = [one.aum for one in search.passes]
    filters["threshold filter, 99th percentile, one pass"] = threshold_filter(aums[:1], runs[:1]).flagged
    for k in PERCENTILES:
        name = f"threshold filter, {100 * k:.0f}th percentile, two passes"
        filters[name] = threshold_filter(aums, runs, k=k).flagged
    return {
        "rows": len(labels),
        "flipped": int(flipped.sum()),
        "cutoffs": list(search.verdict.cutoffs),
        "unscored": int(search.verdict.unscored.sum()),
        "rankings": {name: rank(scores, flipped) for name, scores in rankings.items()},
        "auroc_of_aum_over_confidence": difference(aum, confidence, flipped),
        "filters": {name: hits(flagged, flipped) for name, flagged in filters.items()},
    }


def difference(scores: np.ndarray, others: np.ndarray, flipped: np.ndarray) -> dict[str, float]:
    """AUROC of `scores` minus that of `others`, with the 95 % interval of a bootstrap over the rows."""
    generator = np.random.default_rng(0)
    draws = []
    for _ in range(1000):
        rows = generator.integers(0, len(flipped), len(flipped))
        one, other = (roc_auc_score(flipped[rows], -ranked[rows]) for ranked in (scores, others))
        draws.append(one - other)
    low, high = np.percentile(draws, [2.5, 97.5])
    whole = roc_auc_score(flipped, -scores) - roc_auc_score(flipped, -others)
    return {"difference": float(whole), "low": float(low), "high": float(high)}


def run_seed(seed: int, threads: int, folder: Path) -> dict[str, Any]:
    train_file, validation_file, flipped = write_data(folder / "data", seed)
    config = TrainConfig(
        train=str(train_file),
        validation=str(validation_file),
        output=str(folder / "run"),
        learning_rate=5e-5,
        max_length=64,
        id_column="id",
        seed=seed,
        threads=threads,
    )
    run: Run = train_staged(config, resume=True)
    rows = read_rows(train_file, "train", ColumnNames(id="id"))
    source = read_dynamics(run.path)
    assert source.dynamics is not None
    assert source.dynamics.row_ids.tolist() == rows.row_ids.tolist()
    search = find_label_noise(config, rows, folder / "passes")
    accuracy = run.metrics()["splits"]["validation"]["uncalibrated"]["accuracy"]
    return {"seed": seed, "validation_accuracy": accuracy} | measure(source.dynamics, search, flipped)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--work", type=Path, default=Path("runs/label_noise"))
    options = parser.parse_args()
    seeds = [run_seed(seed, options.threads, options.work / f"seed-{seed}") for seed in options.seeds]
    write_json(RESULTS, {"threads": options.threads, "seeds": seeds})
    print(tables(seeds))


def tables(seeds: list[dict[str, Any]]) -> str:
    """Means over the seeds, in Markdown."""

    def mean(*keys: str) -> float:
        values: list[Any] = seeds
        for key in keys:
            values = [value[key] for value in values]
        return float(np.mean(values))

    lines = ["| ranking | AUROC | average precision | precision in the first 200 |", "|:---|---:|---:|---:|"]
    for name in seeds[0]["rankings"]:
        measures = ("auroc", "average_precision", "precision_at_flipped")
        cells = " | ".join(f"{mean('rankings', name, key):.3f}" for key in measures)
        lines.append(f"| {name} | {cells} |")
    lines += ["", "| filter | rows flagged | precision | recall |", "|:---|---:|---:|---:|"]
    for name in seeds[0]["filters"]:
        cells = f"{mean('filters', name, 'flagged'):.0f} | {mean('filters', name, 'precision'):.3f}"
        lines.append(f"| {name} | {cells} | {mean('filters', name, 'recall'):.3f} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
