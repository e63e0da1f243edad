"""The files of published datasets in their authors' own formats, as tables of raw values."""

from __future__ import annotations

import csv
import io
import re
import struct
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from calmix.data.images.sources import folder_table
from calmix.data.images.stored import as_pnm
from calmix.io.opening import open_bytes
from calmix.io.table import DataTable
from calmix.io.tables import read_table
from calmix.user_error import UserError

if TYPE_CHECKING:
    from calmix.data.published.catalogue import PublishedDataset

Arrays = tuple[NDArray[np.uint8], Sequence[Any]]
CIFAR_PIXELS = 3 * 32 * 32
STL_SHAPE = (3, 96, 96)


def read_published_files(dataset: PublishedDataset, directory: Path, split: str) -> DataTable:
    """A split of the authors' archive, unpacked in `directory`."""
    if not directory.is_dir():
        raise UserError("no such directory", file=directory, remedy="unpack the authors' archive there")
    if dataset.folders:
        return _from_folders(dataset, directory, split)
    files = find_files(dataset, directory, split)
    if dataset.images is not None:
        return _from_images(dataset.images, files, directory)
    if dataset.lines is not None:
        return _from_lines(dataset.lines, files, directory)
    if dataset.header is not None and not _has_header(files[0], dataset):
        return _without_header(dataset.header, files[0])
    return read_table(files[0])


def find_files(dataset: PublishedDataset, directory: Path, split: str) -> list[Path]:
    """The files of a split: all of them where the rows lie in several, else the first that is there."""
    if split not in dataset.files:
        held = ", ".join(dataset.files)
        raise UserError(
            f"{dataset.name} has no split {split!r}", file=directory, remedy=f"its splits are: {held}"
        )
    named = dataset.files[split]
    found = [
        next((p for p in (directory / name, directory / f"{name}.gz") if p.is_file()), None) for name in named
    ]
    are_parts = dataset.images is not None or dataset.lines is not None
    present = [file for file in found if file is not None]
    if not present or (are_parts and len(present) < len(named)):
        missing = [name for name, file in zip(named, found, strict=True) if file is None]
        word = " and " if are_parts else " or "
        raise UserError(
            f"no {split} file of {dataset.name} in this directory",
            file=directory,
            remedy=f"put {word.join(missing)} there, or its .gz, as the authors name it",
        )
    return present if are_parts else present[:1]


def _has_header(file: Path, dataset: PublishedDataset) -> bool:
    """Whether the first line names the columns, as in copies of a dataset that others made."""
    assert dataset.header is not None
    with open_bytes(file) as stream:
        first = stream.readline().decode("utf-8", errors="replace").rstrip("\r\n")
    names = {name.strip('"') for name in first.split(dataset.header["delimiter"])}
    wanted = dataset.columns["label"]
    return bool(names & ({wanted} if isinstance(wanted, str) else set(wanted)))


def _without_header(header: Mapping[str, Any], file: Path) -> DataTable:
    names: list[str] = list(header["names"])
    is_tab = header["delimiter"] == "\t"
    with open_bytes(file) as stream:
        text = io.TextIOWrapper(stream, encoding="utf-8", newline="")
        quoting: Literal[0, 3] = csv.QUOTE_NONE if is_tab else csv.QUOTE_MINIMAL
        rows = []
        for number, row in enumerate(
            csv.reader(text, delimiter=header["delimiter"], quoting=quoting), start=1
        ):
            if len(row) != len(names):
                raise UserError(
                    f"{len(row)} columns where the source has {len(names)}",
                    file=file,
                    row=number,
                    remedy=f"the columns are {', '.join(names)}",
                )
            rows.append(row)
    columns = dict(zip(names, zip(*rows, strict=True), strict=True))
    return DataTable(str(file), tuple(names), len(rows), columns.__getitem__)


def _from_lines(lines: Mapping[str, Any], files: Sequence[Path], directory: Path) -> DataTable:
    """One row per line; the label is in the line, or is the extension of the file's name."""
    pattern = re.compile(lines["pattern"])
    columns: dict[str, list[Any]] = {"text": [], "label": []}
    for file in files:
        with open_bytes(file) as stream:
            content = stream.read().decode(lines["encoding"])
        extension = file.name.removesuffix(".gz").rpartition(".")[2]
        for number, line in enumerate(content.splitlines(), start=1):
            match = pattern.fullmatch(line.strip())
            if match is None:
                raise UserError("not a row of this dataset", file=file, row=number)
            found = match.groupdict()
            columns["text"].append(found["text"])
            columns["label"].append(found.get("label", extension))
    return DataTable(str(directory), tuple(columns), len(columns["text"]), columns.__getitem__)


def _from_folders(dataset: PublishedDataset, directory: Path, split: str) -> DataTable:
    if split not in dataset.folders:
        held = ", ".join(dataset.folders)
        raise UserError(
            f"{dataset.name} has no split {split!r}", file=directory, remedy=f"its splits are: {held}"
        )
    folder = directory / dataset.folders[split]
    if not folder.is_dir():
        raise UserError(
            f"no {split} folder of {dataset.name} in this directory",
            file=directory,
            remedy=f"unpack the authors' archive there: {dataset.folders[split]}/",
        )
    if dataset.images is not None:
        return folder_table(folder)
    # Folders that are no classes, such as IMDb's reviews without a label, are not read.
    files = [file for name in sorted(dataset.labels) for file in sorted(folder.glob(f"{name}/*.txt"))]
    columns = {
        "text": [file.read_text(encoding="utf-8") for file in files],
        "label": [file.parent.name for file in files],
    }
    if not files:
        raise UserError("no text files in the folders of the classes", file=folder)
    return DataTable(str(folder), tuple(columns), len(files), columns.__getitem__)


def _from_images(images: Mapping[str, Any], files: Sequence[Path], directory: Path) -> DataTable:
    readers: dict[str, Callable[[Mapping[str, Any], Sequence[Path]], Arrays]] = {
        "idx": _idx,
        "cifar": _cifar,
        "stl": _stl,
    }
    pixels, labels = readers[images["format"]](images, files)
    if len(pixels) != len(labels):
        raise UserError(f"{len(pixels)} images and {len(labels)} labels", file=directory)

    def read_column(name: str) -> Sequence[Any]:
        return labels if name == "label" else [as_pnm(image) for image in pixels]

    return DataTable(str(directory), ("image", "label"), len(pixels), read_column)


def _idx(images: Mapping[str, Any], files: Sequence[Path]) -> Arrays:
    """MNIST's own format: a magic number, the sizes, the bytes."""
    arrays = []
    for file in files:
        content = _content(file)
        if len(content) < 4 or content[:3] != b"\x00\x00\x08":
            raise UserError("not an idx file of bytes", file=file)
        dimensions = content[3]
        begin = 4 + 4 * dimensions
        sizes = struct.unpack(f">{dimensions}I", content[4:begin])
        if len(content) - begin != int(np.prod(sizes)):
            raise UserError("the file is cut off", file=file, remedy="download it again")
        arrays.append(np.frombuffer(content, dtype=np.uint8, offset=begin).reshape(sizes))
    return arrays[0], arrays[1].tolist()


def _cifar(images: Mapping[str, Any], files: Sequence[Path]) -> Arrays:
    """The binary version: label bytes (of CIFAR-100 the fine one is second), then the planes of red, green
    and blue. The Python version is pickled, and never read: a pickle runs code."""
    before = int(images["label_bytes"])
    rows = np.concatenate([_records(file, before + CIFAR_PIXELS) for file in files])
    planes = rows[:, before:].reshape(-1, 3, 32, 32)
    return np.ascontiguousarray(planes.transpose(0, 2, 3, 1)), rows[:, before - 1].tolist()


def _stl(images: Mapping[str, Any], files: Sequence[Path]) -> Arrays:
    """Planes in columns first; labels from 1."""
    pixels = _records(files[0], int(np.prod(STL_SHAPE))).reshape(-1, *STL_SHAPE)
    labels = np.frombuffer(_content(files[1]), dtype=np.uint8)
    return np.ascontiguousarray(pixels.transpose(0, 3, 2, 1)), labels.tolist()


def _records(file: Path, size: int) -> NDArray[np.uint8]:
    content = _content(file)
    if not content or len(content) % size:
        raise UserError(f"not records of {size} bytes", file=file, remedy="take the binary version, unpacked")
    return np.frombuffer(content, dtype=np.uint8).reshape(-1, size)


def _content(file: Path) -> bytes:
    with open_bytes(file) as stream:
        return stream.read()
