"""The data map as one HTML page: works offline, no library, 200,000 rows.

Every row is a point, variability across and confidence up. Hovering shows its text, dragging selects, and
the selection can be searched, filtered by colour and downloaded. Where a source knows only AUMs, the page
shows them sorted. The texts are data, never markup: they stand in a JSON block and become text nodes, and
the page's content security policy admits its own script by hash and nothing else.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from calmix.dynamics.regions import REGION_NAMES
from calmix.io.parquet_files import CLASS_NAMES_KEY
from calmix.io.run_directory import replacing
from calmix.report.pages.embedding import Asset, base64_array, json_block, template_part
from calmix.report.pages.page import shown as visible

SCRIPTS = ("shared.js", "datamap_data.js", "datamap_canvas.js", "datamap_page.js")
REGION_LABELS = ("easy to learn", "ambiguous", "hard to learn")
SCORE_TITLES = {
    "confidence": "confidence",
    "variability": "variability",
    "aum": "AUM",
    "relative_aum": "AUM in its class",
    "score": "threshold score",
}
# By which column rows are listed, with what that means; the first that the table has.
ORDERS = {
    "score": (
        "Most like a wrong label first",
        "By the share of threshold samples (rows with wrong labels) that have a lower AUM.",
    ),
    "relative_aum": (
        "Lowest AUM within each class first",
        "Not a test: hard rows have low margins too. Read them, and correct what is wrong.",
    ),
    "aum": (
        "Lowest area under the margin first",
        "Not a test: hard rows have low margins too. Read them, and correct what is wrong.",
    ),
}
# Rows that a browser can still draw and search; beyond them, how many of the list and how many in all.
MOST_LISTED, MOST_DRAWN = 5_000, 200_000
TEXT_LIMIT = 600  # characters of a text that the page holds: 200,000 long reviews would not open


def write_datamap_html(
    path: str | Path,
    table: pa.Table,
    texts: Sequence[str] | None = None,
    title: str = "Data map",
    *,
    text_limit: int = TEXT_LIMIT,
) -> None:
    """Write the page for a table as `dynamics_file.datamap_table` makes it.

    `texts` are shown on hover, one per row of the table; rows without scores are left out of the picture and
    counted under the title. Longer texts are cut at `text_limit` characters.
    """
    if texts is not None and len(texts) != len(table):
        raise ValueError(f"{len(texts)} texts for {len(table)} rows")
    page = render_datamap(table, texts, title, text_limit=text_limit)
    with replacing(Path(path)) as fresh:
        fresh.write_text(page, encoding="utf-8")


def render_datamap(
    table: pa.Table, texts: Sequence[str] | None, title: str, *, text_limit: int = TEXT_LIMIT
) -> str:
    """The page as text."""
    import jinja2

    on_map = table["confidence"].is_valid().to_numpy()
    mapped = bool(on_map.any())
    scored = np.flatnonzero(on_map if mapped else table["aum"].is_valid().to_numpy())
    shown = _drawn(table, scored)
    meta, columns = _columns(table.take(pa.array(shown)), mapped)
    meta["class_names"] = _class_names(table, int(meta.pop("classes")))
    ids = table["row_id"].take(pa.array(shown)).to_pylist()
    kept = None if texts is None else [_cut(texts[row], text_limit) for row in shown.tolist()]
    script, style = Asset.of(SCRIPTS), Asset.of(("datamap.css",))
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined)
    return environment.from_string(template_part("datamap.html")).render(
        title=visible(title),
        subtitle=_subtitle(len(shown), len(scored), len(table) - len(scored), meta["epochs"]),
        row_count=f"{len(shown):,}",
        script=script,
        style=style,
        meta=json_block(meta),
        columns=json_block(columns),
        texts=json_block({"ids": ids, "texts": kept}),
    )


def _columns(table: pa.Table, mapped: bool) -> tuple[dict[str, Any], dict[str, str]]:
    """What the page needs to know, and the numbers themselves as base64 of little-endian arrays."""
    aum = _floats(table, "aum")
    scores = {"aum": aum}
    if mapped:
        scores = {
            "confidence": _floats(table, "confidence"),
            "variability": _floats(table, "variability"),
        } | scores
    else:
        scores["rank"] = np.argsort(np.argsort(aum, kind="stable")) / max(len(aum) - 1, 1)
    scores |= {name: _floats(table, name) for name in ORDERS if name in table.column_names and name != "aum"}
    order = next(name for name in ORDERS if name in scores)
    names = ("label", "predicted_label", "region", "correctness", "epochs_seen")
    codes = {name: _codes(table, name) for name in names if name in table.column_names}
    codes = {name: column for name, column in codes.items() if mapped and (column >= 0).any()}
    largest = [int(codes[name].max(initial=-1)) for name in ("label", "predicted_label") if name in codes]
    meta = {
        "count": len(table),
        "epochs": int(codes["epochs_seen"].max(initial=0)) if "epochs_seen" in codes else 0,
        "scores": list(scores),
        "score_titles": SCORE_TITLES,
        "order": order,
        "list_title": ORDERS[order][0],
        "list_note": ORDERS[order][1],
        "codes": list(codes),
        "classes": max(largest, default=-1) + 1,
        "regions": REGION_NAMES,
        "x": {"column": "variability", "title": "Variability", "range": [0, 0]},
        "y": {"column": "confidence", "title": "Confidence in the label", "range": [0, 1]},
    }
    if not mapped:
        meta["x"] = {"column": "rank", "title": "Rows, by area under the margin", "range": [0, 1]}
        meta["y"] = {"column": "aum", "title": "Area under the margin"}
    elif "region" in codes:
        meta["region_labels"] = _region_labels(codes["region"], scores["variability"], scores["confidence"])
    columns = {name: base64_array(column, "<f4") for name, column in scores.items()}
    columns |= {name: base64_array(column, "<i2") for name, column in codes.items()}
    return meta, columns


def _floats(table: pa.Table, name: str) -> npt.NDArray[np.float64]:
    return np.asarray(table[name].to_numpy(), dtype=np.float64)


def _codes(table: pa.Table, name: str) -> npt.NDArray[np.int64]:
    """Classes, regions or counts as small integers, -1 for null."""
    column = table[name]
    if name == "region":
        column = pc.index_in(column, value_set=pa.array(REGION_NAMES))
    return np.asarray(column.fill_null(-1).to_numpy(), dtype=np.int64)


def _region_labels(
    region: npt.NDArray[np.int64], variability: npt.NDArray[np.float64], confidence: npt.NDArray[np.float64]
) -> list[dict[str, Any]]:
    """Each region's name, to be drawn at the median of its rows."""
    return [
        {
            "text": text,
            "region": one,
            "x": float(np.median(variability[region == one])),
            "y": float(np.median(confidence[region == one])),
        }
        for one, text in enumerate(REGION_LABELS)
        if (region == one).any()
    ]


def _class_names(table: pa.Table, classes: int) -> list[str]:
    names = json.loads((table.schema.metadata or {}).get(CLASS_NAMES_KEY, b"[]"))
    return names if len(names) >= classes else [str(one) for one in range(classes)]


def _drawn(table: pa.Table, scored: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """The rows that the page shows: all, or the first of its list and a random sample of the others."""
    if len(scored) <= MOST_DRAWN:
        return scored
    order = next(name for name in ORDERS if name in table.column_names)
    values = _floats(table, order)[scored]
    first = np.argpartition(values, MOST_LISTED)[:MOST_LISTED]
    others = np.delete(np.arange(len(scored)), first)
    sample = np.random.default_rng(0).choice(others, MOST_DRAWN - MOST_LISTED, replace=False)
    return np.asarray(scored[np.sort(np.concatenate([first, sample]))], dtype=np.int64)


def _subtitle(shown: int, scored: int, hidden: int, epochs: int) -> str:
    """One line under the title.

    >>> _subtitle(1200, 1200, 1, 3)
    '1,200 rows over 3 epochs; 1 row without a score is not shown'
    >>> _subtitle(200_000, 10_000_000, 0, 0)
    'the 5,000 rows listed first and 195,000 others drawn at random, of 10,000,000 rows'
    """
    parts = f"{scored:,} row{'' if scored == 1 else 's'}" + (f" over {epochs} epochs" if epochs else "")
    if shown < scored:
        others = f"{shown - MOST_LISTED:,} others drawn at random"
        parts = f"the {MOST_LISTED:,} rows listed first and {others}, of {parts}"
    if hidden:
        parts += f"; {hidden:,} row{'' if hidden == 1 else 's'} without a score"
        parts += " is not shown" if hidden == 1 else " are not shown"
    return parts


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[:limit].rstrip() + "…"
