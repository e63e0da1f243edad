"""How well the runs of a comparison tell familiar data from other data: mean and spread over seeds."""

from __future__ import annotations

import statistics
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from calmix.calibration.ood_intervals import METRICS
from calmix.data.rows import Rows
from calmix.experiments.cell import Cell
from calmix.experiments.comparison import CELLS_FILE, Plan
from calmix.experiments.store import RunStore
from calmix.run import Run
from calmix.training.out_of_distribution import detect
from calmix.user_error import UserError


def is_comparison(directory: Path) -> bool:
    return (directory / CELLS_FILE).is_file()


def kept_runs(directory: Path) -> list[tuple[Cell, Run]]:
    """The finished runs of a comparison that still have their model, arm by arm."""
    plan, store = Plan.read(directory), RunStore(directory / "runs")
    cells = sorted(plan.cells, key=lambda cell: (plan.arms.index(cell.arm), cell.seed))
    kept = [(cell, store.run(cell.fingerprint)) for cell in cells if store.is_finished(cell.fingerprint)]
    kept = [(cell, run) for cell, run in kept if run.model.is_dir()]
    if not kept:
        raise UserError(
            "no model of this comparison was kept",
            file=directory,
            remedy="make it again with --keep-models all",
        )
    return kept


def detect_all(
    directory: Path,
    runs: Sequence[tuple[Cell, Run]],
    inside: Rows,
    outside: Mapping[str, Rows],
    **settings: Any,
) -> dict[str, Any]:
    """`training.out_of_distribution.detect` for every run, and what the seeds of each arm agree on."""
    found = []
    for number, (cell, run) in enumerate(runs, start=1):
        print(f"[{number}/{len(runs)}] {cell.title}", file=sys.stderr)
        result = detect(run, inside, outside, **settings)
        del result["histograms"]
        found.append({"arm": cell.arm.name, "seed": cell.seed, **result})
    first = found[0]
    return {
        "comparison": str(directory),
        "in": first["in"],
        "sets": [{"name": one["name"], "rows": one["rows"]} for one in first["sets"]],
        "metrics": list(METRICS),
        "summary": summarise_detection(found),
        "confidence": summarise_confidence(found),
        "runs": found,
        "notes": list(dict.fromkeys(note for one in found for note in one["notes"])),
    }


def summarise_detection(found: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Every metric over the seeds of an arm, for each out-set, score and stage.

    >>> about = {"out": "letters", "score": "msp", "stage": "calibrated"}
    >>> scores = [{**about, **dict.fromkeys(METRICS, value)} for value in (1.0, 0.5)]
    >>> runs = [{"arm": "plain", "scores": [one]} for one in scores]
    >>> record, = summarise_detection(runs)
    >>> record["seeds"], record["auroc_mean"], round(record["auroc_std"], 3)
    (2, 0.75, 0.354)
    """
    groups: dict[tuple[str, ...], list[Mapping[str, Any]]] = {}
    for run in found:
        for one in run["scores"]:
            groups.setdefault((one["out"], run["arm"], one["score"], one["stage"]), []).append(one)
    return [
        {
            **dict(zip(("out", "arm", "score", "stage"), key, strict=True)),
            "seeds": len(members),
            **{
                name: value
                for metric in METRICS
                for name, value in spread(metric, [one[metric] for one in members]).items()
            },
        }
        for key, members in groups.items()
    ]


def summarise_confidence(found: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """How sure the runs of each arm are of each set, on average."""
    groups: dict[tuple[str, ...], list[float]] = {}
    for run in found:
        for one in run["sets"]:
            for stage, value in one["mean_confidence"].items():
                groups.setdefault((one["name"], run["arm"], stage), []).append(value)
    return [
        {**dict(zip(("set", "arm", "stage"), key, strict=True)), **spread("confidence", values)}
        for key, values in groups.items()
    ]


def spread(name: str, values: Sequence[float]) -> dict[str, float | None]:
    """
    >>> spread("auroc", [0.5])
    {'auroc_mean': 0.5, 'auroc_std': None}
    """
    deviation = statistics.stdev(values) if len(values) > 1 else None
    return {f"{name}_mean": statistics.fmean(values), f"{name}_std": deviation}
