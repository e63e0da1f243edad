"""Numpy archives: plain arrays by name. Nothing is unpickled."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa

from calmix.io.formats import is_gzipped
from calmix.io.opening import check_proportion, open_bytes
from calmix.io.parquet_files import with_class_names
from calmix.io.parser_errors import refusing
from calmix.user_error import UserError

NPZ_REMEDY = "write it with numpy.savez(file, label=..., logits=...)"
NOT_PLAIN = "not an npz archive of plain arrays"
Array = np.ndarray[Any, Any]


def read_npz(path: str | Path, remedy: str = NPZ_REMEDY) -> dict[str, Array]:
    """All arrays of a file, gzipped or not."""
    source = str(path)
    with open_bytes(path) as packed:
        # Going back in a gzip stream would unpack it again from its start.
        stream = io.BytesIO(packed.read()) if is_gzipped(path) else packed
        return _arrays(stream, source, remedy)


def _arrays(stream: BinaryIO, source: str, remedy: str) -> dict[str, Array]:
    # Without numpy's own words, which advise to unpickle the file.
    with refusing(NOT_PLAIN, source, remedy, cite=False):
        stored = np.load(stream, allow_pickle=False)
        if isinstance(stored, np.ndarray):
            raise UserError("a single array (.npy) under the name .npz", file=source, remedy=remedy)
        with stored:
            for member in stored.zip.infolist():
                check_proportion(member.file_size, member.compress_size, source)
            arrays = {name: stored[name] for name in stored.files}
    for name, array in arrays.items():
        if not isinstance(array, np.ndarray):
            raise UserError(f"the member {name!r} is no array", file=source, remedy=remedy)
    return arrays


def npz_table(path: str | Path) -> pa.Table:
    """One column per array, `labels` as `label`; `class_names` go to the table's metadata."""
    source, arrays = str(path), read_npz(path)
    if "labels" in arrays and "label" not in arrays:
        arrays["label"] = arrays.pop("labels")
    names = arrays.pop("class_names", None)
    rows = len(arrays["label"]) if "label" in arrays and arrays["label"].ndim == 1 else None
    fields: dict[str, pa.Array] = {}
    for name, array in arrays.items():
        expected = rows if rows is not None else len(next(iter(fields.values()))) if fields else None
        if array.ndim == 0 or (expected is not None and len(array) != expected):
            problem = f"{rows} labels but" if rows is not None else "other rows than before,"
            raise UserError(
                f"{problem} shape {array.shape}",
                file=source,
                column=name,
                remedy="give every array one entry per row",
            )
        fields[name] = _npz_column(source, name, array)
    table = pa.table(fields)
    if names is None:
        return table
    if names.ndim != 1 or names.dtype.kind not in "USiufb":
        raise UserError("'class_names' is no list of names", file=source, remedy=NPZ_REMEDY)
    return with_class_names(table, array_texts(names, source, "class_names"))


def array_texts(array: Array, source: str, name: str, remedy: str = NPZ_REMEDY) -> list[str]:
    """The texts of an array of strings or bytes; numbers as they are written."""
    with refusing("not texts in UTF-8", source, remedy, column=name, cite=False):
        texts = [
            value.decode() if isinstance(value, bytes) else str(value) for value in array.ravel().tolist()
        ]
        for text in texts:
            text.encode()
    return texts


def _npz_column(source: str, name: str, array: Array) -> pa.Array:
    wide = array.astype(np.float32) if array.dtype == np.float16 else array
    problem = f"values of type {array.dtype} are no scores"
    with refusing(problem, source, NPZ_REMEDY, column=name, cite=False):
        if array.ndim == 1:
            return pa.array(array_texts(array, source, name) if array.dtype.kind in "US" else wide)
        if array.ndim == 2:
            flat = np.ascontiguousarray(wide).ravel()
            return pa.FixedSizeListArray.from_arrays(pa.array(flat), array.shape[1])
    raise UserError(
        f"an array of shape {array.shape} is no column", file=source, column=name, remedy=NPZ_REMEDY
    )
