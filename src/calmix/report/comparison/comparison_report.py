"""`report.html` of a comparison: the effects and the recommendation first, then tables, curves and costs."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from calmix.printable import duration
from calmix.report.comparison.comparison_tables import (
    BETTER_NOTE,
    ECE_NOTE,
    ONE_SEED_NOTE,
    SIGNIFICANT_NOTE,
    STAGES,
    difference_tables,
    failure_table,
    next_step,
    reference_title,
    side_by_side_table,
    slice_tables,
    splits_of,
    summary_tables,
)
from calmix.report.comparison.effects import READING, difference_forest, headline_forest
from calmix.report.comparison.overlay import overlay_widget
from calmix.report.pages.page import (
    Answer,
    Block,
    Code,
    Details,
    Fact,
    Facts,
    Page,
    Prose,
    Section,
    Verdict,
    write_page,
)
from calmix.report.tables import WEAK_ECE_NOTE, Column, Table, capital, text_columns

UNDECIDED = ("cannot_tell", "not_learned", "nothing_to_compare")


def write_comparison_report(data: Mapping[str, Any], path: Path) -> Path:
    """`data`: what `calmix compare --json` prints."""
    return write_page(comparison_page(data), path)


def comparison_page(data: Mapping[str, Any]) -> Page:
    """The report as data."""
    sections = [
        Section("How the method was chosen", _recommendation_blocks(data)),
        Section("All methods, raw and with temperature scaling", _summary_blocks(data)),
    ]
    overlay = overlay_widget(data)
    if overlay is not None:
        sections.append(Section("Reliability of the methods", (overlay,)))
    for stage in reversed(STAGES):
        blocks = _difference_blocks(data, stage)
        if blocks:
            sections.append(Section(f"Against {reference_title(data, stage)}", blocks))
    if data.get("slices"):
        lines = [Prose(f"{capital(line)}.") for line in data["slice_sentences"]]
        sections.append(Section("Slices", (*lines, *slice_tables(data))))
    if data["failures"]:
        sections.append(Section("Missing runs", (failure_table(data),)))
    sections += [
        Section("Runs and their cost", (_runs_table(data),)),
        Section("How to read this", _reading_blocks(data)),
        Section("Configuration", _configuration_blocks(data)),
    ]
    return Page(
        title=f"{Path(data['output']).resolve().name}: {len(data['arms'])} methods compared",
        lead=answer_sentence(data["recommendation"]["sentence"]),
        facts=_headline(data),
        sections=tuple(sections),
        answer=_answer(data),
    )


def answer_sentence(sentence: str) -> str:
    """The recommendation without its numbers, which stand below it, and without abbreviations.

    >>> answer_sentence("Use `erl`: it is better than plain + TS (accuracy +1.0 [+0.2, +1.8] points).")
    'Use `erl`: it is better than plain with temperature scaling.'
    """
    return re.sub(r" \([^()]*\[[^()]*\)", "", sentence).replace("+ TS", "with temperature scaling")


def _answer(data: Mapping[str, Any]) -> Answer:
    """The effects per test set; the recommendation's lines and next step under the sentence."""
    recommendation = data["recommendation"]
    undecided = recommendation["verdict"] in UNDECIDED
    tests = [split for split in splits_of(data) if split != "validation"] or splits_of(data)
    found = [one for split in tests if (one := headline_forest(data, split)) is not None]
    lines = tuple(
        Verdict("unknown" if undecided else "good", "", capital(f"{line}."))
        for line in recommendation["lines"]
    )
    steps: list[tuple[str, str]] = []
    if recommendation["next_step"]:
        steps.append((next_step(recommendation), recommendation["command"] or ""))
    if recommendation["model"] and recommendation["verdict"] != "not_learned":
        steps.append((f"Use the chosen model, {recommendation['chosen']}:", recommendation["model"]))
    blocks: tuple[Block, ...] = (*found, *([Prose(READING)] if found else []))
    return Answer(lines, tuple(steps), blocks, wide=True)


def _headline(data: Mapping[str, Any]) -> Facts:
    recommendation = data["recommendation"]
    seeds = sorted({seed for arm in data["arms"] for seed in arm["seeds"]})
    runs = sum(len(arm["seeds"]) for arm in data["arms"])
    missing = f"{len(data['failures'])} missing" if data["failures"] else "all finished"
    return Facts(
        (
            Fact(
                "Chosen",
                "–" if recommendation["verdict"] == "not_learned" else str(recommendation["chosen"] or "–"),
                "on validation NLL after temperature scaling",
            ),
            Fact("Seeds", ", ".join(map(str, seeds)), "" if len(seeds) > 2 else "three or more are better"),
            Fact("Runs", str(runs), missing),
            Fact("Model", Path(str(data["config"]["model"])).name),
            Fact("Test sets", ", ".join(s for s in splits_of(data) if s != "validation") or "none"),
        )
    )


def _recommendation_blocks(data: Mapping[str, Any]) -> tuple[Block, ...]:
    recommendation = data["recommendation"]
    tone: Any = "warning" if recommendation["verdict"] in UNDECIDED else "note"
    blocks: list[Block] = [Prose(recommendation["choice"] or recommendation["sentence"], tone)]
    blocks += [Prose(f"{note}.", "warning") for note in recommendation["notes"]]
    other = recommendation["alternative_model"]
    if other and recommendation["verdict"] in ("better", "trade_off"):
        blocks += [Prose(f"The alternative, {recommendation['alternative']}:"), Code(other)]
    if data["failures"]:
        blocks.append(Prose(f"{len(data['failures'])} runs are missing; see below.", "warning"))
    return tuple(blocks)


def _summary_blocks(data: Mapping[str, Any]) -> tuple[Block, ...]:
    everything = Details("All metrics, with their spread", tuple(summary_tables(data)))
    sortable = [side_by_side_table(data, split) for split in splits_of(data)]
    return (Prose("A click on a heading sorts."), *sortable, everything)


def _difference_blocks(data: Mapping[str, Any], stage: str) -> tuple[Block, ...]:
    tables = difference_tables(data, stage)
    if not tables:
        return ()
    forests = [difference_forest(data, split, stage, table.caption) for split, table in tables.items()]
    numbers = Details("The differences as tables", tuple(tables.values()))
    if stage == "uncalibrated":  # the easier reference, and as long
        return (Details("The differences as pictures", (Prose(READING), *forests)), numbers)
    return (Prose(READING), *forests, numbers)


def _runs_table(data: Mapping[str, Any]) -> Table:
    return Table(
        caption="What was run",
        columns=(
            *text_columns("Method", "Options", "Compared with", "Seeds"),
            Column("Time per run"),
        ),
        rows=tuple(
            (
                arm["name"],
                ", ".join(f"{name}={value}" for name, value in {**arm["options"], **arm["settings"]}.items())
                or "–",
                "–" if arm["reference"] in (None, arm["name"]) else arm["reference"],
                ", ".join(map(str, arm["seeds"])) or "none",
                duration(arm["seconds"]) if arm["seconds"] is not None else "–",
            )
            for arm in data["arms"]
        ),
    )


def _reading_blocks(data: Mapping[str, Any]) -> tuple[Block, ...]:
    notes = [
        "Every method is compared with plain fine-tuning, uncalibrated and with a temperature fitted on "
        "validation, which is hard to beat.",
        "Intervals come from a paired bootstrap: rows and seeds are resampled, the same for both sides. "
        "They are widened for few seeds. The intervals of tables and charts are not corrected for many "
        "comparisons: without any true effect, one in twenty excludes 0. Marks and "
        "recommendation are corrected.",
        f"In the summary, {BETTER_NOTE}.",
        f"In the differences, {SIGNIFICANT_NOTE}.",
        f"{capital(ECE_NOTE)}.",
        f"{capital(WEAK_ECE_NOTE)}.",
        "The choice is made on validation alone, by NLL after temperature scaling, unless accuracy is lower. "
        "Test sets and calibration errors are reported and do not affect the choice.",
    ]
    blocks: list[Block] = [Prose(note) for note in notes]
    if any(len(arm["seeds"]) == 1 for arm in data["arms"]):
        blocks.insert(0, Prose(f"{capital(ONE_SEED_NOTE)}.", "warning"))
    return tuple(blocks)


def _configuration_blocks(data: Mapping[str, Any]) -> tuple[Block, ...]:
    return (
        Prose("To repeat the comparison (in the same directory it continues and repeats no run):"),
        Code(f"calmix compare --config config.yaml --output {shlex.quote(str(data['output']))}"),
        Prose("To render this page again, without training:"),
        Code(f"calmix compare --from {shlex.quote(str(data['output']))}"),
        Prose("config.yaml:"),
        Code(yaml.safe_dump(dict(data["config"]), sort_keys=False, allow_unicode=True).rstrip()),
    )
