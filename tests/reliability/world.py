"""Good files of every kind, small: data, an encoder, runs, a comparison, calibrated directories, images.

What is damaged, killed and fuzzed by the tests of this package is a copy of these.
"""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np

from tiny import build_encoder, sentences

ROWS = {"train": 96, "validation": 48, "test": 48, "other": 40}


def run_calmix(*arguments: object) -> int:
    """The exit code of a command that runs in this process."""
    from calmix.cli.app import main

    try:
        main([str(argument) for argument in arguments])
    except SystemExit as ended:
        return int(ended.code or 0)
    raise AssertionError("the command line always exits")


def training_options(world: Path, **changes: Any) -> list[str]:
    """Options of a run that takes about a second: `epochs=3` changes one."""
    options = {
        "train": world / "train.csv",
        "validation": world / "validation.csv",
        "test": world / "test.csv",
        "model": world / "encoder",
        "epochs": 2,
        "batch-size": 16,
        "learning-rate": "5e-3",
        "threads": 1,
        **{name.replace("_", "-"): value for name, value in changes.items()},
    }
    return [text for name, value in options.items() for text in (f"--{name}", str(value))]


def build_inputs(world: Path) -> Path:
    """Data files and a network."""
    world.mkdir(parents=True, exist_ok=True)
    build_encoder(world / "encoder", "bert", layers=1)
    for seed, (name, rows) in enumerate(ROWS.items()):
        texts, labels = sentences(rows, seed=seed)
        with (world / f"{name}.csv").open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["text", "label"])
            writer.writerows(zip(texts, labels, strict=True))
    return world


def build_multi_label(world: Path) -> None:
    """Rows with several labels, or none."""
    texts, labels = sentences(96, seed=9)
    with (world / "tags.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["text", "label"])
        for number, (text, label) in enumerate(zip(texts, labels, strict=True)):
            tags = [str(label), *(["long"] if len(text) % 2 else [])]
            writer.writerow([text, ";".join(tags) if number % 7 else ""])


def build_world(world: Path) -> Path:
    """Everything: some seconds."""
    build_inputs(world)
    options = training_options(world)
    commands: list[list[object]] = [
        ["train", *options, "--output", world / "run"],
        ["distill", "--teacher", world / "run", *options, "--output", world / "student"],
        ["calibrate", world / "run", "--fit-on", "validation", "--output", world / "calibrated"],
        ["calibrate", world / "run", "--fit-on", "validation", "--method", "isotonic", "--output",
         world / "isotonic"],
        ["compare", "--methods", "plain,cls-mixup", "--seeds", "0,1", *options, "--executor", "inline",
         "--output", world / "comparison"],
    ]  # fmt: skip
    for command in commands:
        assert run_calmix(*command) == 0, command
    (world / "scores.csv").write_bytes(b"label,prob_0,prob_1\n" + b"0,.9,.1\n1,.2,.8\n0,.3,.7\n" * 20)
    (world / "cartography").mkdir()
    for epoch in range(3):
        records = [
            {"guid": n, f"logits_epoch_{epoch}": [n % 5 - epoch, epoch * (n % 3)], "gold": n % 2}
            for n in range(30)
        ]
        lines = "\n".join(map(json.dumps, records))
        (world / "cartography" / f"dynamics_epoch_{epoch}.jsonl").write_text(lines + "\n")
    lines = "\n".join(f"{n},{n * 0.1 - 1}" for n in range(30))
    (world / "aum_values.csv").write_text(f"sample_id,aum\n{lines}\n")
    build_images(world)
    return world


def build_newer(world: Path) -> None:
    """Several labels, soft labels, weights, a model for another domain, a preset."""
    import shutil

    import calmix.reproduction

    build_multi_label(world)
    tags = world / "tags.csv"
    options = training_options(world, train=tags, validation=tags, test=tags, label_separator=";")
    commands: list[list[object]] = [
        ["train", *options, "--output", world / "tagged"],
        ["adapt", world / "run", "--labelled", world / "other.csv", "--output", world / "adapted"],
    ]
    for command in commands:
        assert run_calmix(*command) == 0, command
    lines = [
        f"{'a;b' if n % 3 else 'c' if n % 2 else ''},{n % 7 / 7:.2f},{n % 5 / 5:.2f},0.5" for n in range(40)
    ]
    (world / "several.csv").write_text("\n".join(["label,prob_a,prob_b,prob_c", *lines]) + "\n")
    lines = [f"{n % 2},{n % 7 / 7:.2f},{n % 3},{'xy'[n % 2]}" for n in range(40)]
    (world / "weighed.csv").write_text("\n".join(["label,prob,weight,group", *lines]) + "\n")
    texts, labels = sentences(24)
    votes = [
        {"text": text, "label": label, "votes": [label, "positive"], "p_positive": 0.25, "p_negative": 0.75,
         "weight": n % 4}
        for n, (text, label) in enumerate(zip(texts, labels, strict=True))
    ]  # fmt: skip
    (world / "votes.jsonl").write_text("\n".join(map(json.dumps, votes)) + "\n")
    presets = Path(calmix.reproduction.__file__).parent / "presets"
    shutil.copy(presets / "mixup-uncertainty" / "text.yaml", world / "preset.yaml")


def build_images(world: Path) -> None:
    from PIL import Image

    generator = np.random.default_rng(0)
    for name in ("cat", "dog"):
        folder = world / "images" / name
        folder.mkdir(parents=True)
        for number, kind in enumerate(("png", "jpg", "bmp", "gif")):
            pixels = generator.integers(0, 256, (8, 8, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(folder / f"{number}.{kind}")
    arrays = {"images": generator.integers(0, 256, (8, 6, 6), dtype=np.uint8), "labels": np.arange(8) % 2}
    np.savez(world / "images.npz", **arrays)
