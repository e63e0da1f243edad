"""Frames of every task kind, and outside writers that put them on disk."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import pandas
import pytest

Write = Callable[[str, str | bytes], str]
WriteFrame = Callable[[pandas.DataFrame, Path], Path]


@pytest.fixture
def frames() -> dict[str, pandas.DataFrame]:
    """What makes files hard: quotes, separators, line breaks, other scripts, blanks at the ends."""
    texts = ['a "quoted" film', "one, two\tthree", "two\nlines", "дом 家 🎬", " blanks around ", "a\u2028b"]
    pairs = ["second", 'an "other"', "a, b", "c\r\nd", "é", "[]"]
    choices = [[f"choice {row}", 'with "quotes"', "and, commas"] for row in range(6)]
    return {
        "single": pandas.DataFrame({"text": texts, "label": ["pos", "neg", "neg", "pos", "neg", "neg"]}),
        "pair": pandas.DataFrame({"text": texts, "text_pair": pairs, "label": [10, 9, 10, 2, 2, 9]}),
        "choice": pandas.DataFrame({"text": texts, "choices": choices, "label": [0, 2, 1, 1, 0, 2]}),
    }


@pytest.fixture
def write_frame() -> WriteFrame:
    """Let pandas write a file in the format of its name, gzipped if it says so."""

    def write(frame: pandas.DataFrame, path: Path) -> Path:
        plain = path.with_suffix("") if path.suffix == ".gz" else path
        if plain.suffix in (".csv", ".tsv"):
            if "choices" in frame:
                frame = frame.assign(choices=[json.dumps(choices) for choices in frame["choices"]])
            frame.to_csv(plain, index=False, sep="," if plain.suffix == ".csv" else "\t")
        elif plain.suffix == ".parquet":
            frame.to_parquet(plain)
        else:
            frame.to_json(plain, orient="records", lines=plain.suffix == ".jsonl")
        if plain != path:
            path.write_bytes(gzip.compress(plain.read_bytes()))
            plain.unlink()
        return path

    return write


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    """Write a file into the test's working directory and give its name as a message would show it."""
    monkeypatch.chdir(tmp_path)

    def write_file(name: str, content: str | bytes) -> str:
        path = Path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return name

    return write_file
