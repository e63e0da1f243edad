"""What a command has left on disk, in a form that can be compared by bits with an unbroken run."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path
from typing import Any

# What no two runs share: times of the clock, what depends on them, and whether a threshold pass was trained
# or found in the cache, as it is after a kill.
TIMES = ("seconds", "started", "ended", "files", "was_trained")
PROSE = {".html", ".md", ".log", ".lock"}  # made from the other files, with times in them
LOGS = re.compile(r"\.log$|(^|/)\.lock$|\.lock$")


def artefacts(directory: Path) -> dict[str, str]:
    """Every file by its place, and a hash of what must be equal: its bytes, of records all but the times."""
    found = {}
    for file in sorted(directory.rglob("*")):
        place = file.relative_to(directory).as_posix()
        if not file.is_file() or LOGS.search(place):
            continue
        found[place] = "" if file.suffix in PROSE else content_hash(file, directory)
    return found


def content_hash(file: Path, directory: Path) -> str:
    if not file.stat().st_size:
        content = b""
    elif file.suffix == ".json":
        record = without_times(json.loads(file.read_text()))
        content = json.dumps(record, sort_keys=True).replace(str(directory), "OUTPUT").encode()
    elif file.suffix == ".parquet":
        import pyarrow.parquet as pq

        table = pq.read_table(file)
        for name in TIMES:
            if name in table.column_names:
                table = table.drop_columns([name])
        rows = json.dumps(table.to_pylist(), sort_keys=True, default=str)
        content = rows.replace(str(directory), "OUTPUT").encode()
    else:
        content = file.read_bytes().replace(str(directory).encode(), b"OUTPUT")
        if file.name == "summary.csv":
            content = without_time_columns(content)
    return hashlib.sha256(content).hexdigest()


def without_times(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: without_times(inner) for key, inner in value.items() if key not in TIMES}
    return [without_times(inner) for inner in value] if isinstance(value, list) else value


def without_time_columns(content: bytes) -> bytes:
    lines = [line.split(b",") for line in content.splitlines()]
    kept = [place for place, name in enumerate(lines[0]) if b"seconds" not in name]
    return b"\n".join(b",".join(line[place] for place in kept if place < len(line)) for line in lines)


def differences(expected: dict[str, str], found: dict[str, str]) -> list[str]:
    """What is missing, too many or other than expected."""
    lines = [f"missing: {place}" for place in expected.keys() - found.keys()]
    lines += [f"left behind: {place}" for place in found.keys() - expected.keys()]
    lines += [
        f"other bits: {place}" for place in expected.keys() & found.keys() if expected[place] != found[place]
    ]
    return sorted(lines)
