"""Small real images to test with: scikit-learn's handwritten digits, as arrays, files and folders."""

from __future__ import annotations

from pathlib import Path

import numpy as np


def digits(rows: int, *, skip: int = 0, side: int = 8, classes: int = 10):
    """uint8 images [rows, side, side] and their labels; every pixel repeated to reach the side."""
    from sklearn.datasets import load_digits

    data = load_digits()
    chosen = np.flatnonzero(data.target < classes)[skip : skip + rows]
    images = np.round(data.images[chosen] * (255 / 16)).astype(np.uint8)
    return images.repeat(side // 8, axis=1).repeat(side // 8, axis=2), data.target[chosen]


def write_npz(path: Path, rows: int, **settings) -> Path:
    images, labels = digits(rows, **settings)
    np.savez(path, images=images, labels=labels.astype(np.uint8))
    return path


def write_folders(directory: Path, rows: int, **settings) -> Path:
    """DIRECTORY/<digit>/<number>.png"""
    from PIL import Image

    for number, (image, label) in enumerate(zip(*digits(rows, **settings), strict=True)):
        folder = directory / str(label)
        folder.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).save(folder / f"{number:04}.png")
    return directory
