"""The files of the experiment, from a folder of data sets in calmix's format.

    python results/guided_mix_points/data.py DATA OUT

Training files are used as they are (`--train-rows` draws from them); validation and test are stratified
samples.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pyarrow as pa

from calmix.data.columns import ColumnNames
from calmix.data.reading import read_rows
from calmix.data.sampling import stratified_sample
from calmix.io.writing import write_table

VALIDATION, TEST = 500, 1000
IN_DOMAIN, OUT_OF_DOMAIN = ("goemotions", "snli", "mr"), ("meld", "mnli", "imdb")


def main() -> None:
    source, target = Path(sys.argv[1]), Path(sys.argv[2])
    wanted = {(name, "test"): TEST for name in (*IN_DOMAIN, *OUT_OF_DOMAIN)}
    for name in IN_DOMAIN:
        wanted |= {(name, "train"): None, (name, "validation"): VALIDATION}
    for (name, split), size in wanted.items():
        rows = read_rows(source / name / f"{split}.jsonl.gz", split, ColumnNames())
        rows = rows if size is None else stratified_sample(rows, size, seed=0)
        texts = {key: rows.table[key] for key in ("text", "text_pair") if key in rows.table.column_names}
        labels = [rows.label_names[label] for label in rows.labels]
        (target / name).mkdir(parents=True, exist_ok=True)
        table = pa.table({"id": rows.row_ids, **texts, "label": labels})
        write_table(target / name / f"{split}.csv", table)


if __name__ == "__main__":
    main()
