"""Draws `docs/reliability.png`: accuracy against confidence, in and out of domain.

python docs/picture.py COMPARISON      # that of results/guided_goemotions; its first seed is drawn
"""

from __future__ import annotations

import sys
from pathlib import Path

import matplotlib.pyplot as plt

from calmix.calibration.evaluation import evaluate
from calmix.calibration.files.run_predictions import predictions_of_run
from calmix.calibration.metrics.binning import reliability_bins
from calmix.experiments.comparison_plan import Plan
from calmix.io.run_directory import RunDirectory
from calmix.training.pipeline.run_store import RunStore

TITLES = {"test": "in domain: GoEmotions", "meld": "out of domain: MELD"}
# Arm, temperature-scaled or raw, colour.
CURVES = {
    "plain, raw": ("plain", False, "#b0b7c3"),
    "plain + TS": ("plain", True, "#1f6feb"),
    "input-mixup, raw": ("input-mixup", False, "#d1495b"),
}


def main(directory: Path) -> None:
    runs = first_runs(directory)
    figure, axes = plt.subplots(1, 2, figsize=(8.6, 3.9), sharey=True)
    for axis, (split, title) in zip(axes, TITLES.items(), strict=True):
        axis.plot([0, 1], [0, 1], color="#666", linestyle=":", linewidth=1)
        for name, (arm, calibrated, colour) in CURVES.items():
            predictions = predictions_of_run(runs[arm], split, calibrated=calibrated)
            bins = reliability_bins(predictions.confidence(), predictions.correct(), bins=10)
            shown = bins.count >= 20  # an interval over fewer rows is as high as the picture
            low = bins.accuracy[shown] - bins.accuracy_low[shown]
            high = bins.accuracy_high[shown] - bins.accuracy[shown]
            axis.errorbar(
                bins.mean_confidence[shown],
                bins.accuracy[shown],
                yerr=[low, high],
                marker="o",
                markersize=4,
                linewidth=1.4,
                elinewidth=0.8,
                capsize=2,
                color=colour,
                label=f"{name}: ECE {100 * evaluate(predictions, intervals=False)['ece']:.1f} %",
            )
        axis.set(title=title, xlabel="confidence", xlim=(0.18, 1.02), ylim=(0.0, 1.02))
        axis.legend(loc="lower right" if split == "test" else "upper left", frameon=False, fontsize=9)
        axis.spines[["top", "right"]].set_visible(False)
    axes[0].set_ylabel("accuracy")
    figure.tight_layout()
    figure.savefig(Path(__file__).parent / "reliability.png", dpi=160)


def first_runs(directory: Path) -> dict[str, RunDirectory]:
    plan, store = Plan.read(directory), RunStore(directory / "runs")
    seed = min(cell.seed for cell in plan.cells)
    return {cell.arm.name: store.run(cell.fingerprint) for cell in plan.cells if cell.seed == seed}


if __name__ == "__main__":
    main(Path(sys.argv[1]))
