"""The demo: a small comparison on real sentences with a real encoder, in a few minutes on two cores."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa

from calmix.data.embedded import movie_reviews
from calmix.data.rows import Rows
from calmix.data.sampling import stratified_sample
from calmix.experiments.comparison_plan import CompareConfig
from calmix.io.writing import write_table
from calmix.training.configuration import TrainConfig

# Six runs, two at a time. Three seeds and one challenger: with two seeds, or two methods to be corrected for,
# the intervals are so wide that a comparison of minutes cannot tell anything.
TRAIN_ROWS, VALIDATION_ROWS, TEST_ROWS, OTHER_ROWS = 500, 400, 600, 150
METHODS = ("plain", "aum-saliency")
SEEDS = (0, 1, 2)


def write_demo_data(directory: Path, seed: int = 0) -> dict[str, Path]:
    """Seeded samples of the embedded reviews, as files that a reader can open."""
    reviews = movie_reviews()
    sentences = stratified_sample(reviews.rotten_tomatoes, TRAIN_ROWS + VALIDATION_ROWS + TEST_ROWS, seed)
    train, rest = _cut(sentences, TRAIN_ROWS, seed)
    validation, test = _cut(rest, VALIDATION_ROWS, seed)
    parts = {
        "train": train,
        "validation": validation,
        "test": test,
        "imdb": stratified_sample(reviews.imdb, OTHER_ROWS, seed),
    }
    return {name: _write(directory / f"{name}.csv", rows) for name, rows in parts.items()}


def demo_config(files: dict[str, Path], output: Path) -> CompareConfig:
    """Plain fine-tuning against a guided method, in domain and on IMDb."""
    base = TrainConfig(
        train=str(files["train"]),
        validation=str(files["validation"]),
        test=(str(files["test"]), f"imdb={files['imdb']}"),
        output=str(output),
        model="default",
        epochs=4,  # 6 are usual for so many rows; these are enough, and the demo is to be short
        learning_rate=2e-4,
        max_length=96,
        freeze_embeddings=True,  # half again as fast
        id_column="id",
        threads=1,  # the same bits on every machine, and two runs side by side on two cores
    )
    return CompareConfig(base=base, methods=METHODS, seeds=SEEDS, workers=min(2, os.cpu_count() or 1))


def _cut(rows: Rows, size: int, seed: int) -> tuple[Rows, Rows]:
    """A stratified sample of this size, and the rest."""
    taken = stratified_sample(rows, size, seed)
    chosen = set(taken.row_ids.tolist())
    left = [position for position, row_id in enumerate(rows.row_ids.tolist()) if row_id not in chosen]
    return taken, rows.select(left)


def _write(path: Path, rows: Rows) -> Path:
    columns = {
        "id": rows.row_ids,
        "text": rows.texts(),
        "label": [rows.label_names[label] for label in rows.labels],
    }
    write_table(path, pa.table(columns))
    return path
