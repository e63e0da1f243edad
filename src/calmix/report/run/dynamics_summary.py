"""The dynamics section: the training dynamics of the rows, in one chart and two small tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from calmix.dynamics.datamap import most_predicted
from calmix.io.parquet_files import stored_class_names
from calmix.io.tables import read_arrow
from calmix.report.pages.axes import Axis, number_axis, percent_axis
from calmix.report.pages.page import Chart
from calmix.report.pages.plot import Legend, Plot
from calmix.report.tables import Column, Table

if TYPE_CHECKING:
    import pyarrow as pa

REGIONS = (("easy", "blue"), ("ambiguous", "yellow"), ("hard", "red"))
POINTS = 2_000
# The rows listed by their margin, and the characters of their texts.
LOWEST, TEXT_LIMIT = 10, 160


@dataclass(frozen=True, eq=False)
class DynamicsSummary:
    """The rows of `dynamics.parquet` that training saw, one entry per row."""

    rows: pa.Table
    names: tuple[str, ...]

    @classmethod
    def read(cls, path: Path, label_names: Sequence[str] = ()) -> DynamicsSummary:
        """`label_names` are used where the file names no classes."""
        import pyarrow.compute as pc

        table = read_arrow(path)
        seen = table.filter(pc.is_valid(table["confidence"]))
        return cls(seen, stored_class_names(table.schema, path) or tuple(label_names))

    def __len__(self) -> int:
        return int(self.rows.num_rows)

    @property
    def has_regions(self) -> bool:
        """False after a single epoch: nothing varies, so nothing is distinguished."""
        return bool(self.rows["region"].null_count < len(self))

    def column(self, name: str) -> NDArray[Any]:
        array: NDArray[Any] = self.rows[name].to_numpy()
        return array

    def class_name(self, label: int | None) -> str:
        if label is None or label < 0:
            return "–"
        return self.names[label] if label < len(self.names) else str(label)


def region_means_table(summary: DynamicsSummary) -> Table:
    """Rows, share and means of each region of the disjoint partition."""
    region = summary.column("region")
    rows = []
    for name, _ in REGIONS:
        inside = region == name
        means = [
            f"{summary.column(column)[inside].mean():.3f}" if inside.any() else "–"
            for column in ("confidence", "variability", "aum")
        ]
        rows.append((name, f"{inside.sum():,}", f"{100 * inside.mean():.1f}", *means))
    return Table(
        caption="The regions of the training rows",
        columns=(
            Column("Region", numeric=False),
            Column("Rows"),
            Column("Share %"),
            Column("Mean confidence", "probability of the label, averaged over the epochs"),
            Column("Mean variability", "its standard deviation over the epochs"),
            Column("Mean AUM", "area under the margin: logit of the label minus the largest other one"),
        ),
        rows=tuple(rows),
    )


def data_map_chart(summary: DynamicsSummary, title: str, caption: str, *, points: int = POINTS) -> Chart:
    """Confidence over variability, coloured by region; at most `points` rows, drawn without favour."""
    drawn = np.arange(len(summary))
    if len(drawn) > points:
        drawn = np.sort(np.random.default_rng(0).choice(len(drawn), points, replace=False))
    row_id, region, variability, confidence = (
        summary.column(name)[drawn] for name in ("row_id", "region", "variability", "confidence")
    )
    upward = percent_axis(0, 1, "confidence in the label")
    plot = Plot(
        number_axis(variability.tolist(), "variability", zero=True),
        Axis(-0.02, 1.02, upward.ticks, upward.title),
        360,
    )
    kinds = REGIONS if summary.has_regions else ((None, "grey"),)
    for name, kind in kinds:
        inside = region == name
        listed = zip(
            variability[inside].tolist(), confidence[inside].tolist(), row_id[inside].tolist(), strict=True
        )
        plot.dots(
            ((x, y, f"{one}: confidence {y:.3f}, variability {x:.3f}") for x, y, one in listed),
            f"{kind} point",
        )
    legend = Legend(tuple(("circle", kind, str(name)) for name, kind in kinds if name))
    return Chart(plot.svg(f"Scatter chart of training rows. {caption}"), title, caption, legend, "datamap")


def lowest_margin_table(summary: DynamicsSummary, *, texts: Mapping[str, str] | None = None) -> Table:
    """The rows with the lowest area under the margin: the first places to look for wrong labels."""
    import pyarrow.compute as pc

    order = pc.sort_indices(summary.rows, sort_keys=[("aum", "ascending"), ("row_id", "ascending")])
    lowest = summary.rows.take(order[:LOWEST]).to_pylist()
    columns = [Column("Row", numeric=False), Column("Label", numeric=False)]
    cells = [[row["row_id"], summary.class_name(row["label"])] for row in lowest]
    if "predicted_label" in summary.rows.column_names and lowest:
        columns.append(Column("Predicted as", "the class predicted in most epochs", numeric=False))
        votes = [[-1 if vote is None else vote for vote in row["predicted_label"]] for row in lowest]
        for row_cells, winner in zip(cells, most_predicted(np.array(votes, dtype=np.int32)), strict=True):
            row_cells.append(summary.class_name(int(winner)))
    columns += [Column("AUM"), Column("Confidence"), Column("Variability")]
    for row_cells, row in zip(cells, lowest, strict=True):
        row_cells += [f"{row[key]:.3f}" for key in ("aum", "confidence", "variability")]
    if texts is not None:
        columns.append(Column("Text", numeric=False))
        for row_cells, row in zip(cells, lowest, strict=True):
            row_cells.append(_shortened(texts.get(row["row_id"], "")))
    return Table(
        caption="The rows with the lowest area under the margin (AUM)",
        columns=tuple(columns),
        rows=tuple(tuple(row_cells) for row_cells in cells),
    )


def _shortened(text: str) -> str:
    return text if len(text) <= TEXT_LIMIT else text[: TEXT_LIMIT - 1].rstrip() + "…"
