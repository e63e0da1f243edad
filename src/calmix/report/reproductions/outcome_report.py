"""The report of a reproduction: the paper's table and ours, a forest plot of the claims, the regime."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from calmix.printable import duration
from calmix.report.pages.axes import number_axis
from calmix.report.pages.forest import Effect, forest
from calmix.report.pages.page import (
    Answer,
    Block,
    Chart,
    Code,
    Details,
    Fact,
    Facts,
    Forest,
    Page,
    Prose,
    Section,
    write_page,
)
from calmix.report.pages.plot import Legend, Plot
from calmix.report.reproductions.side_by_side import claims_table, side_by_side
from calmix.report.run.history import epoch_axis
from calmix.report.tables import Column, Table, capital, text_columns
from calmix.reproduction.catalogue import papers
from calmix.reproduction.outcome import POINTS, JudgedEffect, Outcome, Regime, judged
from calmix.reproduction.preset import FULL, SMOKE, Preset
from calmix.reproduction.verdicts import HELD, REVERSED, UNDECIDED

KINDS = {HELD: "green", REVERSED: "red", UNDECIDED: "grey"}
ARM_KINDS = ("grey", "blue", "red", "green", "purple", "yellow", "cyan")
SCALE_NOTES = {
    FULL: "The paper's own setting.",
    SMOKE: "A tiny network on rows made in memory: only the form of the table means something.",
}


READING = (
    "An effect is the metric of the claim's method minus that of the method it is compared with, with its "
    "interval. The dashed line is no effect; a cross is the published effect. Green: the claim holds; red: "
    "reversed; grey: undecided."
)


def write_reproduction_report(preset: Preset, outcome: Outcome, path: Path) -> Path:
    return write_page(reproduction_page(preset, outcome), path)


def reproduction_page(preset: Preset, outcome: Outcome) -> Page:
    """The report as data."""
    found = judged(preset, outcome)
    sections = [
        Section("The paper's table and ours", _table_blocks(preset, outcome)),
        Section("Claims", _claim_blocks(preset, found)),
    ]
    if outcome.regimes:
        sections.append(Section("Regime: losses by epoch", _regime_blocks(outcome.regimes)))
    if outcome.failures:
        sections.append(Section("Missing runs", (_failures(outcome),)))
    sections.append(Section("How it was run", _run_blocks(preset, outcome)))
    return Page(
        title=f"{preset.name}, {outcome.scale} scale: {preset.title}",
        lead=answer_sentence([one.verdict.word for one in found], outcome.scale),
        facts=_facts(found, outcome),
        sections=tuple(sections),
        answer=Answer(blocks=(claims_forest(preset, found), Prose(READING)) if found else (), wide=True),
    )


def answer_sentence(verdicts: Sequence[str], scale: str) -> str:
    """What became of the claims.

    >>> answer_sentence([HELD], "full")
    'The one claim that was tested holds at full scale.'
    >>> answer_sentence([HELD, HELD, UNDECIDED], "small")
    'Of 3 tested claims 2 hold, 0 are reversed and 1 is undecided at small scale.'
    >>> answer_sentence([], "smoke")
    'No claim of this table was tested at smoke scale.'
    """
    counts = [verdicts.count(word) for word in (HELD, REVERSED, UNDECIDED)]
    if not verdicts:
        return f"No claim of this table was tested at {scale} scale."
    if len(verdicts) == 1:
        word = ("holds", "is reversed", "is undecided")[counts.index(1)]
        return f"The one claim that was tested {word} at {scale} scale."
    words = (("holds", "hold"), ("is reversed", "are reversed"), ("is undecided", "are undecided"))
    held, *others = (f"{count} {word[count != 1]}" for count, word in zip(counts, words, strict=True))
    return f"Of {len(verdicts)} tested claims {held}, {' and '.join(others)} at {scale} scale."


def _facts(found: Sequence[JudgedEffect], outcome: Outcome) -> Facts:
    words = [one.verdict.word for one in found]
    return Facts(
        (
            Fact("Held", str(words.count(HELD)), f"of {len(words)} tests"),
            Fact("Reversed", str(words.count(REVERSED))),
            Fact("Undecided", str(words.count(UNDECIDED))),
            Fact("Scale", outcome.scale, "finished" if outcome.finished else "not finished"),
            Fact("Training", duration(outcome.seconds), "all runs, one after the other"),
        )
    )


def _table_blocks(preset: Preset, outcome: Outcome) -> tuple[Block, ...]:
    notes = [note for note in (scale_note(preset, outcome.scale), preset.note) if note]
    source = Prose(f"{papers().get(preset.paper, preset.paper)}. {preset.place}.")
    return (source, *(Prose(note, "note") for note in notes), *side_by_side(preset, outcome))


def scale_note(preset: Preset, scale: str) -> str:
    """What a reader must know before comparing the numbers."""
    own = preset.scales[scale].note if scale in preset.scales else ""
    return SCALE_NOTES.get(scale) or (f"{capital(own)}." if own else "")


def _claim_blocks(preset: Preset, found: Sequence[JudgedEffect]) -> tuple[Block, ...]:
    if not found:
        return (Prose("No claim of this table has been tested at this scale."),)
    return (claims_table(preset, found),)


def _regime_blocks(regimes: Sequence[Regime]) -> tuple[Block, ...]:
    blocks: list[Block] = [
        Prose(
            "A validation loss that rises while the training loss falls shows an arm that was trained beyond "
            "its best epoch: the regime that the papers study."
        )
    ]
    groups: dict[tuple[str, str], list[Regime]] = {}
    for regime in regimes:
        groups.setdefault((regime.model, regime.task), []).append(regime)
    for (model, task), members in groups.items():
        title = f"{model}, {task}"
        caption = (
            f"{title}: training loss (dotted) and validation NLL (solid) by epoch, mean over seeds. "
            "The training loss of mixup is that of mixed rows."
        )
        chart = regime_chart(members, title, caption)
        blocks += [chart, Details("The numbers", (regime_table(members),))]
    return tuple(blocks)


def regime_table(regimes: Sequence[Regime]) -> Table:
    """First, best and last validation loss of every arm."""
    rows = []
    for regime in regimes:
        losses = [entry["validation_nll"] for entry in regime.epochs if "validation_nll" in entry]
        training = [entry["train_loss"] for entry in regime.epochs if "train_loss" in entry]
        kept = sum(regime.kept) / len(regime.kept) if regime.kept else None
        numbers = (losses[0], min(losses), losses[-1]) if losses else ()
        rows.append(
            (
                regime.arm,
                *([f"{number:.3f}" for number in numbers] or ["–"] * 3),
                f"{training[-1]:.3f}" if training else "–",
                "–" if kept is None else f"{kept:.1f}",
            )
        )
    return Table(
        caption="Validation NLL by epoch",
        columns=(
            Column("Arm", numeric=False),
            Column("First epoch"),
            Column("Best epoch"),
            Column("Last epoch"),
            Column("Training loss, last epoch"),
            Column("Kept epoch, mean"),
        ),
        rows=tuple(rows),
    )


def _failures(outcome: Outcome) -> Table:
    return Table(
        caption="Runs that did not finish",
        columns=text_columns("Block", "Run", "Reason"),
        rows=tuple((str(one["block"]), str(one["run"]), str(one["reason"])) for one in outcome.failures),
    )


def _run_blocks(preset: Preset, outcome: Outcome) -> tuple[Block, ...]:
    import yaml

    blocks: list[Block] = [
        Prose(f"calmix {outcome.version}. The same again; finished runs are not repeated:"),
        Code(outcome.command),
    ]
    if outcome.data:
        listed = ", ".join(
            f"{preset.column_titles.get(key, key)}: {name}" for key, name in outcome.data.items()
        )
        blocks.append(Prose(f"Data: {listed}."))
    if outcome.settings:
        blocks.append(
            Details(
                "Settings", (Code(yaml.safe_dump(outcome.settings, sort_keys=False, allow_unicode=True)),)
            )
        )
    return tuple(blocks)


def claims_forest(preset: Preset, found: Sequence[JudgedEffect]) -> Forest:
    """The effect of every claim and column with its interval, coloured by verdict; a cross is the paper's."""
    rows = []
    for one in found:
        value, low, high = (
            POINTS * number for number in (one.effect.difference, one.verdict.low, one.verdict.high)
        )
        printed = one.claim.reported.get(one.effect.column)
        words = f"{value:+.2f} [{low:+.2f}, {high:+.2f}]: {one.verdict.word}"
        words += "" if printed is None else f"; published {printed:+.2f}"
        effect = Effect(value, low, high, words.replace("-", "−"), KINDS[one.verdict.word], other=printed)
        rows.append((one.claim.statement, preset.column_titles[one.effect.column], [[effect]]))
    return forest("The effect of each claim, in points", ["Effect"], rows, head="Claim")


def regime_chart(regimes: Sequence[Regime], title: str, caption: str) -> Chart:
    """Training loss (dotted) and validation NLL (solid) of every arm of a block by epoch."""
    keys = (("train_loss", "dotted", "training"), ("validation_nll", "", "validation"))
    values = [entry.get(key) for one in regimes for entry in one.epochs for key, *_ in keys]
    longest = max((one.epochs for one in regimes), key=len)
    plot = Plot(epoch_axis(longest), number_axis(values, "nats per row", zero=True), 300)
    for place, one in enumerate(regimes):
        kind = ARM_KINDS[place % len(ARM_KINDS)]
        for key, dash, words in keys:
            points = [(float(entry["epoch"]), entry.get(key)) for entry in one.epochs]
            plot.line(points, f"{kind} {dash}", f"{one.arm}, {words}")
            for epoch, value in points:
                if value is not None:
                    plot.mark(
                        epoch, value, "circle", kind, f"{one.arm}, {words}, epoch {epoch:g}: {value:.4f}", 3
                    )
    legend = Legend(
        tuple(("line", ARM_KINDS[place % len(ARM_KINDS)], one.arm) for place, one in enumerate(regimes))
    )
    return Chart(plot.svg(f"Line chart. {caption}"), title, caption, legend, "regime")
