"""The files of the guided experiments, from a folder of data sets in calmix's format.

    python results/guided_goemotions/data.py DATA OUT
    python results/guided_goemotions/data.py DATA OUT 500 1000     # validation and test rows of each

DATA holds goemotions, meld, yelp, sst2, mr and imdb, each with train, validation and test .jsonl.gz. Training
files are used as they are (`--train-rows` draws from them); validation and test are stratified samples.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pyarrow as pa

from calmix.data.columns import ColumnNames
from calmix.data.reading import read_rows
from calmix.data.sampling import stratified_sample
from calmix.io.writing import write_table

PARTS = {
    "goemotions": {"train": None, "validation": 1000, "test": 2000},
    "meld": {"test": 2000},
    "yelp": {"train": None, "validation": 600, "test": 1200},
    "sst2": {"test": 1821},
    "mr": {"train": None, "validation": 500, "test": 1000},
    "imdb": {"test": 1000},
}


def main() -> None:
    source, target = Path(sys.argv[1]), Path(sys.argv[2])
    asked = dict(zip(("validation", "test"), map(int, sys.argv[3:]), strict=False))
    for name, splits in PARTS.items():
        for split, usual in splits.items():
            size = asked.get(split, usual)
            rows = read_rows(source / name / f"{split}.jsonl.gz", split, ColumnNames())
            rows = rows if size is None else stratified_sample(rows, size, seed=0)
            columns = {
                "id": rows.row_ids,
                "text": rows.texts(),
                "label": [rows.label_names[label] for label in rows.labels],
            }
            (target / name).mkdir(parents=True, exist_ok=True)
            write_table(target / name / f"{split}.csv", pa.table(columns))


if __name__ == "__main__":
    main()
