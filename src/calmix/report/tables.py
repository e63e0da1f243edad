"""Tables for people: one structure, rendered for the terminal, as Markdown and on an HTML page.

`metrics.json` holds fractions. People's tables show accuracy and the calibration errors in percent; the
cells are text, made once, so that the three renderings cannot disagree.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any

from calmix.printable import printable

if TYPE_CHECKING:
    from rich.table import Table as RichTable

IN_SAMPLE = "†"
WITHIN_NOISE = "‡"
IN_SAMPLE_NOTE = "in-sample: the temperature was fitted on these rows, so the numbers are optimistic"
OUTSIDE = "§"
OUTSIDE_NOTE = "ECE outside its interval: sampling noise inflates the ECE; the interval corrects for it"
# Under every table with differences in ECE.
WEAK_ECE_NOTE = "differences in ECE are weaker evidence than those in NLL and Brier score: decide by these"
WITHIN_NOISE_NOTE = "ECE within the noise floor: not significantly different from perfect calibration"


@dataclass(frozen=True)
class Column:
    title: str
    meaning: str = ""
    numeric: bool = True


def text_columns(*titles: str) -> tuple[Column, ...]:
    """Columns of words, in the order of their titles."""
    return tuple(Column(title, numeric=False) for title in titles)


def capital(text: str) -> str:
    """As the start of a sentence.

    >>> capital("the ECE is biased"), capital("")
    ('The ECE is biased', '')
    """
    return text[:1].upper() + text[1:]


@dataclass(frozen=True)
class Table:
    """Rows of text under named columns; `grouped`: neighbours with equal first cells belong together."""

    caption: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()
    grouped: bool = False
    sortable: bool = False
    """On a page: a click on a heading orders the rows by that column."""

    def groups(self) -> list[list[tuple[str, ...]]]:
        """The rows in the blocks a reader sees: all alone, or those with the same first cell together.

        >>> rows = (("test", "1"), ("test", "2"), ("news", "3"))
        >>> Table("", (Column("split"), Column("n")), rows, grouped=True).groups()
        [[('test', '1'), ('test', '2')], [('news', '3')]]
        """
        if not self.grouped:
            return [[row] for row in self.rows]
        return [list(rows) for _, rows in groupby(self.rows, key=lambda row: row[0])]

    def to_markdown(self) -> str:
        """A pipe table, the notes under it.

        >>> print(Table("", (Column("split", numeric=False), Column("n")), (("a|b", "12"),)).to_markdown())
        | split | n |
        |:---|---:|
        | a\\|b | 12 |
        """
        lines = [
            _pipes(column.title for column in self.columns),
            "|" + "|".join("---:" if column.numeric else ":---" for column in self.columns) + "|",
            *(_pipes(row) for row in self.rows),
        ]
        return "\n".join(lines) + "".join(f"\n\n{escape_markdown(note)}" for note in self.notes)

    def to_rich(self) -> RichTable:
        """For `rich.print`: numbers to the right, a rule between groups, the notes as caption."""
        from rich import box
        from rich.table import Table as RichTable
        from rich.text import Text

        table = RichTable(
            title=Text(printable(self.caption), style="bold"),
            title_justify="left",
            caption=Text("\n".join(map(printable, self.notes))) if self.notes else None,
            caption_justify="left",
            box=box.SIMPLE_HEAD,
            padding=(0, 1, 0, 0),
            pad_edge=False,
        )
        for place, column in enumerate(self.columns):
            # Broken here to the width of the cells: rich would rather break the numbers.
            widths = [len(row[place]) for row in self.rows] + [len(word) for word in column.title.split()]
            width = max([1, *widths])  # a column of marks may have none, and no title either
            heading = textwrap.fill(printable(column.title), width, break_long_words=False)
            table.add_column(Text(heading), justify="right" if column.numeric else "left", vertical="bottom")
        for group in self.groups():
            for place, row in enumerate(group):
                # Text, not str: a label such as "[red]" is a label, not markup.
                first = "" if self.grouped and place else row[0]
                cells = [Text(printable(cell)) for cell in (first, *row[1:])]
                table.add_row(*cells, end_section=self.grouped and row is group[-1])
        return table


def _pipes(cells: Any) -> str:
    return "| " + " | ".join(escape_markdown(cell) for cell in cells) + " |"


def escape_markdown(text: str) -> str:
    r"""Text that Markdown shows as it is, on one line.

    >>> escape_markdown("a|b <b>*x*\ny")
    'a\\|b \\<b\\>\\*x\\* y'
    """
    return re.sub(r"([\\`*_<>|#\[\]])", r"\\\1", " ".join(text.split()))


@dataclass(frozen=True)
class Metric:
    """How one key of `metrics.json` is shown: `scale` 100 and a % in the title for percentages."""

    key: str
    title: str
    meaning: str
    scale: float = 1.0
    decimals: int = 4

    def show(self, value: float) -> str:
        """
        >>> Metric("accuracy", "Accuracy %", "", scale=100, decimals=1).show(0.8537)
        '85.4'
        >>> Metric("nll", "NLL", "").show(-0.00001)
        '0.0000'
        """
        return f"{self.scale * value:z,.{self.decimals}f}"


METRICS = (
    Metric("n", "n", "rows", decimals=0),
    Metric("accuracy", "Accuracy %", "rows whose most probable class is the label", 100, 1),
    Metric("nll", "NLL", "mean negative log-probability of the label"),
    Metric("brier", "Brier", "squared error of the probabilities, summed over the classes (0 to 2)"),
    Metric("ece", "ECE % [95 %]", "expected calibration error with its bias-corrected 95 % interval", 100, 2),
    Metric(
        "ece_noise_floor",
        "Noise floor % (95th)",
        "the ECE that a perfectly calibrated model would show on this many rows: mean (95th percentile)",
        100,
        2,
    ),
    Metric("adaptive_ece", "Adaptive ECE %", "ECE with bins of equal mass", 100, 2),
    Metric("classwise_ece", "Classwise ECE %", "mean over the classes of the ECE of that class", 100, 2),
    Metric("oe", "OE %", "overconfidence error: only overconfident bins, weighted by confidence", 100, 2),
    Metric("mce", "MCE %", "largest gap of any bin, however few its rows", 100, 2),
    Metric("aurc", "AURC", "area under the risk-coverage curve: mean error rate of what is accepted"),
    Metric("augrc", "AUGRC", "mean share of all rows that are accepted and wrong"),
    Metric(
        "confidence_gap",
        "Confidence gap %",
        "mean confidence minus accuracy: above 0 overconfident on average, below 0 underconfident",
        100,
        2,
    ),
    Metric(
        "confidence_follows",
        "Followed loss %",
        "share of the drop in accuracy since the first test set that confidence follows (100: all of it)",
        100,
        0,
    ),
    Metric("mcc", "MCC", "Matthews correlation of predicted and true classes", decimals=3),
    Metric("top5_accuracy", "Top-5 %", "rows whose label is among the five most probable classes", 100, 1),
)
FURTHER_BINS = re.compile(r"ece_(\d+)_bins")


def metrics_of(keys: Iterable[str]) -> tuple[Metric, ...]:
    """The metrics that may be shown where these were measured: an ECE for every further number of bins.

    >>> [metric.title for metric in metrics_of(["ece", "ece_100_bins"])][-1]
    'ECE %, 100 bins'
    """
    counts = [int(found[1]) for key in keys if (found := FURTHER_BINS.fullmatch(key))]
    further = (
        Metric(f"ece_{count}_bins", f"ECE %, {count} bins", f"ECE of {count} bins of equal width", 100, 2)
        for count in sorted(set(counts))
    )
    return (*METRICS, *further)


def is_wanted(key: str, keys: Sequence[str] | None) -> bool:
    """Whether a metric is among those asked for; the ECE of further bins goes with the ECE.

    >>> is_wanted("ece_10_bins", ["ece"]), is_wanted("ece_10_bins", ["nll"]), is_wanted("nll", None)
    (True, False, True)
    """
    return keys is None or key in keys or (FURTHER_BINS.fullmatch(key) is not None and "ece" in keys)


SCALINGS = {
    "temperature": "temperature scaling",
    "temperature-bias": "scaling by a temperature and class biases",
    "vector": "vector scaling",
    "structured": "structured scaling",
}


def scaling_words(metrics: Mapping[str, Any]) -> str:
    """What the calibrated metrics of a run come after; runs of earlier versions know a temperature alone.

    >>> scaling_words({}), scaling_words({"calibrator": "vector"})
    ('temperature scaling', 'vector scaling')
    """
    return SCALINGS[metrics.get("calibrator", "temperature")]


# What fits in a terminal of 80 columns.
HEADLINE_KEYS = ("accuracy", "nll", "ece", "ece_noise_floor")


def metrics_table(metrics: Mapping[str, Any], keys: Sequence[str] | None = None) -> Table:
    """Split by {uncalibrated, calibrated, perturbed}: the metrics of a run (the content of `metrics.json`).

    `keys` picks columns (`HEADLINE_KEYS` for a terminal); all by default.
    """
    measured = {key for stages in metrics["splits"].values() for values in stages.values() for key in values}
    shown = [
        metric for metric in metrics_of(measured) if metric.key in measured and is_wanted(metric.key, keys)
    ]
    rows = []
    marks = set()
    for split, stages in metrics["splits"].items():
        for stage in ("uncalibrated", "calibrated", "perturbed"):
            if stage not in stages:
                continue
            values = stages[stage]
            if is_in_sample(stages, stage):
                marks.add(IN_SAMPLE)
                stage = f"{stage} {IN_SAMPLE}"
            cells = [_cell(metric, values) for metric in shown]
            marks |= set(ece_marks(values))
            rows.append((split, stage, *cells))
    notes = {IN_SAMPLE: IN_SAMPLE_NOTE, WITHIN_NOISE: WITHIN_NOISE_NOTE, OUTSIDE: OUTSIDE_NOTE}
    return Table(
        caption=f"Metrics before and after {scaling_words(metrics)}",
        columns=(
            *text_columns("Split", "Stage"),
            *(Column(metric.title, metric.meaning) for metric in shown),
        ),
        rows=tuple(rows),
        notes=tuple(f"{mark} {note}" for mark, note in notes.items() if mark in marks),
        grouped=True,
    )


def _cell(metric: Metric, values: Mapping[str, Any]) -> str:
    if values.get(metric.key) is None:  # of few classes, or measured by an earlier version
        return "–"
    shown = metric.show(values[metric.key])
    if metric.key == "ece":
        return " ".join([ece_text(values), *ece_marks(values)])
    if metric.key == "ece_noise_floor" and values.get("ece_noise_floor_p95") is not None:
        return f"{shown} ({metric.show(values['ece_noise_floor_p95'])})"
    return shown


def ece_text(values: Mapping[str, Any]) -> str:
    """The ECE in percent with its interval, where there is one.

    >>> ece_text({"ece": 0.0421, "ece_ci": [0.0305, 0.0533]})
    '4.21 [3.05, 5.33]'
    """
    interval = values.get("ece_ci")
    ece = f"{100 * values['ece']:.2f}"
    return f"{ece} [{100 * interval[0]:.2f}, {100 * interval[1]:.2f}]" if interval else ece


def ece_marks(values: Mapping[str, Any]) -> list[str]:
    """What a table marks an ECE with.

    >>> ece_marks({"ece": 0.05, "ece_ci": [0.01, 0.04], "ece_noise_floor": 0.02})
    ['§']
    """
    marks = [OUTSIDE] if is_outside_interval(values) else []
    return marks + ([WITHIN_NOISE] if is_within_noise(values) else [])


def is_outside_interval(values: Mapping[str, Any]) -> bool:
    """Whether the interval of the ECE does not hold the value beside it, as shown."""
    interval = values.get("ece_ci")
    if not interval:
        return False
    low, value, high = (round(100 * number, 2) for number in (interval[0], values["ece"], interval[1]))
    return not low <= value <= high


def is_within_noise(values: Mapping[str, Any]) -> bool:
    """Whether a perfectly calibrated model shows an ECE this large in 5 % of draws or more.

    >>> is_within_noise({"ece": 0.012, "ece_noise_floor": 0.010, "ece_noise_floor_p95": 0.015})
    True
    """
    return bool(values["ece"] <= values.get("ece_noise_floor_p95", values["ece_noise_floor"]))


def is_in_sample(stages: Mapping[str, Any], stage: str) -> bool:
    """Whether the metrics of a stage come from the rows that the calibrator was fitted on."""
    return bool(stages[stage].get("in_sample", False))
