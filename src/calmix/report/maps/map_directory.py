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

import json
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
from calmix.dynamics.suspects import list_suspects, relative_aum, verdict_table
from calmix.io.directory_lock import only_writer
from calmix.io.replacing import fresh_name, remove_abandoned
from calmix.io.run_directory import write_json
from calmix.io.spreadsheet import spreadsheet_safe
from calmix.report.maps.datamap import write_datamap_html
from calmix.user_error import UserError, argument

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
        raise UserError(
            "no permission to write here", file=existing, remedy=f"name another {argument('output')}"
        )
    if existing != directory:
        return
    held = {entry.name for entry in directory.iterdir()}
    ours = files_of_map(directory)
    if held - {PASSES} and not ours:
        raise UserError(
            "the output directory is not empty and holds no map",
            file=directory,
            remedy=f"name another {argument('output')}",
        )
    for name in FILES:
        if name in held - ours:
            raise UserError(
                "this file does not belong to the map in the directory",
                file=directory / name,
                remedy=f"move it, or name another {argument('output')}",
            )


def files_of_map(directory: Path) -> set[str]:
    """The files that an earlier map has written here, as its summary says; none where the summary is not one
    of a map."""
    try:
        summary = json.loads((directory / SUMMARY_FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return set()
    if not isinstance(summary, dict) or not summary.keys() >= {"source", "label_noise", "suspect_count"}:
        return set()
    # A summary that lists no files is of a map that wrote all but those of a retrained one.
    listed = summary.get("files", [name for name in FILES if name != "noise.parquet"])
    return set(listed) & set(FILES)


def write_map(
    directory: Path,
    datamap: DataMap,
    table: pa.Table,
    summary: Mapping[str, Any],
    *,
    verdict: NoiseVerdict | None = None,
    texts: Sequence[str] | None = None,
    title: str = "Data map",
) -> dict[str, Any]:
    """Write all files beside their place and move them there together: half a map is never seen. Returns the
    summary as it was written, with the names of the files.

    `table` is the map as `dynamics_file.datamap_table` makes it; it gets the column `relative_aum`, and with
    a verdict `flagged` and `score`. Of an earlier map in the directory, the threshold passes alone are kept.
    """
    remove_abandoned(directory.absolute())
    fresh = fresh_name(directory.absolute())
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
        suspects = spreadsheet_safe(list_suspects(datamap, verdict, texts))
        pa.csv.write_csv(suspects, fresh / "suspects.csv")
        written = {file.name for file in fresh.iterdir()} | {SUMMARY_FILE}
        content = {**summary, "files": [name for name in FILES if name in written]}
        write_json(fresh / SUMMARY_FILE, content)
        lock = directory.absolute().with_name(f".{directory.absolute().name}.lock")
        with only_writer(lock, directory, f"wait for it, or name another {argument('output')}"):
            check_map_directory(directory)  # again: another process may have written here in between
            if not directory.exists():
                fresh.rename(directory)
                return content
            earlier = files_of_map(directory)
            for name in FILES:
                if name in written:
                    (fresh / name).replace(directory / name)
                elif name in earlier:  # not true of this map
                    (directory / name).unlink(missing_ok=True)
        return content
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
