"""How well the runs of a comparison detect out-of-domain data: mean and spread over seeds."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from calmix.calibration.uncertainty.ood_intervals import METRICS
from calmix.data.rows import Rows
from calmix.experiments.cell import Cell
from calmix.experiments.comparison_plan import Plan
from calmix.io.run_directory import RunDirectory
from calmix.printable import say
from calmix.user_error import UserError, argument


@dataclass(frozen=True)
class KeptRuns:
    """The runs of a comparison, arm by arm: those that can be asked, and those that cannot."""

    runs: list[tuple[Cell, RunDirectory]]
    left_out: list[tuple[Cell, RunDirectory]]
    """Without a model: it was dropped, or the run has not finished."""
    keep_models: str

    def notes(self) -> list[str]:
        """What a reader must know of the runs behind the numbers."""
        notes = []
        if self.left_out:
            total, count = len(self.runs) + len(self.left_out), len(self.left_out)
            verbs = ("has", "is") if count == 1 else ("have", "are")
            notes.append(
                f"{count} of {total} runs {verbs[0]} no saved model and {verbs[1]} left out: "
                f"{seeds_by_arm(cell for cell, _ in self.left_out)}"
            )
        chosen = self.chosen_arms()
        alone = [arm for arm in self.arms_of_one() if arm not in chosen]
        if chosen:
            notes.append(
                f"{', '.join(chosen)}: the number is of one model, kept because its validation NLL was "
                "lowest, and has no spread over seeds"
            )
        if alone:
            notes.append(f"{', '.join(alone)}: the number is of one model and has no spread over seeds")
        return notes

    def arms_of_one(self) -> list[str]:
        arms = [cell.arm.name for cell, _ in self.runs]
        return [arm for arm in dict.fromkeys(arms) if arms.count(arm) == 1]

    def chosen_arms(self) -> list[str]:
        """Arms of several finished runs of which only the best has kept its model."""
        dropped = {cell.arm.name for cell, run in self.left_out if run.is_finished}
        return [arm for arm in self.arms_of_one() if arm in dropped and self.keep_models == "best"]


def seeds_by_arm(cells: Iterable[Cell]) -> str:
    """`plain (seeds 0, 2), erl (seed 1)`"""
    seeds: dict[str, list[str]] = {}
    for cell in cells:
        seeds.setdefault(cell.arm.name, []).append(str(cell.seed))
    return ", ".join(
        f"{arm} (seed{'s' if len(own) > 1 else ''} {', '.join(own)})" for arm, own in seeds.items()
    )


def kept_runs(directory: Path) -> KeptRuns:
    """The finished runs of a comparison that still have their model, and the rest."""
    plan = Plan.read(directory)
    store = plan.open_store(directory)
    cells = sorted(plan.cells, key=lambda cell: (plan.arms.index(cell.arm), cell.seed))
    runs = [(cell, store.run(cell.fingerprint)) for cell in cells]
    kept = [(cell, run) for cell, run in runs if run.is_finished and run.model.is_dir()]
    if not kept:
        raise UserError(
            "no model of this comparison was kept",
            file=directory,
            remedy=f"make it again with {argument('keep_models', 'all')}",
        )
    left_out = [member for member in runs if member not in kept]
    return KeptRuns(kept, left_out, str(plan.config["keep_models"]))


def detect_all(
    directory: Path,
    kept: KeptRuns,
    inside: Rows,
    outside: Mapping[str, Rows],
    **settings: Any,
) -> dict[str, Any]:
    """`training.out_of_distribution.detect` for every run, and what the seeds of each arm agree on."""
    from calmix.inference.ood_threshold import save_ood_threshold
    from calmix.inference.out_of_distribution import detect

    found = []
    for number, (cell, run) in enumerate(kept.runs, start=1):
        say(f"[{number}/{len(kept.runs)}] {cell.title}")
        result = detect(run, inside, outside, **settings)
        save_ood_threshold(run, result)
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
        "left_out": [
            {"arm": cell.arm.name, "seed": cell.seed, "finished": run.is_finished}
            for cell, run in kept.left_out
        ],
        "notes": kept.notes() + list(dict.fromkeys(note for one in found for note in one["notes"])),
    }


def summarise_detection(found: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Every metric over the seeds of an arm, for each out-set, score and stage: out-set by out-set, so that
    the arms stand side by side. An arm of one seed has intervals over rows instead of a spread.

    >>> about = {"out": "letters", "score": "msp", "stage": "calibrated"}
    >>> intervals = {f"{metric}_ci": [0.4, 1.0] for metric in METRICS}
    >>> scores = [{**about, **intervals, **dict.fromkeys(METRICS, value)} for value in (1.0, 0.5)]
    >>> runs = [{"arm": "plain", "scores": [one]} for one in scores]
    >>> record, = summarise_detection(runs)
    >>> record["seeds"], record["auroc_mean"], round(record["auroc_std"], 3)
    (2, 0.75, 0.354)
    >>> record, = summarise_detection(runs[:1])
    >>> record["auroc_mean"], record["auroc_std"], record["auroc_ci"]
    (1.0, None, [0.4, 1.0])
    """
    groups: dict[tuple[str, ...], list[Mapping[str, Any]]] = {}
    for run in found:
        for one in run["scores"]:
            groups.setdefault((one["out"], run["arm"], one["score"], one["stage"]), []).append(one)
    return [
        {
            **dict(zip(("out", "arm", "score", "stage"), key, strict=True)),
            "seeds": len(members),
            **{name: value for metric in METRICS for name, value in over_seeds(metric, members).items()},
        }
        for key, members in together(groups).items()
    ]


def summarise_confidence(found: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The mean confidence of the runs of each arm, set by set."""
    groups: dict[tuple[str, ...], list[float]] = {}
    for run in found:
        for one in run["sets"]:
            for stage, value in one["mean_confidence"].items():
                groups.setdefault((one["name"], run["arm"], stage), []).append(value)
    return [
        {**dict(zip(("set", "arm", "stage"), key, strict=True)), **spread("confidence", values)}
        for key, values in together(groups).items()
    ]


def together(groups: Mapping[tuple[str, ...], Any]) -> dict[tuple[str, ...], Any]:
    """Keys with the same first part behind each other, else in their order.

    >>> list(together({("letters", "plain"): 1, ("noise", "plain"): 2, ("letters", "mixup"): 3}))
    [('letters', 'plain'), ('letters', 'mixup'), ('noise', 'plain')]
    """
    firsts = list(dict.fromkeys(key[0] for key in groups))
    return dict(sorted(groups.items(), key=lambda group: firsts.index(group[0][0])))


def over_seeds(metric: str, members: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    interval = members[0][f"{metric}_ci"] if len(members) == 1 else None
    return {**spread(metric, [one[metric] for one in members]), f"{metric}_ci": interval}


def spread(name: str, values: Sequence[float]) -> dict[str, float | None]:
    """
    >>> spread("auroc", [0.5])
    {'auroc_mean': 0.5, 'auroc_std': None}
    """
    deviation = statistics.stdev(values) if len(values) > 1 else None
    return {f"{name}_mean": statistics.fmean(values), f"{name}_std": deviation}
