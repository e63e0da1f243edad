"""Fixtures that all packages share."""

from __future__ import annotations

import csv
import os
import tempfile
from pathlib import Path

import pytest

from tiny import build_encoder, sentences

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ["CALMIX_CACHE"] = tempfile.mkdtemp(prefix="calmix-")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")


@pytest.fixture(scope="session")
def encoders(tmp_path_factory):
    """`encoders("bert")` is the directory of a tiny network of that family."""
    root = tmp_path_factory.mktemp("encoders")
    made: dict[str, Path] = {}

    def get(family: str, **settings) -> Path:
        key = family + "".join(f"-{name}{value}" for name, value in sorted(settings.items()))
        if key not in made:
            made[key] = build_encoder(root / key, family, **settings)
        return made[key]

    return get


@pytest.fixture(scope="session")
def reviews(tmp_path_factory) -> Path:
    """A folder with train.csv (96 rows), validation.csv (48), test.csv (48) and other.csv (40)."""
    folder = tmp_path_factory.mktemp("reviews")
    for seed, (name, rows) in enumerate({"train": 96, "validation": 48, "test": 48, "other": 40}.items()):
        texts, labels = sentences(rows, seed=seed)
        with (folder / f"{name}.csv").open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["text", "label"])
            writer.writerows(zip(texts, labels, strict=True))
    return folder


@pytest.fixture(scope="session")
def tiny(reviews, encoders):
    """`tiny(output, method="focal")` is the configuration of a run of about a second."""
    from calmix.training.configuration import TrainConfig

    def make(output, **changes):
        settings = {
            "train": str(reviews / "train.csv"),
            "validation": str(reviews / "validation.csv"),
            "test": (str(reviews / "test.csv"), f"other={reviews / 'other.csv'}"),
            "model": str(encoders("bert", layers=1)),
            "output": str(output),
            "learning_rate": 5e-3,
            "epochs": 2,
            "threads": 1,
        }
        return TrainConfig(**{**settings, **changes})

    return make


@pytest.fixture
def calmix(capsys):
    """Run the command line in this process: `calmix("train", ...)` gives (exit code, out, err)."""
    from calmix.cli.app import main

    def run(*arguments: object) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as ended:
            main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return int(ended.value.code or 0), captured.out, captured.err

    return run
