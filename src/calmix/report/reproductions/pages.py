"""Markdown pages of reproductions: one per paper, and an index with the plan and the state of all claims."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from calmix.io.run_directory import replacing
from calmix.report.reproductions.outcome_report import scale_note, write_reproduction_report
from calmix.report.reproductions.side_by_side import (
    EFFECTS_NOTE,
    count_table,
    side_by_side,
    state_table,
)
from calmix.report.tables import Column, Table, text_columns
from calmix.reproduction.catalogue import all_presets, papers
from calmix.reproduction.cost import minutes, run_minutes
from calmix.reproduction.outcome import Outcome, find_outcomes, preset_of
from calmix.reproduction.preset import SMALL, SMOKE, Preset
from calmix.reproduction.state import ClaimState, claim_states
from calmix.user_error import UserError, argument

INTRODUCTION = """
Every table and figure of five papers by its name, with a verdict on every claim. The presets are data:
`calmix reproduce --list` names them, and each is one YAML file in `src/calmix/reproduction/presets`. The
primary outcome of every claim is fixed there before anything is run.

    calmix reproduce tdmixup/table2 --scale small --data-dir DATA --output OUT
    calmix reproduce --from OUT                                # render again, nothing trained

`full` is the paper's own setting; it has not been run here. `small` runs on the embedded 6-layer encoder or
on small networks, with fewer rows, and keeps the last epoch, so that plain training can reach the regime
that the papers study. The encoder's own card lists SNLI, MNLI and Quora among its pre-training data: MNLI
and QQP are not unseen for it.

A claim is *held* or *reversed* if the whole interval of its effect lies on one side of 0 (of the margin,
where it claims equality), at the level of Holm's step over all claims of its table; else it is *undecided*. A
calibration error where both arms are within the noise floor is undecided too. *Untested here* needs data or
weights that are not available offline, or a network that `small` does not train (VGG-16, ResNet-34 and -50,
RoBERTa); the command would test it.
""".strip()


def write_pages(directory: Path) -> list[Path]:
    """All pages of the outcomes in a directory: a report of each, a page per paper, the index."""
    outcomes = find_outcomes(directory)
    if not outcomes and any(directory.iterdir()):  # somebody else's README.md may be in it
        raise UserError(
            "no reproduction in this directory",
            file=directory,
            remedy=f"give the {argument('output')} of a reproduction",
        )
    own = {outcome.preset: preset_of(outcome, directory) for outcome in outcomes}
    known = {preset.name: preset for preset in all_presets()}
    presets = list({**known, **own}.values())
    written = [
        write_reproduction_report(own[one.preset], one, directory / f"{one.preset}-{one.scale}.html")
        for one in outcomes
    ]
    for paper in dict.fromkeys(preset.paper for preset in presets):
        members = [preset for preset in presets if preset.paper == paper]
        written.append(_write(directory / f"{paper}.md", paper_page(paper, members, outcomes)))
    written.append(_write(directory / "README.md", index_page(presets, outcomes)))
    return written


def paper_page(paper: str, presets: Sequence[Preset], outcomes: Sequence[Outcome]) -> str:
    """The verdicts of a paper, then table by table: its claims, and the paper's numbers beside ours."""
    states = claim_states(presets, outcomes)
    lines = [f"# {paper}", papers().get(paper, "A preset of your own."), "[All papers](README.md)"]
    if states:
        lines.append(count_table(states, lambda state: state.preset.place, "Place").to_markdown())
        lines.append(EFFECTS_NOTE)
    for preset in presets:
        lines += (
            [f"## {preset.place}: {preset.title}", preset.note]
            if preset.note
            else [f"## {preset.place}: {preset.title}"]
        )
        own = [one for one in outcomes if one.preset == preset.name and one.scale != SMOKE]
        lines += claim_lines([state for state in states if state.preset is preset])
        for outcome in own:
            lines.append(f"Scale `{outcome.scale}`. {scale_note(preset, outcome.scale)}".strip())
            lines += [f"**{t.caption}**\n\n{t.to_markdown()}" for t in side_by_side(preset, outcome)]
            if outcome.failures:
                lines.append(f"{len(outcome.failures)} runs did not finish.")
        if not own:
            lines.append("Not run yet.")
            lines += [f"**{t.caption}**\n\n{t.to_markdown()}" for t in side_by_side(preset, None)]
    return "\n\n".join(lines) + "\n"


def index_page(presets: Sequence[Preset], outcomes: Sequence[Outcome]) -> str:
    """The verdicts by paper, all claims table by table, and the plan of runs with its minutes."""
    states = claim_states(presets, outcomes)
    lines = [
        "# Reproductions",
        INTRODUCTION,
        "## Verdicts",
        count_table(states, lambda state: state.preset.paper, "Paper").to_markdown(),
        "A claim is tested on each of its data sets. " + EFFECTS_NOTE,
        "## All claims",
    ]
    for paper in dict.fromkeys(preset.paper for preset in presets):
        lines.append(f"### [{paper}]({paper}.md)")
        for preset in (one for one in presets if one.paper == paper):
            lines.append(f"#### {preset.place}: {preset.title}")
            lines += claim_lines([state for state in states if state.preset is preset]) or ["No claims."]
    lines += ["## Plan of runs", plan_table(presets, outcomes).to_markdown()]
    return "\n\n".join(lines) + "\n"


def claim_lines(states: Sequence[ClaimState]) -> list[str]:
    """The claims of a preset under the command that tests them; those that need another one follow."""
    lines = []
    for command in dict.fromkeys(state.command for state in states):
        members = [state for state in states if state.command == command]
        lines += [f"    {command}", state_table(members).to_markdown()]
    return lines


def plan_table(presets: Sequence[Preset], outcomes: Sequence[Outcome]) -> Table:
    """What every preset costs at `small`; runs that an earlier line shares are counted there."""
    rows, counted, total = [], set[str](), 0.0
    for preset in presets:
        costs = run_minutes(preset)
        fresh = sum(cost for key, cost in costs.items() if key not in counted)
        counted |= set(costs)
        total += fresh
        alone = minutes(preset)
        done = [one for one in outcomes if one.preset == preset.name and one.scale == SMALL]
        if preset.analysis:
            state = "nothing to train"
        elif alone is None:
            state = "full only"
        else:
            state = "run" if done and done[0].finished else "begun" if done else "not run yet"
        seeds = len(preset.scales[SMALL].seeds) if SMALL in preset.scales else None
        rows.append(
            (
                preset.name,
                preset.title,
                "–" if seeds is None or preset.analysis else str(seeds),
                "–" if alone is None else f"{alone:,.0f}",
                "–" if alone is None else f"{fresh:,.0f}",
                f"{done[0].seconds / 60:,.0f}" if done else "–",
                state,
            )
        )
    rows.append(("all", "", "", "", f"{total:,.0f}", "", f"{total / 60:,.0f} hours of one core"))
    return Table(
        caption="Plan",
        columns=(
            *text_columns("Preset", "What"),
            Column("Seeds"),
            Column("Minutes alone"),
            Column("Minutes after the lines above"),
            Column("Minutes taken"),
            Column("State", numeric=False),
        ),
        rows=tuple(rows),
        notes=("Minutes of one core at the scale small, estimated from the presets (reproduction/cost.py).",),
    )


def _write(path: Path, text: str) -> Path:
    with replacing(path) as fresh:
        fresh.write_text(text, encoding="utf-8")
    return path
