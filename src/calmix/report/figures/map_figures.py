"""Of a data map: variability against confidence, by region; the area under the margin where that is all."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from calmix.calibration.integrations.figure_canvas import COLOURS, bare, canvas
from calmix.dynamics.regions import REGION_NAMES
from calmix.report.maps.datamap import REGION_LABELS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# The colours and marks of the regions; the last for rows without one.
MARKS = (("blue", "o"), ("yellow", "s"), ("red", "^"), ("grey", "o"))


def map_figure(table: pa.Table) -> Figure:
    """Every row a point, as Swayamdipta et al. (2020) draw them; `table`: `datamap.parquet`."""
    figure = canvas(4.8, 4.2)
    axes = figure.subplots()
    bare(axes)
    if not table["confidence"].is_valid().to_numpy().any():
        aum = np.sort(table["aum"].drop_null().to_numpy())
        axes.plot(np.arange(1, len(aum) + 1), aum, color=COLOURS["blue"])
        axes.set(xlabel="rows, by area under the margin", ylabel="area under the margin")
        return figure
    shown = table.filter(table["confidence"].is_valid())
    across, up = shown["variability"].to_numpy(), shown["confidence"].to_numpy()
    region = pc.index_in(shown["region"], value_set=pa.array(REGION_NAMES)).fill_null(-1).to_numpy()
    size = float(np.clip(4000 / len(shown), 2, 14))
    for place, ((colour, mark), label) in enumerate(zip(MARKS, (*REGION_LABELS, "no region"), strict=True)):
        inside = region == (place if place < len(REGION_LABELS) else -1)
        if inside.any():
            named = f"{label} ({inside.sum():,})"
            # Points are a picture, text and axes lines: an SVG of a million paths opens nowhere.
            axes.scatter(
                across[inside], up[inside], s=size, marker=mark, color=COLOURS[colour], alpha=0.5,
                linewidths=0, label=named, rasterized=len(shown) > 5000,
            )  # fmt: skip
    axes.set(xlabel="variability", ylabel="confidence in the label", ylim=(0, 1.02))
    axes.set_xlim(left=0)
    axes.legend(frameon=False, fontsize=8, loc="lower right", markerscale=2)
    return figure
