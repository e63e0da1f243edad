"""What `calmix map` leaves on disk.

DIR/datamap.parquet, datamap.csv   the map: scores and regions of every row
    datamap.html                   the same to look at
    issues.csv                     one line per row, in cleanlab's columns
    suspects.csv                   the rows to look at first: those that the threshold filter flagged, or
                                   without it those of the lowest AUM within their class, which is no test
    noise.parquet                  what the threshold filter says about every row; with --retrain only
    summary.json                   what was printed, and the options
    passes/                        the threshold passes, so that they are not trained again
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from calmix.dynamics.cleanlab_export import write_cleanlab_issues
from calmix.dynamics.datamap import DataMap
from calmix.dynamics.dynamics_file import write_datamap
from calmix.dynamics.label_noise import NoiseVerdict
from calmix.dynamics.suspects import relative_aum, suspect_table, verdict_table
from calmix.report.datamap import write_datamap_html
from calmix.run import write_json
from calmix.user_error import UserError

SUMMARY_FILE = "summary.json"
PASSES = "passes"
FILES = (
    "datamap.parquet", "datamap.csv", "datamap.html", "issues.csv", "suspects.csv", "noise.parquet",
    SUMMARY_FILE,
)  # fmt: skip


def check_map_directory(directory: Path) -> None:
    """Before the work is done: a place where a map can be made, or an earlier map to replace."""
    existing = next(place for place in (directory, *directory.absolute().parents) if place.exists())
    if not existing.is_dir():
        raise UserError("the output is a file", file=existing, remedy="name a directory")
    if not os.access(existing, os.W_OK):
        raise UserError("no permission to write here", file=existing, remedy="name another --output")
    if existing != directory:
        return
    held = {entry.name for entry in directory.iterdir()}
    if held and not held & {SUMMARY_FILE, PASSES}:
        raise UserError(
            "the output directory is not empty and holds no map",
            file=directory,
            remedy="name another --output",
        )


def write_map(
    directory: Path,
    datamap: DataMap,
    table: pa.Table,
    summary: Mapping[str, Any],
    *,
    verdict: NoiseVerdict | None = None,
    texts: Sequence[str] | None = None,
    title: str = "Data map",
) -> None:
    """Write all files beside their place and move them there together: half a map is never seen.

    `table` is the map as `dynamics_file.datamap_table` makes it; it gets the column `relative_aum`, and with
    a verdict `flagged` and `score`. Of an earlier map in the directory, the threshold passes alone are kept.
    """
    fresh = directory.absolute().with_name(f".{os.getpid()}.{directory.absolute().name}")
    try:
        fresh.mkdir(parents=True)
        relative = relative_aum(datamap.aum, datamap.labels)
        table = table.append_column("relative_aum", pa.array(relative, mask=np.isnan(relative)))
        if verdict is not None:
            judged = verdict_table(datamap, verdict)
            pa.parquet.write_table(judged, fresh / "noise.parquet")
            for name in ("flagged", "score"):
                table = table.append_column(name, judged[name])
        write_datamap(fresh, table)
        write_datamap_html(fresh / "datamap.html", table, texts, title)
        write_cleanlab_issues(fresh / "issues.csv", datamap, verdict)
        pa.csv.write_csv(suspect_table(datamap, verdict, texts), fresh / "suspects.csv")
        write_json(fresh / SUMMARY_FILE, summary)
        if not directory.exists():
            fresh.rename(directory)
            return
        for name in FILES:
            if (fresh / name).exists():
                (fresh / name).replace(directory / name)
            else:  # left by an earlier map, and not true of this one
                (directory / name).unlink(missing_ok=True)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
