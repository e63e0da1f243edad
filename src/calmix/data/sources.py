"""Where a split is read from: a data file, a directory of splits, a dataset on the hub, or memory."""

from __future__ import annotations

import re
from pathlib import Path

from calmix.data.hub import hub_splits, read_hub_table
from calmix.data.images.embedded import embedded_table, has_embedded_split, is_embedded
from calmix.data.images.sources import class_folders, find_image_folder, folder_table, npz_image_table
from calmix.data.published.catalogue import has_published_split, is_published, published_table
from calmix.io.formats import EXTENSIONS_LISTED, data_extension, file_stem
from calmix.io.memory_tables import WHOLE, is_in_memory, memory_data
from calmix.io.table import DataTable
from calmix.io.tables import read_table
from calmix.user_error import UserError

# owner/name or name, and a configuration after a colon.
HUB_NAME = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?(:[\w.-]+)?")


def source_file(source: str | Path, split: str) -> Path | None:
    """The data file that holds a split; None of images in folders, embedded, in memory, on the hub."""
    path = Path(source)
    if is_embedded(source) or is_published(source) or is_in_memory(source) or is_hub_name(source):
        return None
    return find_split_file(path, split) if path.is_dir() else path


def read_source(source: str | Path, split: str) -> DataTable:
    """The table of a split. A plain file is itself whatever split is asked for."""
    if is_embedded(source):
        return embedded_table(str(source), split)
    if is_published(source):
        return published_table(str(source), split)
    if (data := memory_data(source)) is not None:
        return data.table(split)
    path = Path(source)
    if path.is_dir():
        file = find_split_file(path, split)
        folder = find_image_folder(path, split) if file is None else None
        if folder is not None:
            return folder_table(folder)
        if file is None:
            held = ", ".join(sorted(entry.name for entry in path.iterdir())[:10]) or "nothing"
            raise UserError(
                f"no {split} file in this directory; it holds: {held}",
                file=path,
                remedy=f"name it {split} with one of {EXTENSIONS_LISTED}; or one folder of images per class",
            )
        return _read_file(file)
    if is_hub_name(source):
        return read_hub_table(str(source), split)
    return _read_file(source)


def _read_file(path: str | Path) -> DataTable:
    """Archives of numpy hold images, all other files rows."""
    return npz_image_table(path) if data_extension(path) == ".npz" else read_table(path)


def has_split(source: str | Path, split: str) -> bool:
    """Whether a directory or hub dataset brings this split along; a plain file brings none."""
    if is_embedded(source):
        return has_embedded_split(str(source), split)
    if is_published(source):
        return has_published_split(str(source), split)
    if (data := memory_data(source)) is not None:
        return WHOLE not in data.tables and split in data.tables
    path = Path(source)
    if path.is_dir():
        if find_split_file(path, split) is not None:
            return True
        return (path / split).is_dir() and bool(class_folders(path / split))
    return is_hub_name(source) and split in hub_splits(str(source))


def find_split_file(directory: Path, split: str) -> Path | None:
    """The one data file of a directory that is named after the split."""
    files = sorted(
        entry
        for entry in directory.iterdir()
        if data_extension(entry) is not None and file_stem(entry) == split and entry.is_file()
    )
    if len(files) > 1:
        listed = ", ".join(file.name for file in files)
        raise UserError(f"several {split} files: {listed}", file=directory, remedy="keep one of them")
    return files[0] if files else None


def is_hub_name(source: str | Path) -> bool:
    """Whether a source that is not on disk has the form of a hub name and not that of a file.

    >>> is_hub_name("stanfordnlp/imdb"), is_hub_name("nyu-mll/glue:sst2")
    (True, True)
    >>> is_hub_name("reviews.csv"), is_hub_name("./reviews"), is_hub_name("data/old/reviews")
    (False, False, False)
    """
    if isinstance(source, Path) or Path(source).exists():
        return False
    # ".txt" or ".xlsx" is a file of an unknown kind; ".0" in "squad-2.0" is part of a name.
    has_extension = Path(source).suffix[1:].isalpha() or data_extension(source) is not None
    return HUB_NAME.fullmatch(source) is not None and not has_extension
