"""The image files of these experiments, from a folder of data sets in calmix's format.

    python results/mixup_uncertainty/data.py DATA OUT

DATA holds fashion_mnist (train and test), mnist and notmnist (test), each an .npz. Seeded samples keep a run
at a few minutes of one core; validation is drawn from training and taken out of it.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

# Of each file: the names of its samples and their sizes; what is left, if named, comes last.
SAMPLES: dict[str, dict[str, int | None]] = {
    "fashion_mnist/train": {"fashion_mnist/validation": 1000, "fashion_mnist/train": None},
    "fashion_mnist/test": {"fashion_mnist/test": 4000},
    "mnist/test": {"mnist/test": 2000},
    "notmnist/test": {"notmnist/test": 2000},
}


def main() -> None:
    source, target = Path(sys.argv[1]), Path(sys.argv[2])
    for name, parts in SAMPLES.items():
        with np.load(source / f"{name}.npz") as arrays:
            images, labels, label_names = (arrays[key] for key in ("images", "labels", "label_names"))
        order = np.random.default_rng(0).permutation(len(labels))
        for part, size in parts.items():
            taken, order = np.split(order, [len(order) if size is None else size])
            path = target / f"{part}.npz"
            path.parent.mkdir(parents=True, exist_ok=True)
            np.savez_compressed(path, images=images[taken], labels=labels[taken], label_names=label_names)


if __name__ == "__main__":
    main()
