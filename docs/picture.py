"""Draws `docs/reliability.png` from a finished demo: how confidence and accuracy meet, in and out of domain.

python docs/picture.py demo-run/RUN
"""

from __future__ import annotations

import sys
from pathlib import Path

import matplotlib.pyplot as plt

from calmix.calibration.binning import reliability_bins
from calmix.calibration.run_predictions import predictions_of_run
from calmix.run import Run

TITLES = {"test": "in domain: Rotten Tomatoes", "imdb": "out of domain: IMDb"}
COLOURS = {"as trained": "#b0b7c3", "after temperature": "#1f6feb"}


def main(run: Run) -> None:
    metrics = run.metrics()
    figure, axes = plt.subplots(1, 2, figsize=(8.6, 3.9), sharey=True)
    for axis, (split, title) in zip(axes, TITLES.items(), strict=True):
        axis.plot([0.5, 1], [0.5, 1], color="#666", linestyle=":", linewidth=1)
        for stage, calibrated in (("as trained", False), ("after temperature", True)):
            predictions = predictions_of_run(run, split, calibrated=calibrated)
            bins = reliability_bins(predictions.confidence(), predictions.correct(), bins=15)
            filled = bins.count > 0
            low = bins.accuracy[filled] - bins.accuracy_low[filled]
            high = bins.accuracy_high[filled] - bins.accuracy[filled]
            key = "calibrated" if calibrated else "uncalibrated"
            ece = metrics["splits"][split][key]["ece"]
            axis.errorbar(
                bins.mean_confidence[filled],
                bins.accuracy[filled],
                yerr=[low, high],
                marker="o",
                markersize=4,
                linewidth=1.4,
                elinewidth=0.8,
                capsize=2,
                color=COLOURS[stage],
                label=f"{stage}: ECE {100 * ece:.1f} %",
            )
        axis.set(title=title, xlabel="confidence", xlim=(0.48, 1.02), ylim=(0.3, 1.02))
        axis.legend(loc="lower right", frameon=False, fontsize=9)
        axis.spines[["top", "right"]].set_visible(False)
    axes[0].set_ylabel("accuracy")
    figure.tight_layout()
    figure.savefig(Path(__file__).parent / "reliability.png", dpi=160)


if __name__ == "__main__":
    main(Run.open(sys.argv[1]))
