"""The dynamics section: what training said about the rows, in one chart and two small tables."""

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
from calmix.report.page import BLUE, GREY, RED, YELLOW, literal, new_figure
from calmix.report.tables import Column, Table

if TYPE_CHECKING:
    import pyarrow as pa
    from plotly.graph_objects import Figure

REGIONS = (("easy", BLUE, "circle"), ("ambiguous", YELLOW, "diamond"), ("hard", RED, "x"))
POINTS = 5_000


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
    for name, _, _ in REGIONS:
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


def data_map_figure(summary: DynamicsSummary, *, points: int = POINTS, seed: int = 0) -> Figure:
    """Confidence over variability, coloured by region; at most `points` rows, drawn without favour."""
    from plotly.graph_objects import Scatter

    drawn = np.arange(len(summary))
    if len(drawn) > points:
        drawn = np.sort(np.random.default_rng(seed).choice(len(drawn), points, replace=False))
    row_id, region, variability, confidence = (
        summary.column(name)[drawn] for name in ("row_id", "region", "variability", "confidence")
    )
    figure = new_figure(height=460)
    for name, colour, symbol in REGIONS if summary.has_regions else ((None, GREY, "circle"),):
        inside = region == name
        figure.add_trace(
            Scatter(
                name=name,
                x=variability[inside].round(4).tolist(),
                y=confidence[inside].round(4).tolist(),
                text=[literal(one) for one in row_id[inside]],
                mode="markers",
                marker={"color": colour, "symbol": symbol, "size": 5, "opacity": 0.6},
                hovertemplate="%{text}<br>confidence %{y:.3f}, variability %{x:.3f}<extra></extra>",
                showlegend=name is not None,
            )
        )
    figure.update_layout(
        xaxis={"title": {"text": "variability"}, "rangemode": "tozero"},
        yaxis={"title": {"text": "confidence in the label"}, "range": [-0.02, 1.02]},
    )
    return figure


def lowest_margin_table(
    summary: DynamicsSummary, *, rows: int = 10, texts: Mapping[str, str] | None = None
) -> Table:
    """The rows with the lowest area under the margin: the first places to look for wrong labels."""
    import pyarrow.compute as pc

    order = pc.sort_indices(summary.rows, sort_keys=[("aum", "ascending"), ("row_id", "ascending")])
    lowest = summary.rows.take(order[:rows]).to_pylist()
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


def _shortened(text: str, length: int = 160) -> str:
    return text if len(text) <= length else text[: length - 1].rstrip() + "…"
