"""`ood.html`: how well a run's scores separate in-domain from other data."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from calmix.calibration.uncertainty.ood_verdict import FAIR, GOOD
from calmix.report.pages.axes import number_axis, percent_axis
from calmix.report.pages.page import (
    Answer,
    Beside,
    Block,
    Chart,
    Fact,
    Facts,
    Page,
    Prose,
    Section,
    Tone,
    Verdict,
    write_page,
)
from calmix.report.pages.plot import Legend, Plot
from calmix.report.tables import Column, Table, capital, text_columns

SCORE_TITLES = {
    "msp": "confidence",
    "max_logit": "largest logit",
    "energy": "energy",
    "entropy": "entropy",
    "mc_msp": "confidence, MC",
    "mc_entropy": "entropy, MC",
}
METRIC_TITLES = {
    "auroc": ("AUROC %", "the chance that an in-domain row scores above another; 50 is guessing"),
    "aupr_in": ("AUPR in %", "average precision of detecting in-domain rows"),
    "aupr_out": ("AUPR out %", "average precision of detecting the others"),
    "fpr95": ("FPR@95 %", "others above the threshold of 95 % of in-domain rows; lower is better"),
}
STAGE_TITLES = {
    "uncalibrated": "Raw",
    "calibrated": "After temperature scaling",
    "mc_dropout": "MC dropout, raw",
}
STAGES = {"uncalibrated": "raw", "calibrated": "+ TS", "mc_dropout": "MC dropout, raw"}
# Of out-of-domain rows: a detector that rejects fewer is none.
USEFUL = 0.5
KINDS = ("blue", "red", "green", "yellow", "purple", "cyan", "grey")


def write_ood_report(result: Mapping[str, Any], path: Path) -> Path:
    """Write the page of what `calmix ood` found."""
    return write_page(ood_page(result), path)


def detection_table(result: Mapping[str, Any]) -> Table:
    """One row for every out-set, stage and score, with 95 % intervals."""
    columns = [Column(title, meaning) for title, meaning in METRIC_TITLES.values()]
    rows = tuple(
        (
            found["out"],
            STAGES[found["stage"]],
            SCORE_TITLES[found["score"]],
            *(with_interval(found, metric) for metric in METRIC_TITLES),
        )
        for found in result["scores"]
    )
    return Table(
        caption="Detection of out-of-domain rows, with 95 % intervals",
        columns=(
            *text_columns("Data", "Stage", "Score"),
            *columns,
        ),
        rows=rows,
        grouped=True,
    )


def headline_table(result: Mapping[str, Any]) -> Table:
    """What fits in a terminal: AUROC before and after temperature scaling, FPR@95 after."""
    by_stage = {(found["out"], found["score"], found["stage"]): found for found in result["scores"]}
    pairs = dict.fromkeys((found["out"], found["score"]) for found in result["scores"])
    rows = []
    for out, score in pairs:
        before, after = (by_stage[out, score, stage] for stage in ("uncalibrated", "calibrated"))
        cells = [with_interval(before, "auroc"), with_interval(after, "auroc")]
        rows.append((out, SCORE_TITLES[score], *cells, f"{100 * after['fpr95']:.1f}"))
    return Table(
        caption="Detection of out-of-domain rows, with 95 % intervals",
        columns=(
            *text_columns("Data", "Score"),
            Column("AUROC % raw"),
            Column("AUROC % + TS"),
            Column("FPR@95 %"),
        ),
        rows=tuple(rows),
        grouped=True,
    )


def with_interval(found: Mapping[str, Any], metric: str) -> str:
    """
    >>> with_interval({"auroc": 0.9312, "auroc_ci": [0.92, 0.9455]}, "auroc")
    '93.1 [92.0, 94.5]'
    """
    low, high = found[f"{metric}_ci"]
    return f"{100 * found[metric]:.1f} [{100 * low:.1f}, {100 * high:.1f}]"


def ood_page(result: Mapping[str, Any]) -> Page:
    sets = result["sets"]
    stages = list(sets[0]["mean_confidence"])
    charts = {
        stage: confidence_chart(
            result["histograms"], stage, STAGE_TITLES[stage], confidence_caption(result, stage)
        )
        for stage in stages
    }
    others = tuple(chart for stage, chart in charts.items() if stage != "calibrated")
    blocks: list[Block] = [Prose(note, "note") for note in result["notes"]]
    return Page(
        title="Does the model detect out-of-domain data?",
        lead=answer_sentence(result),
        facts=Facts(
            (
                path_fact("Run", result["run"]),
                Fact("Method", str(result["method"])),
                Fact("Temperature", f"{result['temperature']:.3f}"),
                Fact("MC dropout", f"{result['mc_dropout']} passes" if result["mc_dropout"] else "none"),
                *(Fact(one["name"], f"{one['rows']:,} rows") for one in sets),
            )
        ),
        answer=Answer(ood_verdicts(result), (next_step(result),), (charts["calibrated"],)),
        sections=(
            Section("Confidence before temperature scaling", (Beside(others),)),
            Section(
                "Detection",
                (detection_table(result), *map(_line, conclusions(result)[-2:]), *blocks),
            ),
            Section("How to read this", tuple(Prose(text) for text in READING)),
        ),
    )


READING = (
    "A high score means in domain. AUROC is the chance that an in-domain row scores above one of the other "
    "set: 50 % is guessing, 100 % is perfect.",
    "Scores: the largest probability (confidence), the largest logit, the energy log Σ exp z, the negative "
    "entropy; MC: of the mean over passes with dropout on. MC dropout, raw, has no temperature in its "
    "passes.",
    "A temperature changes the order of rows by confidence only with more than two classes, and never "
    "the order by largest logit.",
    "Intervals are percentiles of a bootstrap over the rows of both sets; not over runs.",
)


def conclusions(result: Mapping[str, Any]) -> list[str]:
    """The verdicts, the score to reject rows by, and what its threshold does to every set."""
    recommended, rejection = result["recommended"], result["rejection"]
    lines = [
        *result["verdicts"],
        f"recommended score: {SCORE_TITLES[recommended['score']]}; {recommended['reason']}",
    ]
    if rejection["threshold"] is None:
        return [*lines, rejection["rule"]]
    shares = ", ".join(f"{100 * share:.1f} % of {name}" for name, share in rejection["rejected"].items())
    return [*lines, f"{rejection['rule']}; it rejects {shares}"]


def answer_sentence(result: Mapping[str, Any]) -> str:
    """Whether the model notices data that it was not trained for, by the recommended score.

    >>> found = [{"out": name, "score": "msp", "stage": "calibrated", "auroc": auroc}
    ...          for name, auroc in {"letters": 0.97, "books": 0.78, "films": 0.5}.items()]
    >>> def answer(*scores):
    ...     return answer_sentence({"in": "test", "recommended": {"score": "msp"}, "scores": scores})
    >>> answer(found[0])
    'Yes: confidence separates `letters` from test.'
    >>> answer(*found[:2])
    'Partly: confidence separates `letters` well, `books` only in part from test.'
    >>> answer(found[1], found[2])
    'Partly: confidence separates `books` only in part, `films` hardly from test.'
    >>> answer(found[2])
    'No: confidence hardly separates `films` from test.'
    """
    score, inside = SCORE_TITLES[result["recommended"]["score"]], result["in"]
    named: dict[str, list[str]] = {}
    for name, auroc in recommended_aurocs(result).items():
        named.setdefault(tone_of(auroc), []).append(name)
    if set(named) == {"good"}:
        return f"Yes: {score} separates {_listed(named['good'])} from {inside}."
    if set(named) == {"bad"}:
        return f"No: {score} hardly separates {_listed(named['bad'])} from {inside}."
    words = {"good": "well", "fair": "only in part", "bad": "hardly"}
    parts = [f"{_listed(named[tone])} {how}" for tone, how in words.items() if tone in named]
    return f"Partly: {score} separates {', '.join(parts)} from {inside}."


def _listed(names: Sequence[str]) -> str:
    return " and ".join(f"`{name}`" for name in names)


def recommended_aurocs(result: Mapping[str, Any]) -> dict[str, float]:
    """By set, of the recommended score after temperature scaling."""
    score = result["recommended"]["score"]
    wanted = [found for found in result["scores"] if found["score"] == score]
    staged = [found for found in wanted if found["stage"] == "calibrated"] or wanted
    return {found["out"]: float(found["auroc"]) for found in staged}


def ood_verdicts(result: Mapping[str, Any]) -> tuple[Verdict, ...]:
    """Of every set: on calibrated confidence, and on the recommended score where it is another."""
    judged = ("msp", result["recommended"]["score"])
    told = [one for one in result["scores"] if one["stage"] == "calibrated" and one["score"] in judged]
    return tuple(
        Verdict(tone_of(one["auroc"]), "", text) for one, text in zip(told, result["verdicts"], strict=True)
    )


def tone_of(auroc: float) -> Tone:
    return "good" if auroc >= GOOD else "fair" if auroc >= FAIR else "bad"


def next_step(result: Mapping[str, Any]) -> tuple[str, str]:
    """Reject rows by the saved threshold, and what that does to every set."""
    rejection = result["rejection"]
    if rejection["threshold"] is None:
        return (_line(rejection["rule"]).text, "")
    score = SCORE_TITLES[rejection["score"]]
    shares = {name: f"{100 * share:.0f} % of {name}" for name, share in rejection["rejected"].items()}
    outside = {name: share for name, share in rejection["rejected"].items() if name != result["in"]}
    if all(share < USEFUL for share in outside.values()):
        caught = " and ".join(shares[name] for name in outside)
        return (
            f"Do not rely on a threshold of {score} to detect such data: one that keeps "
            f"{100 * rejection['keep']:g} % of in-domain rows rejects only {caught}.",
            "",
        )
    return (
        f"Send rows that look out of domain to a human: a threshold of {score} rejects "
        f"{' and '.join(shares.values())}.",
        f"calmix predict {shlex.quote(str(result['run']))} --input new.csv --output predictions.csv "
        "--reject-ood",
    )


def _line(text: str) -> Prose:
    return Prose(f"{capital(text)}.")


def path_fact(name: str, path: str) -> Fact:
    """The last part of a path, and the whole of it where there is more."""
    last = Path(path).name
    return Fact(name, last, path if path != last else "")


def confidence_caption(result: Mapping[str, Any], stage: str) -> str:
    means = [f"{one['name']} {100 * one['mean_confidence'][stage]:.1f} %" for one in result["sets"]]
    return f"The share of rows by confidence. Mean confidence: {', '.join(means)}."


def confidence_chart(histograms: Mapping[str, Any], stage: str, title: str, caption: str) -> Chart:
    """One outline for every set; the familiar one is filled."""
    edges = histograms["edges"]
    shares = {name: by_stage[stage] for name, by_stage in histograms["shares"].items()}
    highest = [100 * share for each in shares.values() for share in each]
    used = [place for each in shares.values() for place, share in enumerate(each) if share]
    start = edges[min(used, default=0)]
    plot = Plot(percent_axis(start, edges[-1], "confidence"), number_axis(highest, "rows, %", zero=True), 300)
    entries = []
    for place, (name, heights) in enumerate(shares.items()):
        kind = KINDS[place % len(KINDS)]
        entries.append((name, kind))
        outline: list[tuple[float, float | None]] = []
        for left, right, share in zip(edges, edges[1:], heights, strict=False):
            if right <= start:
                continue
            tip = f"{name}: confidence {left:.2f} to {right:.2f}, {100 * share:.1f} % of the rows"
            outline += [(left, 100 * share), (right, 100 * share)]
            if place == 0:
                plot.bar((left, right), (0.0, 100 * share), f"{kind} faint", tip)
        plot.line(outline, kind, name)
    legend = Legend(
        tuple(("box" if place == 0 else "line", kind, name) for place, (name, kind) in enumerate(entries))
    )
    return Chart(
        plot.svg(f"Histogram of confidence, {stage}. {caption}"), title, caption, legend, "confidence"
    )
