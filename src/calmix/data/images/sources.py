"""Where images come from: a folder with one folder per class, an `.npz` of arrays, a column of a table."""

from __future__ import annotations

from collections.abc import Sequence, Set
from pathlib import Path
from typing import Any

import numpy as np

from calmix.data.images.stored import EXTENSIONS, ImageFacts, StoredImage, as_pnm, inspect
from calmix.io.npz_arrays import array_texts, read_npz
from calmix.io.table import DataTable, shorten
from calmix.user_error import UserError

NPZ_REMEDY = "save 'images' (uint8: rows x height x width [x 3]), 'labels' and, if you like, 'label_names'"
COLUMN_REMEDY = "write the path of an image file, relative to this file, or its bytes"
FILE_REMEDY = "remove it or save it again"
# Folders of these names are the splits of a data set, also where their images lie in no class.
SPLIT_FOLDERS = frozenset({"train", "validation", "valid", "val", "dev", "test"})


def is_image_file(path: Path) -> bool:
    return path.suffix.lower() in EXTENSIONS and not path.name.startswith(".") and path.is_file()


def find_image_folder(directory: Path, split: str) -> Path | None:
    """The folder of a split: DIRECTORY/split/<class>/... or DIRECTORY/split/..., or DIRECTORY itself if its
    folders are classes, or if it holds nothing but images."""
    own, folders = directory / split, class_folders(directory)
    if own.is_dir() and class_folders(own):
        return own
    if _holds_images(directory) or _are_classes(folders, SPLIT_FOLDERS | {split}):
        return directory
    if own in folders:
        return own
    # One folder of images alone, or beside splits in folders of classes, is what can be meant.
    return folders[0] if len(folders) == 1 else None


def _are_classes(folders: Sequence[Path], splits: Set[str]) -> bool:
    """Whether folders with images right in them are classes: `train` beside `car` and `bus` is one, beside
    `test` or alone it is a split."""
    names = {folder.name for folder in folders}
    return not names <= splits and len(names & splits) <= 1


def class_folders(directory: Path) -> list[Path]:
    """The folders with images in them, in the order of their names."""
    return [folder for folder in _folders(directory) if _holds_images(folder)]


def _folders(directory: Path) -> list[Path]:
    return sorted(path for path in directory.iterdir() if path.is_dir() and not path.name.startswith("."))


def _holds_images(folder: Path) -> bool:
    return any(is_image_file(path) for path in folder.iterdir())


def folder_table(directory: Path) -> DataTable:
    """Columns `image`, `file` and, where the images lie in one folder per class, `label`."""
    classes = class_folders(directory)
    if classes and _holds_images(directory):
        loose = next(path.name for path in sorted(directory.iterdir()) if is_image_file(path))
        raise UserError(
            f"an image outside the folders of the classes: {loose}",
            file=directory,
            remedy="put every image into the folder of its class",
        )
    for folder in _folders(directory) if classes else ():
        if folder not in classes:  # a class that nobody would miss before it is asked for
            raise UserError(
                "no image in this folder, beside folders of classes",
                file=folder,
                remedy=f"put images of {', '.join(EXTENSIONS)} right into it, or move it away",
            )
    files = [
        file for folder in classes or [directory] for file in sorted(folder.iterdir()) if is_image_file(file)
    ]
    for file in files:
        if (shown := str(file).encode(errors="replace").decode()) != str(file):
            raise UserError("a name that is no text in UTF-8", file=shown, remedy="rename it")
    columns: dict[str, list[Any]] = {
        "image": [str(file.absolute()) for file in files],
        "file": [file.relative_to(directory).as_posix() for file in files],
    }
    if classes:
        columns["label"] = [file.parent.name for file in files]
    return DataTable(str(directory), tuple(columns), len(files), columns.__getitem__)


def passed_over(directory: Path) -> list[str]:
    """The files under a folder of images that are none of its rows; hidden ones aside."""
    used = class_folders(directory) or [directory]
    files = (path.relative_to(directory) for path in sorted(directory.rglob("*")) if path.is_file())
    return [
        file.as_posix()
        for file in files
        if not any(part.startswith(".") for part in file.parts)
        and not (directory / file.parent in used and is_image_file(directory / file))
    ]


def npz_image_table(path: str | Path) -> DataTable:
    """Columns `image` and, where the file has labels, `label`: by name where it has `label_names`."""

    def wrong(problem: str) -> UserError:
        return UserError(problem, file=path, remedy=NPZ_REMEDY)

    arrays = read_npz(path, remedy=NPZ_REMEDY)
    held = ", ".join(arrays) or "nothing"
    if "images" not in arrays:
        raise wrong(f"no array 'images'; it holds: {held}")
    images = arrays["images"]
    if images.ndim == 4 and images.shape[3] == 1:
        images = images[:, :, :, 0]
    if images.dtype != np.uint8 or images.ndim not in (3, 4) or (images.ndim == 4 and images.shape[3] != 3):
        shape = " x ".join(map(str, images.shape))
        raise wrong(f"'images' is {images.dtype}, {shape}")
    if not images.size:
        raise wrong("'images' is empty")
    labels = None
    if "labels" in arrays:
        labels = _npz_labels(path, arrays["labels"], arrays.get("label_names"), len(images))

    def read_column(name: str) -> Sequence[Any]:
        if name == "label":
            assert labels is not None
            return labels
        return [as_pnm(image) for image in images]

    names = ("image",) if labels is None else ("image", "label")
    return DataTable(str(path), names, len(images), read_column)


def _npz_labels(path: str | Path, labels: Any, names: Any, rows: int) -> list[Any]:
    def wrong(problem: str) -> UserError:
        return UserError(problem, file=path, remedy=NPZ_REMEDY)

    def texts(array: Any, name: str) -> list[str]:
        return array_texts(array, str(path), name, NPZ_REMEDY)

    if labels.shape != (rows,):
        raise wrong(f"{rows} images but 'labels' of shape {labels.shape}")
    if labels.dtype.kind not in "iuUS":
        raise wrong(f"'labels' is {labels.dtype}, neither whole numbers nor names")
    values: list[Any] = labels.tolist() if labels.dtype.kind in "iu" else texts(labels, "labels")
    if names is None or labels.dtype.kind in "US":
        return values
    if names.ndim != 1 or names.dtype.kind not in "US":
        raise wrong(f"'label_names' is {names.dtype} of shape {names.shape}, no list of names")
    listed = texts(names, "label_names")
    if labels.min() < 0 or labels.max() >= len(listed):
        raise wrong(f"'labels' from {labels.min()} to {labels.max()} but {len(listed)} 'label_names'")
    return [listed[value] for value in values]


def read_images(table: DataTable, column: str, option: str) -> tuple[list[StoredImage], list[ImageFacts]]:
    """The images of a column and what each holds; every one is decoded once."""
    images: list[StoredImage] = []
    facts: list[ImageFacts] = []
    source = Path(table.source)
    for row, value in enumerate(table.column(column, option), start=1):
        if isinstance(value, dict):  # the form in which datasets of the hub keep images
            value = value.get("bytes") or value.get("path")
        if isinstance(value, str) and value.strip():
            file = (source.parent / value).absolute()
            image: StoredImage = str(file)
            try:
                content = file.read_bytes()
            except (OSError, ValueError) as error:  # ValueError: a NUL in the name
                reason = getattr(error, "strerror", None) or str(error)
                problem = f"no image file {shorten(value, 80)!r} ({reason})"
                raise table.error(problem, row, column, COLUMN_REMEDY) from None
        elif isinstance(value, bytes) and value:
            image = content = value
        else:
            reason = "no image" if not value else f"not an image: {shorten(str(value))}"
            raise table.error(reason, row, column, COLUMN_REMEDY)
        try:
            fact = inspect(content)
        except ValueError as error:
            if isinstance(image, bytes):
                raise table.error(str(error), row, column, COLUMN_REMEDY) from None
            if source.is_dir():  # the rows of a folder have no number that a reader knows
                raise UserError(str(error), file=image, remedy=FILE_REMEDY) from None
            raise table.error(f"{error}: {shorten(str(value), 80)}", row, column, FILE_REMEDY) from None
        images.append(image)
        facts.append(fact)
    if len({type(image) for image in images}) > 1:  # a column is of one kind
        images = [image if isinstance(image, bytes) else Path(image).read_bytes() for image in images]
    return images, facts
