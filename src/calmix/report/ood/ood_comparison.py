"""`ood.html` of a comparison: which method detects out-of-domain data best."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from calmix.calibration.uncertainty.ood_verdict import GUESSING
from calmix.report.ood.ood_report import (
    METRIC_TITLES,
    READING,
    SCORE_TITLES,
    STAGE_TITLES,
    path_fact,
    tone_of,
)
from calmix.report.pages.forest import Effect, forest
from calmix.report.pages.page import (
    Answer,
    Details,
    Fact,
    Facts,
    Forest,
    Page,
    Prose,
    Section,
    Verdict,
    write_page,
)
from calmix.report.tables import Column, Table, text_columns

# The ways of looking at one model that papers compare: title, score, stage.
WAYS = (
    ("raw", "msp", "uncalibrated"),
    ("+ TS", "msp", "calibrated"),
    ("MC dropout, raw", "mc_msp", "uncalibrated"),
)
KINDS = ("red", "blue", "green")
Record = Mapping[str, Any]


def write_ood_comparison(result: Mapping[str, Any], path: Path) -> Path:
    return write_page(ood_comparison_page(result), path)


def headline_table(result: Mapping[str, Any]) -> Table:
    """AUROC by confidence: one row for every out-set and arm, one column for every way of looking."""
    ways = ways_of(result)
    rows = tuple(
        (out, arm, *(percent(by_way.get(way), "auroc") for way in ways))
        for (out, arm), by_way in confidence_records(result).items()
    )
    return Table(
        caption=f"AUROC % of {result['in']} against other data by confidence, {spread_words(result)}",
        columns=(
            *text_columns("Other data", "Method"),
            *(Column(title) for title in ways),
        ),
        rows=rows,
        grouped=True,
    )


def ways_of(result: Mapping[str, Any]) -> list[str]:
    """Those that some run has: a network without dropout has no MC dropout."""
    there = {(record["score"], record["stage"]) for record in result["summary"]}
    return [title for title, score, stage in WAYS if (score, stage) in there]


def confidence_records(result: Mapping[str, Any]) -> dict[tuple[str, str], dict[str, Record]]:
    titles = {(score, stage): title for title, score, stage in WAYS}
    found: dict[tuple[str, str], dict[str, Record]] = {}
    for record in result["summary"]:
        title = titles.get((record["score"], record["stage"]))
        if title is not None:
            found.setdefault((record["out"], record["arm"]), {})[title] = record
    return found


def percent(record: Record | None, metric: str) -> str:
    """
    >>> percent({"auroc_mean": 0.9123, "auroc_std": 0.0101}, "auroc"), percent(None, "auroc")
    ('91.2 ± 1.0', '–')
    >>> percent({"auroc_mean": 0.9123, "auroc_std": None, "auroc_ci": [0.9, 0.9301]}, "auroc")
    '91.2 [90.0, 93.0]'
    """
    if record is None:
        return "–"
    mean, deviation = f"{100 * record[f'{metric}_mean']:.1f}", record[f"{metric}_std"]
    if deviation is not None:
        return f"{mean} ± {100 * deviation:.1f}"
    interval = record.get(f"{metric}_ci")
    return f"{mean} [{100 * interval[0]:.1f}, {100 * interval[1]:.1f}]" if interval else mean


def seeds_of(result: Mapping[str, Any]) -> str:
    """
    >>> seeds_of({"summary": [{"seeds": 3}, {"seeds": 3}]})
    'mean ± standard deviation over 3 seeds'
    """
    counts = sorted({record["seeds"] for record in result["summary"]})
    if counts == [1]:
        return "of one seed"
    number = str(counts[0]) if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    return f"mean ± standard deviation over {number} seeds"


def has_single_seeds(result: Mapping[str, Any]) -> bool:
    return any(record["seeds"] == 1 for record in result["summary"])


def spread_words(result: Mapping[str, Any]) -> str:
    """
    >>> spread_words({"summary": [{"seeds": 1}]})
    'of one seed, [95 % interval over rows]'
    >>> spread_words({"summary": [{"seeds": 1}, {"seeds": 3}]})
    'mean ± standard deviation over 1 to 3 seeds; of one seed, [95 % interval over rows]'
    """
    seeds, single = seeds_of(result), "of one seed"
    if not has_single_seeds(result):
        return seeds
    return (seeds if seeds == single else f"{seeds}; {single}") + ", [95 % interval over rows]"


def full_table(result: Mapping[str, Any]) -> Table:
    return Table(
        caption=f"Every score and metric, {spread_words(result)}",
        columns=(
            *(Column(title, numeric=False) for title in ("Other data", "Method", "Score", "Stage")),
            *(Column(title, meaning) for title, meaning in METRIC_TITLES.values()),
        ),
        rows=tuple(
            (
                record["out"],
                record["arm"],
                SCORE_TITLES[record["score"]],
                STAGE_TITLES[record["stage"]].lower(),
                *(percent(record, metric) for metric in METRIC_TITLES),
            )
            for record in result["summary"]
        ),
        grouped=True,
    )


def confidence_table(result: Mapping[str, Any]) -> Table:
    stages = list(dict.fromkeys(record["stage"] for record in result["confidence"]))
    by_row: dict[tuple[str, str], dict[str, Record]] = {}
    for record in result["confidence"]:
        by_row.setdefault((record["set"], record["arm"]), {})[record["stage"]] = record
    return Table(
        caption=f"Mean confidence in %, {seeds_of(result)}",
        columns=(
            *text_columns("Data", "Method"),
            *(Column(STAGE_TITLES[stage]) for stage in stages),
        ),
        rows=tuple(
            (name, arm, *(percent(by_stage.get(stage), "confidence") for stage in stages))
            for (name, arm), by_stage in by_row.items()
        ),
        grouped=True,
    )


def ood_comparison_page(result: Mapping[str, Any]) -> Page:
    outs = list(dict.fromkeys(record["out"] for record in result["summary"]))
    forests = tuple(auroc_forest(result, out) for out in outs)
    return Page(
        title="Which method detects out-of-domain data?",
        lead=answer_sentence(result),
        facts=Facts(
            (
                path_fact("Comparison", result["comparison"]),
                Fact("Runs", str(len(result["runs"]))),
                *(Fact(one["name"], f"{one['rows']:,} rows") for one in result["sets"]),
            )
        ),
        answer=Answer(ood_verdicts(result), blocks=(*forests, Prose(AUROC_NOTE)), wide=True),
        sections=(
            Section(
                "Detection",
                (
                    headline_table(result),
                    *(Prose(note, "note") for note in result["notes"]),
                ),
            ),
            Section("Confidence", (confidence_table(result),)),
            Section("All scores", (Details("Every score, stage and metric", (full_table(result),)),)),
            Section("How to read this", tuple(Prose(text) for text in reading(result))),
        ),
    )


def reading(result: Mapping[str, Any]) -> tuple[str, ...]:
    """The last line is about intervals, which only single seeds have here."""
    return READING if has_single_seeds(result) else READING[:-1]


def answer_sentence(result: Mapping[str, Any]) -> str:
    """On which sets some method is ahead of the others by more than the spread."""
    outs = dict.fromkeys(record["out"] for record in result["summary"])
    ahead = {out: _ahead(result, out) for out in outs}
    unclear = [f"`{out}`" for out, arm in ahead.items() if arm is None]
    clear = [f"On `{out}`, `{arm}` does best." for out, arm in ahead.items() if arm is not None]
    if not unclear:
        return " ".join(clear)
    return " ".join([*clear, f"No method is clearly ahead on {' and '.join(unclear)}."])


def _ahead(result: Mapping[str, Any], out: str) -> str | None:
    """The method whose bar at its best way is right of the best bar of every other method."""
    found = {
        arm: max(by_way.values(), key=lambda record: float(record["auroc_mean"]))
        for (name, arm), by_way in confidence_records(result).items()
        if name == out
    }
    best = max(found, key=lambda arm: float(found[arm]["auroc_mean"]))

    def end(arm: str, side: int) -> float:
        return 100 * float(found[arm]["auroc_mean"]) + (1 if side else -1) * bar_lengths(found[arm])[side]

    others = [end(arm, 1) for arm in found if arm != best]
    is_guessing = found[best]["auroc_mean"] < GUESSING
    return None if is_guessing or end(best, 0) <= max(others, default=0.0) else best


def ood_verdicts(result: Mapping[str, Any]) -> tuple[Verdict, ...]:
    """For every set the highest AUROC."""
    highest: dict[str, float] = {}
    for (out, _), by_way in confidence_records(result).items():
        means = [float(record["auroc_mean"]) for record in by_way.values()]
        highest[out] = max([highest.get(out, 0.0), *means])
    return tuple(
        Verdict(tone_of(auroc), "", line)
        for auroc, line in zip(highest.values(), best_lines(result), strict=True)
    )


def best_lines(result: Mapping[str, Any]) -> list[str]:
    """One line for every out-set."""
    return [best_line(result, out) for out in dict.fromkeys(record["out"] for record in result["summary"])]


def best_line(result: Mapping[str, Any], out: str) -> str:
    """The arm and way with the highest mean AUROC, beside what plain training gives as it is."""
    cells = [
        (record, arm, way)
        for (name, arm), by_way in confidence_records(result).items()
        if name == out
        for way, record in by_way.items()
    ]
    best, arm, way = max(cells, key=lambda cell: cell[0]["auroc_mean"])
    first, first_arm, first_way = cells[0]
    line = f"{out}: {arm}, {way}, has the highest AUROC, {percent(best, 'auroc')} %"
    if best["auroc_mean"] < GUESSING:
        return f"{line}: no method is better than guessing."
    return f"{line}." if best is first else f"{line}; {first_arm}, {first_way}, {percent(first, 'auroc')} %."


AUROC_NOTE = (
    "AUROC: the chance that an in-domain row scores above one of the other set. The dashed line is guessing, "
    "50 %; further right is better."
)


def auroc_forest(result: Mapping[str, Any], out: str) -> Forest:
    """AUROC of every arm and way, with one standard deviation over seeds, or one seed's interval."""
    ways = ways_of(result)
    rows = []
    for (name, arm), by_way in confidence_records(result).items():
        if name == out:
            cells = [_effects(by_way.get(way), KINDS[place]) for place, way in enumerate(ways)]
            rows.append((arm, "", cells))
    caption = f"AUROC % of {result['in']} against {out} by confidence, {spread_words(result)}"
    return forest(caption, ways, rows, origin=50.0)


def _effects(record: Record | None, kind: str) -> list[Effect]:
    if record is None:
        return []
    mean = 100 * record["auroc_mean"]
    left, right = bar_lengths(record)
    return [Effect(mean, mean - left, mean + right, percent(record, "auroc"), kind)]


def bar_lengths(record: Record) -> tuple[float, float]:
    """How far the bar of a dot goes to the left and to the right, in points of AUROC."""
    if record["auroc_std"] is not None:
        return 100 * record["auroc_std"], 100 * record["auroc_std"]
    low, high = record["auroc_ci"]
    # Percentiles of draws need not lie on both sides of the value.
    return 100 * max(record["auroc_mean"] - low, 0.0), 100 * max(high - record["auroc_mean"], 0.0)
