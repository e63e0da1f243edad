"""The charts of a reproduction: a forest plot of the claims, and the losses of every epoch."""

from __future__ import annotations

from collections.abc import Sequence

from calmix.report.pages.axes import number_axis
from calmix.report.pages.forest import Effect, forest
from calmix.report.pages.page import Chart, Forest
from calmix.report.pages.plot import Legend, Plot
from calmix.report.run.history import epoch_axis
from calmix.reproduction.outcome import POINTS, JudgedEffect, Regime
from calmix.reproduction.preset import Preset
from calmix.reproduction.verdicts import HELD, REVERSED, UNDECIDED

KINDS = {HELD: "green", REVERSED: "red", UNDECIDED: "grey"}
ARM_KINDS = ("grey", "blue", "red", "green", "purple", "yellow", "cyan")


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
        rows.append((one.claim.key, preset.column_titles[one.effect.column], [[effect]]))
    return forest("Effects of the claims, in points", ["Effect"], rows)


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
