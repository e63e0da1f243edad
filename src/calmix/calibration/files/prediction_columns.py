"""The columns of a predictions file as arrays: scores, labels and row ids."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from calmix.calibration.class_names import ClassLookup, label_name, listed, same_when_typed
from calmix.calibration.input_checks import BadRow, Integers, both_classes
from calmix.calibration.predictions import ScoreKind
from calmix.io.arrow_values import text_array, texts_of
from calmix.io.json_records import decode_json
from calmix.user_error import UserError, argument

MISSING_REMEDY = "write it, or leave the row out"


@dataclass(frozen=True)
class ScoreColumns:
    """The columns of a predictions file: one list column, one column per class in class order, or a single
    one for two classes."""

    kind: ScoreKind
    names: tuple[str, ...]
    one_list: bool
    class_names: tuple[str, ...] | None
    has_indices: bool
    """Whether labels that are numbers are class indices: not where columns carry the classes' names."""
    is_single: bool = False
    """Whether the one column is the probability, or the log-odds, of the second of two classes."""
    is_told: bool = True
    """Whether a name says that these are logits, or probabilities."""
    others: tuple[str, ...] = ()
    """Columns of numbers that may be further classes."""
    label: str | None = "label"
    row_id: str | None = "row_id"

    def with_columns(self, label: str | None, row_id: str | None) -> ScoreColumns:
        return replace(self, label=label, row_id=row_id)

    @property
    def title(self) -> str:
        return self.names[0] if len(self.names) == 1 else f"{self.names[0]}..{self.names[-1]}"

    def name_of(self, place: int | None) -> str:
        """The column that holds the score of one class."""
        return self.title if self.one_list or self.is_single or place is None else self.names[place]

    def scores(self, file: Path, table: pa.Table, *, first_row: int) -> npt.NDArray[np.floating[Any]]:
        """[rows, classes]; nulls, words and lists of unequal length are errors that name their row."""
        if self.one_list:
            return _from_lists(file, self.names[0], table.column(self.names[0]), first_row)
        columns = [_numbers(file, name, table.column(name), first_row) for name in self.names]
        if self.is_single:
            return self._both_classes(file, columns[0], first_row)
        dtype = np.result_type(*columns)
        scores = np.empty((len(table), len(columns)), dtype=dtype)
        for k, column in enumerate(columns):
            scores[:, k] = column
        return scores

    def _both_classes(self, file: Path, column: npt.NDArray[Any], first_row: int) -> npt.NDArray[np.float64]:
        try:
            return both_classes(column, self.kind)
        except BadRow as bad:
            raise UserError(
                bad.problem,
                file=file,
                row=first_row + bad.row + 1,
                column=self.names[0],
                remedy=f"log-odds go under the name 'logit', or {argument('logit_columns', self.names[0])}",
            ) from None

    def labels(
        self, file: Path, table: pa.Table, class_names: tuple[str, ...], *, first_row: int
    ) -> npt.NDArray[Any]:
        """Class indices. Names and booleans are looked up by name; so are numbers where columns are named."""
        label = str(self.label)
        column = table.column(label).combine_chunks()
        if pa.types.is_dictionary(column.type):  # a categorical column of pandas
            column = column.dictionary_decode()
        _refuse_nulls(file, label, column, first_row)
        if is_text(column.type):
            encoded = column.dictionary_encode()
            distinct, places = encoded.dictionary.to_pylist(), as_numpy(encoded.indices)
        elif pa.types.is_boolean(column.type):
            distinct, places = [False, True], as_numpy(column).astype(np.int64)
        elif not is_number(column.type):
            raise UserError(
                f"labels must be names or class indices, not values of the type {column.type}",
                file=file,
                column=label,
                remedy="write one class index, or name, per row",
            )
        elif self.has_indices:
            return as_numpy(column)
        else:
            values, places = np.unique(as_numpy(column), return_inverse=True)
            distinct = values.tolist()
        if not is_text(column.type) and (same := same_when_typed(class_names)) is not None:
            # A csv file does not say whether a label was written as the one or the other.
            raise UserError(
                f"labels that are read as {column.type} cannot tell the classes {same[0]!r} and {same[1]!r} "
                "apart",
                file=file,
                column=label,
                remedy="rename one of the classes, or write the labels as texts in a jsonl or parquet file",
            )
        lookup = ClassLookup(class_names)
        found = [lookup.find(label_name(value)) for value in distinct]
        by_value = np.array([-1 if place is None else place for place in found], dtype=np.int64)
        indices: Integers = by_value[places]
        unknown = np.flatnonzero(indices < 0)
        if unknown.size:
            row = int(unknown[0])
            raise UserError(
                f"unknown label {column[row].as_py()!r}",
                file=file,
                row=first_row + row + 1,
                column=label,
                remedy=self._label_remedy(class_names, column),
            )
        return indices

    def _label_remedy(self, class_names: tuple[str, ...], column: pa.Array) -> str:
        remedy = f"the classes of this file are: {listed(class_names)}; name one of them"
        if is_number(column.type) and not self.one_list and not self.is_single:
            option = "logit_columns" if self.kind == "logits" else "prob_columns"
            given = argument(option, ",".join(self.names))
            remedy += f", or give {given} if labels count them from 0 in this order"
        return remedy

    def row_ids(self, file: Path, table: pa.Table, *, first_row: int) -> npt.NDArray[np.str_] | None:
        if self.row_id is None:
            return None
        column = table.column(self.row_id).combine_chunks()
        _refuse_nulls(file, self.row_id, column, first_row)
        return text_array(texts_of(column, file, self.row_id))


def _from_lists(
    file: Path, name: str, column: pa.ChunkedArray, first_row: int
) -> npt.NDArray[np.floating[Any]]:
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if isinstance(array, pa.ChunkedArray):  # no chunks at all
        array = pa.concat_arrays(array.chunks)
    _refuse_nulls(file, name, array, first_row)
    if pa.types.is_string(array.type) or pa.types.is_large_string(array.type):
        array = _parse_lists(file, name, array, first_row)
    if not (
        pa.types.is_list(array.type)
        or pa.types.is_large_list(array.type)
        or pa.types.is_fixed_size_list(array.type)
    ):
        raise UserError(
            "one number per row, but a list with one number per class is needed",
            file=file,
            column=name,
            remedy="write lists, or one column per class",
        )
    is_fixed = pa.types.is_fixed_size_list(array.type)
    lengths = np.full(len(array), array.type.list_size) if is_fixed else as_numpy(array.value_lengths())
    unequal = np.flatnonzero(lengths != lengths[0])
    if unequal.size:
        row = int(unequal[0])
        raise uneven_lists(file, name, first_row + row + 1, int(lengths[row]), int(lengths[0]))
    if lengths[0] == 0:
        raise UserError(
            "an empty list", file=file, row=first_row + 1, column=name, remedy="write one number per class"
        )
    flat = _flat(array)
    if flat.null_count:
        position = _first_null(flat)
        raise UserError(
            "a score is missing",
            file=file,
            row=first_row + position // int(lengths[0]) + 1,
            column=name,
            remedy=MISSING_REMEDY,
        )
    values = as_numpy(flat)
    if values.dtype.kind not in "fiu":
        row, word = _first_word(flat)
        raise _no_number(file, name, first_row + row // int(lengths[0]) + 1, word)
    return values.reshape(len(array), int(lengths[0]))


def _flat(array: pa.Array) -> pa.Array:
    """All values of an array of lists without nulls, end to end; `flatten` would import pyarrow.compute."""
    if pa.types.is_fixed_size_list(array.type):
        size = array.type.list_size
        return array.values.slice(array.offset * size, len(array) * size)
    first, last = array.offsets[0].as_py(), array.offsets[-1].as_py()
    return array.values.slice(first, last - first)


def _parse_lists(file: Path, name: str, column: pa.Array, first_row: int) -> pa.Array:
    """Lists written as text in a csv: "[0.2, 0.8]"."""
    parsed = []
    for row, text in enumerate(column.to_pylist()):
        try:
            numbers = [float(number) for number in decode_json(text)]
        except (ValueError, TypeError, OverflowError):
            raise UserError(
                f"not a list of numbers: {text!r:.60}",
                file=file,
                row=first_row + row + 1,
                column=name,
                remedy="write it like [0.2, 0.8]",
            ) from None
        parsed.append(numbers)
    return pa.array(parsed, type=pa.list_(pa.float64()))


def _numbers(file: Path, name: str, column: pa.ChunkedArray, first_row: int) -> npt.NDArray[np.floating[Any]]:
    array = column.combine_chunks()
    _refuse_nulls(file, name, array, first_row)
    if pa.types.is_null(array.type) or not (
        pa.types.is_floating(array.type) or pa.types.is_integer(array.type)
    ):
        row, word = _first_word(array)
        raise _no_number(file, name, first_row + row + 1, word)
    values = as_numpy(array)
    return values if values.dtype.kind == "f" else values.astype(np.float64)


def _first_word(array: pa.Array) -> tuple[int, Any]:
    """The first value that is no number, and its place; the first of all where they could be numbers."""
    for row, value in enumerate(array.to_pylist()):
        try:
            float(value)
        except (TypeError, ValueError):
            return row, value
    return 0, array[0].as_py()


def _no_number(file: Path, name: str, row: int, value: Any) -> UserError:
    return UserError(
        f"scores must be numbers, not {value!r:.60}",
        file=file,
        row=row,
        column=name,
        remedy="write a number, such as 0.25",
    )


def uneven_lists(file: Path, name: str, row: int, found: int, first: int) -> UserError:
    return UserError(
        f"{found} scores where the first row has {first}",
        file=file,
        row=row,
        column=name,
        remedy="write one score per class in every row",
    )


def is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))


def as_numpy(array: pa.Array) -> npt.NDArray[Any]:
    """The values of an array without nulls. Numbers do not go through `to_numpy`, which imports pandas."""
    if (pa.types.is_integer(array.type) or pa.types.is_floating(array.type)) and len(array):
        return np.from_dlpack(array)
    return np.asarray(array.to_numpy(zero_copy_only=False))


def _first_null(array: pa.Array) -> int:
    return next(place for place, value in enumerate(array) if not value.is_valid)


def _refuse_nulls(file: Path, name: str, array: pa.Array, first_row: int) -> None:
    if array.null_count:
        row = _first_null(array)
        raise UserError(
            "a value is missing", file=file, row=first_row + row + 1, column=name, remedy=MISSING_REMEDY
        )
