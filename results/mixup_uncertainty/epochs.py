"""Validation ECE and training loss after every epoch of the runs of a comparison, mean over seeds.

    python results/mixup_uncertainty/epochs.py COMPARISON OUT

Writes `epochs.csv` and `epochs.svg` into OUT, and prints how the arms differ from the first after the last
epoch, seed by seed, with 95 % intervals over the seeds.
"""

from __future__ import annotations

import csv
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from calmix.experiments.bootstrap import half_width
from calmix.experiments.comparison_plan import Plan
from calmix.training.pipeline.run_store import RunStore

COLUMNS = ("train_loss", "accuracy", "validation_nll", "validation_ece")
COLOURS = ("#EE6677", "#4477AA", "#228833", "#CCBB44", "#AA3377", "#66CCEE", "#888888")
Curve = list[tuple[float, float]]


def main() -> None:
    directory, out = Path(sys.argv[1]), Path(sys.argv[2])
    plan, store = Plan.read(directory), RunStore(directory / "runs")
    curves: dict[str, Curve] = {}
    last: dict[str, dict[str, list[float]]] = {}
    with (out / "epochs.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        names = [f"{name}_{kind}" for name in COLUMNS for kind in ("mean", "std")]
        writer.writerow(["arm", "epoch", "seeds", *names])
        for arm in plan.arms:
            cells = [cell for cell in plan.cells if cell.arm == arm and store.is_finished(cell.fingerprint)]
            histories = [store.run(cell.fingerprint).metrics()["history"] for cell in cells]
            curves[arm.name] = []
            for entries in zip(*histories, strict=True):
                values = {name: [entry[name] for entry in entries] for name in COLUMNS}
                numbers = [number for name in COLUMNS for number in mean_and_deviation(values[name])]
                writer.writerow(
                    [arm.name, entries[0]["epoch"], len(entries), *(f"{number:.5f}" for number in numbers)]
                )
                curves[arm.name].append(mean_and_deviation(values["validation_ece"]))
                last[arm.name] = values
    show_differences(last)
    (out / "epochs.svg").write_text(picture(curves), encoding="utf-8")


def show_differences(last: dict[str, dict[str, list[float]]]) -> None:
    first, *others = last
    for arm in others:
        for name in COLUMNS:
            points = np.subtract(last[arm][name], last[first][name])
            middle, reach = points.mean(), half_width(points, 0.0)
            print(f"{arm} - {first}, {name}: {middle:+.4f} [{middle - reach:+.4f}, {middle + reach:+.4f}]")


def mean_and_deviation(values: Sequence[float]) -> tuple[float, float]:
    return statistics.fmean(values), statistics.stdev(values) if len(values) > 1 else 0.0


def picture(curves: dict[str, Curve]) -> str:
    """A line for every arm with a band of one standard deviation; ECE upwards, epochs to the right."""
    width, height, left, top = 620, 240, 44, 30
    epochs = max(len(curve) for curve in curves.values())
    # The first epochs, where a network knows nothing yet, go out of the picture.
    later = [point for curve in curves.values() for point in curve[epochs // 6 :]]
    highest = 1.05 * max(mean + deviation for mean, deviation in later)

    def point(epoch: int, value: float) -> str:
        across, down = epoch / max(epochs - 1, 1), 1 - min(value / highest, 1)
        return f"{left + width * across:.1f},{top + height * down:.1f}"

    box = f"0 0 {left + width + 16} {top + height + 40}"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{box}" font-family="sans-serif" font-size="11">'
    ]
    for tick in range(5):
        value = highest * tick / 4
        parts.append(
            f'<text x="{left - 6}" y="{top + height * (1 - tick / 4) + 4:.1f}" fill="#888888" '
            f'text-anchor="end">{100 * value:.0f} %</text>'
        )
    parts += [
        f'<text x="{point(epoch - 1, 0).split(",")[0]}" y="{top + height + 14}" fill="#888888" '
        f'text-anchor="middle">{epoch}</text>'
        for epoch in range(epochs // 4, epochs + 1, epochs // 4)
    ]
    for number, (name, curve) in enumerate(curves.items()):
        colour = COLOURS[number % len(COLOURS)]
        upper = [point(epoch, mean + deviation) for epoch, (mean, deviation) in enumerate(curve)]
        lower = [point(epoch, max(mean - deviation, 0)) for epoch, (mean, deviation) in enumerate(curve)]
        parts.append(f'<polygon points="{" ".join(upper + lower[::-1])}" fill="{colour}" opacity="0.2"/>')
        line = " ".join(point(epoch, mean) for epoch, (mean, _) in enumerate(curve))
        parts.append(f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts.append(f'<text x="{left + 150 * number}" y="16" fill="{colour}">{name}</text>')
    parts.append(
        f'<text x="{left + width / 2}" y="{top + height + 30}" fill="#888888" text-anchor="middle">'
        f"validation ECE after each of {epochs} epochs</text>"
    )
    return "\n".join([*parts, "</svg>"]) + "\n"


if __name__ == "__main__":
    main()
