"""The tables of the experiment, and the verdicts that `calmix adapt --unlabelled` prints."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import t as student

from calmix.calibration.uncertainty.multiplicity import holm

SOURCE = "source temperature"
UNLABELLED = ("pseudocal", "transcal", "em-label-shift", "lascal", "density")
VERDICTS = Path(__file__).parents[2] / "src" / "calmix" / "calibration" / "domain_shift" / "verdicts.json"
BEGIN, END = "<!-- tables -->", "<!-- end of tables -->"


def write_tables(records: Sequence[Mapping[str, Any]], place: Path) -> None:
    """`results.json`, the tables of README.md between their marks, and the verdicts."""
    (place / "results.json").write_text(json.dumps(list(records), indent=1) + "\n")
    contrasts = all_contrasts(records)
    parts = [absolute_table(records), contrast_table(contrasts)]
    parts += [pair_table(records, metric) for metric in ("nll", "ece")]
    text = "\n\n".join(parts)
    readme = place / "README.md"
    if readme.exists():
        before, rest = readme.read_text().split(BEGIN)
        readme.write_text(f"{before}{BEGIN}\n\n{text}\n\n{END}{rest.split(END)[1]}")
    methods = {
        one["method"]: {
            "nll": one["nll"],
            "nll_ci": one["nll_ci"],
            "p": one["p"],
            "pairs": one["pairs"],
            "seeds": one["seeds"],
            "recommended": one["p"] < 0.05 and one["nll"] < 0,
        }
        for one in contrasts
        if one["method"] in UNLABELLED
    }
    VERDICTS.write_text(json.dumps({"methods": methods}, indent=2) + "\n")


def by_pair(records: Sequence[Mapping[str, Any]], method: str, metric: str) -> dict[str, float]:
    """The mean over seeds, for every pair of domains."""
    found: dict[str, list[float]] = {}
    for one in records:
        if one["method"] == method:
            found.setdefault(one["pair"], []).append(one[metric])
    return {pair: float(np.mean(values)) for pair, values in found.items()}


def all_contrasts(records: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Every method against the source temperature: the mean over pairs of domains of the mean over seeds,
    with a t interval over pairs, and p values corrected by Holm for the number of methods."""
    found = []
    for method in compared_methods(records):
        one: dict[str, Any] = {
            "method": method,
            "seeds": len({r["seed"] for r in records if r["method"] == SOURCE}),
        }
        for metric in ("nll", "ece"):
            mine, base = by_pair(records, method, metric), by_pair(records, SOURCE, metric)
            values = np.array([mine[pair] - base[pair] for pair in mine])
            one[metric], one[f"{metric}_ci"], p = t_interval(values)
            if metric == "nll":
                one["p"], one["pairs"] = p, len(values)
        found.append(one)
    for one, adjusted in zip(found, holm([one["p"] for one in found]), strict=True):
        one["p"] = adjusted
    return found


def compared_methods(records: Sequence[Mapping[str, Any]]) -> list[str]:
    """What is compared with the source temperature: not the limits, which are fitted on the measured rows."""
    return [
        name
        for name in dict.fromkeys(one["method"] for one in records)
        if name != SOURCE and not name.startswith("limit") and not name.endswith("in domain")
    ]


def seed_count(records: Sequence[Mapping[str, Any]]) -> int:
    return len({one["seed"] for one in records if one["method"] == SOURCE})


def by_seed(records: Sequence[Mapping[str, Any]], method: str, pair: str, metric: str) -> dict[int, float]:
    return {one["seed"]: one[metric] for one in records if (one["method"], one["pair"]) == (method, pair)}


def pair_contrasts(
    records: Sequence[Mapping[str, Any]], pair: str, metric: str
) -> dict[str, tuple[float, list[float], float]]:
    """Of one pair of domains, every method against the source temperature of the same seed: the mean, a t
    interval over seeds, and the p value corrected by Holm for the number of methods."""
    base = by_seed(records, SOURCE, pair, metric)
    found = {}
    for method in compared_methods(records):
        mine = by_seed(records, method, pair, metric)
        if len(shared := sorted(mine.keys() & base.keys())) > 2:
            mean, ends, p = t_interval(np.array([mine[seed] - base[seed] for seed in shared]))
            found[method] = mean, ends or [mean, mean], p
    adjusted = holm([p for _, _, p in found.values()]) if found else []
    return {
        method: (mean, ends, float(p))
        for (method, (mean, ends, _)), p in zip(found.items(), adjusted, strict=True)
    }


def t_interval(values: Any) -> tuple[float, list[float] | None, float]:
    """Mean, 95 % interval and two-sided p value; of less than three values, no interval and p = 1."""
    mean = float(values.mean())
    if len(values) < 3:
        return mean, None, 1.0
    error = float(values.std(ddof=1)) / np.sqrt(len(values))
    reach = float(student.ppf(0.975, len(values) - 1)) * error
    p = float(2 * student.sf(abs(mean) / error, len(values) - 1)) if error > 0 else 1.0
    return mean, [mean - reach, mean + reach], p


def absolute_table(records: Sequence[Mapping[str, Any]]) -> str:
    """NLL / ECE % / accuracy % / confidence gap % of the target, by pair and method."""
    pairs = list(dict.fromkeys(one["pair"] for one in records))
    lines = ["| method | " + " | ".join(pairs) + " |", "|---|" + "---|" * len(pairs)]
    for method in dict.fromkeys(one["method"] for one in records):
        cells = []
        for pair in pairs:
            values = [by_pair(records, method, metric).get(pair) for metric in ("nll", "ece", "accuracy")]
            gap = by_pair(records, method, "confidence_gap").get(pair)
            cells.append(
                "–"
                if values[0] is None
                else f"{values[0]:.3f} / {100 * values[1]:.1f} / {100 * values[2]:.1f} / {100 * gap:+.1f}"
            )
        lines.append(f"| {method} | " + " | ".join(cells) + " |")
    return "NLL / ECE % / accuracy % / confidence gap % on the target, means over seeds:\n\n" + "\n".join(
        lines
    )


def pair_table(records: Sequence[Mapping[str, Any]], metric: str) -> str:
    """The differences of one metric to the source temperature, by method and pair of domains."""
    pairs = list(dict.fromkeys(one["pair"] for one in records))
    found = {pair: pair_contrasts(records, pair, metric) for pair in pairs}
    scale, digits, title = (1, 3, "NLL") if metric == "nll" else (100, 1, "ECE in points")
    lines = ["| method | " + " | ".join(pairs) + " |", "|---|" + "---|" * len(pairs)]
    for method in compared_methods(records):
        cells = []
        for pair in pairs:
            if method not in found[pair]:
                cells.append("–")
                continue
            mean, ends, p = found[pair][method]
            text = f"{scale * mean:+.{digits}f}{interval(ends, scale, digits)}"
            is_shown = abs(scale * mean) >= 0.5 * 10**-digits  # a difference of rounding is none
            cells.append(f"**{text}**" if p < 0.05 and is_shown else text)
        if set(cells) != {"–"}:
            lines.append(f"| {method} | " + " | ".join(cells) + " |")
    head = (
        f"{title} minus that of the source temperature, each pair of domains by itself: means over "
        f"{seed_count(records)} seeds with 95 % t intervals over seeds; bold where p < 0.05 after Holm's "
        "correction over the methods of the pair:"
    )
    return head + "\n\n" + "\n".join(lines)


def interval(ends: list[float] | None, scale: float, digits: int) -> str:
    return "" if ends is None else " [" + ", ".join(f"{scale * end:+.{digits}f}" for end in ends) + "]"


def contrast_table(contrasts: Sequence[Mapping[str, Any]]) -> str:
    lines = ["| method | pairs | NLL | ECE, points | p (Holm) |", "|---|---|---|---|---|"]
    for one in contrasts:
        nll, ece = interval(one["nll_ci"], 1, 3), interval(one["ece_ci"], 100, 1)
        lines.append(
            f"| {one['method']} | {one['pairs']} | {one['nll']:+.3f}{nll} | {100 * one['ece']:+.1f}{ece} | "
            f"{one['p']:.3f} |"
        )
    head = "Against the source temperature, means over pairs of domains with 95 % t intervals over pairs:"
    return head + "\n\n" + "\n".join(lines)
